"""One run over all published claims, shared by the tests of this room."""

from __future__ import annotations

import pytest

from validation.published import ClaimRow, Run, rows


@pytest.fixture(scope="session")
def run() -> Run:
    return Run()


@pytest.fixture(scope="session")
def claimed(run: Run) -> dict[str, ClaimRow]:
    return {row.id: row for row in rows(run=run)}
