"""Common to all tests: nobody's real library is touched, and Hypothesis has no deadline on a shared machine."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, settings

# Before anything of ours is imported: a person who runs the tests keeps their saved scenarios.
_data = tempfile.mkdtemp(prefix="tierline-tests-")
os.environ["TIERLINE_DATA"] = _data
os.environ.pop("TIERLINE_DATABASE_URL", None)

settings.register_profile(
    "tierline",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
    print_blob=True,
)
settings.load_profile("tierline")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(_data, ignore_errors=True)
