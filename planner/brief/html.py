"""The brief as HTML: one file with everything in it, or the part of it that a page shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from planner.brief import view
from planner.brief.records import Brief
from planner.brief.svg import frontier_image, frontier_svg

_FOLDER = Path(__file__).parent / "templates"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Everything that a template prints is escaped, and a name that it misspells is an error."""
    return Environment(
        loader=FileSystemLoader(_FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip


def style() -> str:
    """The style sheet, which both forms share."""
    return (_FOLDER / "brief.css").read_text(encoding="utf-8")


def body(brief: Brief, inks: Mapping[str, str] | None = None) -> str:
    """The brief itself, without head and style: for a page that has both.

    ``inks`` (names of the style's colours and their values) makes the chart an image that carries its own colours, for
    pages that take no SVG among their HTML.
    """
    chart = ""
    if brief.frontier is not None:
        chart = frontier_svg(brief.frontier) if inks is None else frontier_image(brief.frontier, inks)
    # The chart escapes its own text; everything else is escaped by the template.
    return _environment().get_template("body.html.j2").render(brief=brief, view=view, chart=Markup(chart))


def html(brief: Brief) -> str:
    """One self-contained file: no script, no outside request, light and dark, printed on A4 or Letter."""
    page = _environment().get_template("page.html.j2")
    return page.render(brief=brief, style=Markup(style()), body=Markup(body(brief)))
