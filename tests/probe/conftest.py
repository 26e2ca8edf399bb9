"""One short run of the probe on this machine, for all tests that need a real one."""

from __future__ import annotations

import time

import pytest

from planner import measured_machines
from planner.probe.recording import Recording
from planner.probe.run import measured_machine, record


@pytest.fixture(scope="session")
def timed_recording() -> tuple[Recording, float]:
    """The recording and the seconds that it took."""
    start = time.perf_counter()
    return record(quick=True), time.perf_counter() - start


@pytest.fixture(scope="session")
def kept(timed_recording: tuple[Recording, float]) -> str:
    """Digest of this machine as measured."""
    return measured_machines.register(measured_machine(timed_recording[0]))
