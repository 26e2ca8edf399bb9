"""The forms of a brief by the ending of a file's name."""

from __future__ import annotations

from collections.abc import Callable

from planner.brief.records import Brief
from planner.errors import PlanError, unknown


def _html(brief: Brief) -> bytes:
    from planner.brief.html import html

    return html(brief).encode()


def _pdf(brief: Brief) -> bytes:
    from planner.brief.pdf import pdf

    return pdf(brief)


def _xlsx(brief: Brief) -> bytes:
    from planner.brief.xlsx import xlsx

    return xlsx(brief)


def _csv(brief: Brief) -> bytes:
    from planner.brief.csv import csv_text

    return csv_text(brief).encode()


def _json(brief: Brief) -> bytes:
    return (brief.model_dump_json(indent=2) + "\n").encode()


FORMATS: dict[str, tuple[Callable[[Brief], bytes], str]] = {
    "html": (_html, "text/html"),
    "pdf": (_pdf, "application/pdf"),
    "xlsx": (_xlsx, "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    "csv": (_csv, "text/csv"),
    "json": (_json, "application/json"),
}
"""Ending of the file's name -> what writes it, and its media type."""


def export(brief: Brief, form: str) -> bytes:
    """The brief in one of :data:`FORMATS`. Raises PlanError for an unknown form, or a PDF without a browser."""
    if form not in FORMATS:
        raise PlanError(unknown("The form of the brief", form, FORMATS))
    return FORMATS[form][0](brief)
