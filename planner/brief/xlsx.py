"""The brief as a workbook: inputs, results, options, frontier, assumptions, and the economics as live formulas.

Every text is written as a text, whatever it begins with: no cell of a name or a note is a formula or a link.
"""

from __future__ import annotations

import io
import re
from typing import Any

import xlsxwriter

from planner.brief.economics import Line, lines
from planner.brief.records import Brief
from planner.brief.tables import Cell, Sheet, sheets

LONGEST = 32_767  # characters of a cell
WIDEST = 60
_ILLEGAL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def xlsx(brief: Brief) -> bytes:
    """The workbook as bytes."""
    out = io.BytesIO()
    book = xlsxwriter.Workbook(
        out, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    )
    book.set_properties({"title": _clean(brief.title)[:200], "comments": f"Tierline {brief.engine_version}"})
    book.set_calc_mode("auto")
    bold = book.add_format({"bold": True, "text_wrap": True, "valign": "top", "bottom": 1})
    tables = sheets(brief)
    for sheet in tables[:2]:
        _table(book, sheet, bold)
    _economics(book, brief)
    for sheet in tables[2:]:
        _table(book, sheet, bold)
    book.close()
    return out.getvalue()


def _table(book: Any, sheet: Sheet, bold: Any) -> None:
    page = book.add_worksheet(sheet.name)
    page.freeze_panes(1, 1)
    for column, text in enumerate(sheet.head):
        page.write_string(0, column, text, bold)
        longest = max([len(text), *(len(str(row[column])) for row in sheet.rows if row[column] is not None)])
        page.set_column(column, column, min(max(longest, 8), WIDEST))
    for number, row in enumerate(sheet.rows, 1):
        for column, value in enumerate(row):
            _write(page, number, column, value)


def _write(page: Any, row: int, column: int, value: Cell, style: Any = None) -> None:
    if value is None:
        return
    if isinstance(value, bool):
        page.write_boolean(row, column, value, style)
    elif isinstance(value, (int, float)):
        page.write_number(row, column, value, style)
    else:
        page.write_string(row, column, _clean(value)[:LONGEST], style)


def _clean(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return _ILLEGAL.sub("\ufffd", text.encode("utf-8", "replace").decode("utf-8"))


def _economics(book: Any, brief: Brief) -> None:
    """Label, value, unit, what the plan says, note. Inputs are blue, as finance marks what may be typed over."""
    page = book.add_worksheet("Economics")
    bold = book.add_format({"bold": True})
    given = book.add_format({"font_color": "#0000FF"})
    wrap = book.add_format({"text_wrap": True, "valign": "top"})
    page.set_column(0, 0, 44)
    page.set_column(1, 1, 18)
    page.set_column(2, 2, 12)
    page.set_column(3, 3, 16)
    page.set_column(4, 4, WIDEST)
    rows = lines(brief)
    page.merge_range(0, 0, 0, 4, "", wrap)
    page.write_string(
        0, 0,
        "Blue values may be changed; black ones follow by formula. Column D holds what the plan says."
        if rows else "A plan that does not fit has no cost.", wrap,
    )  # fmt: skip
    for column, text in enumerate(("Economics", "Value", "Unit", "As planned", "Note")):
        page.write_string(1, column, text, bold)
    page.freeze_panes(2, 1)
    places = {line.key: f"$B${row}" for row, line in enumerate(rows, 3) if line.key}
    for row, line in enumerate(rows, 2):
        _line(page, row, line, places, bold, given)


def _line(page: Any, row: int, line: Line, places: dict[str, str], bold: Any, given: Any) -> None:
    strong = bold if line.kind in ("heading", "result") else None
    page.write_string(row, 0, _clean(line.label), strong)
    if line.kind == "heading":
        return
    if line.formula:
        page.write_formula(row, 1, "=" + line.formula.format(**places), strong, line.value)
    else:
        _write(page, row, 1, line.value, given)
    page.write_string(row, 2, line.unit)
    _write(page, row, 3, line.planned)
    if line.note:
        page.write_string(row, 4, _clean(line.note))
