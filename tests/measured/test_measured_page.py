"""The stored run is what the engine says now, and the page is written from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner import accuracy
from validation.measured import page
from validation.measured.coverage import coverage, inside
from validation.measured.report import Row, cells, row_of
from validation.measured.ship import points
from validation.measured.why import WHY

EVERY = 13  # a prime: the sample walks through sources, phases and regimes


@pytest.fixture(scope="module")
def sample() -> list[Row]:
    return [row_of(line) for line in points()[::EVERY]]


def test_predictions_are_the_stored_ones(sample: list[Row]) -> None:
    stored = {row["id"]: row for row in page.snapshot()["rows"]}
    assert len(stored) == len(points())
    for row in sample:
        kept = stored[row.id]["predicted_tokens_per_s"]
        if kept is None:
            assert row.predicted_tokens_per_s is None
        else:
            assert row.predicted_tokens_per_s == pytest.approx(kept, rel=0.01), row.id


def test_the_page_is_up_to_date() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.markdown(), "run python -m validation.measured"


def test_the_readme_has_the_table() -> None:
    readme = (Path(page.PAGE).parents[1] / "README.md").read_text(encoding="utf-8")
    assert page.summary_table(accuracy.residuals()) in readme, "paste the table of docs/validation.md"


def test_every_cell_over_its_bar_is_explained() -> None:
    over = [cell for cell in page.table(accuracy.residuals()) if page.misses(cell)]
    text = page.reasons(accuracy.residuals())
    for cell in over:
        assert f"**{page.cell_name(cell)}**: {WHY[cell['regime'], cell['phase']]}" in text
    assert page.reasons([]) == "Every cell with a bar reaches it."


def test_runs_with_an_assumed_key_quantity_are_scored_apart() -> None:
    rows = accuracy.residuals()
    poor = [row for row in rows if row.quality == page.POOR]
    assert poor
    cells = page.table(rows)
    assert sum(cell["rows"] for cell in cells if cell["quality"]) == len(poor)
    assert sum(cell["rows"] for cell in cells) == len(rows)
    assert all(cell["bar"] is None for cell in cells if cell["quality"])


def test_every_row_has_a_prediction_or_a_reason(sample: list[Row]) -> None:
    for row in sample:
        assert (row.predicted_tokens_per_s is None) == bool(row.reason)
        if row.predicted_tokens_per_s is not None and row.low_tokens_per_s is not None:
            assert row.high_tokens_per_s is not None
            assert row.low_tokens_per_s <= row.predicted_tokens_per_s <= row.high_tokens_per_s


def test_unusable_rows_stay_out_of_the_cells(sample: list[Row]) -> None:
    scored = [row for row in sample if row.usable and row.error is not None]
    assert any(not row.usable for row in sample)
    whole = [cell for cell in cells(sample) if cell["system_family"] == "all"]
    assert sum(cell["rows"] for cell in whole) == len(scored)


def test_measured_coverage_is_near_what_is_stated() -> None:
    rows = accuracy.residuals()
    found = coverage(rows)
    assert found.rows == len(rows)
    assert 0.8 - 2 * found.error <= found.share <= 0.8 + 2 * found.error
    assert found.groups == len({row.group for row in rows})
    assert 0 < found.of_runs <= 1


def test_a_machine_never_judges_itself() -> None:
    rows = accuracy.residuals()
    row = rows[0]
    wild = [other if other.group != row.group else row for other in rows]
    assert inside(row, wild) == inside(row, [other for other in rows if other.group != row.group])
