"""The brief as one CSV file: every table under each other, one cell of it a line, with all inputs."""

from __future__ import annotations

from planner.brief.records import Brief
from planner.brief.tables import Sheet, sheets
from planner.csv_text import to_csv

HEAD = ("table", "row", "column", "value")


def csv_text(brief: Brief) -> str:
    """Columns ``table, row, column, value``: any tool turns it into the tables again (pandas: ``pivot``)."""
    return to_csv(HEAD, [cell for sheet in sheets(brief) for cell in _cells(sheet)])


def _cells(sheet: Sheet) -> list[tuple[object, ...]]:
    return [
        (sheet.name, number, column, value)
        for number, row in enumerate(sheet.rows, 1)
        for column, value in zip(sheet.head, row, strict=True)
        if value is not None and value != ""
    ]
