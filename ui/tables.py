"""Tables and legends as HTML: real headers with scope, numbers to the right, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from planner.csv_text import to_csv as to_csv
from ui.glossary import hover


@dataclass(frozen=True)
class Swatch:
    """A small square of a colour; hatched or outlined where that is how the chart draws it."""

    colour: str
    style: str = ""  # "", "hatched" or "outline"

    def html(self) -> str:
        kind = f" tl-{self.style}" if self.style else ""
        return f'<span class="tl-swatch{kind}" style="--c:{escape(self.colour)}" aria-hidden="true"></span>'


@dataclass(frozen=True)
class Row:
    """One row: its header, what stands under it in small, and its cells (none: the heading of the rows after it)."""

    name: str
    cells: Sequence[str]
    small: str = ""
    swatch: Swatch | None = None
    badge: str = ""
    bold: bool = False
    strong: str = ""  # a part of the name that is set bold
    more: Sequence[str] = ()  # paragraphs that unfold under what stands in small (with wide notes)


@dataclass(frozen=True)
class Table:
    """A table; ``muted`` lists the columns (from 0, the name excluded) that are set back."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Row]
    muted: frozenset[int] = field(default_factory=frozenset)
    wide_notes: bool = False  # what stands in small takes the whole width, as a line of its own
    words: bool = False  # cells are sentences: to the left, and on a phone each under its head
    stacked: bool = False  # on a phone the name takes the whole width too, and the cells stand under it

    def html(self) -> str:
        """The table as HTML; the caption is for screen readers."""
        head = "".join(self._head())
        kind = " tl-words" if self.words else ""
        stacked = f' tl-stacked" style="--n:{len(self.head) - 1}' if self.stacked else ""
        return (
            f'<div class="tl-scroll"><table class="tl-table{kind}{stacked}"><caption>{escape(self.caption)}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(self._row(row) for row in self.rows)}</tbody></table></div>"
        )

    def _head(self) -> list[str]:
        """Header cells; an empty one belongs to the header before it."""
        cells: list[str] = []
        for index, text in enumerate(self.head):
            if index and text == "":
                continue
            span = 1
            while index + span < len(self.head) and self.head[index + span] == "":
                span += 1
            kind = ' class="tl-n"' if index else ""
            wide = f' colspan="{span}"' if span > 1 else ""
            cells.append(f'<th scope="{"colgroup" if span > 1 else "col"}"{kind}{wide}>{hover(text)}</th>')
        return cells

    def _row(self, row: Row) -> str:
        name = escape(row.name)
        if row.strong and row.strong in row.name:
            name = name.replace(escape(row.strong), f"<b>{escape(row.strong)}</b>", 1)
        if row.badge:
            name += f' <span class="tl-badge">{escape(row.badge)}</span>'
        if row.small and not self.wide_notes:
            name += f'<span class="tl-small">{escape(row.small)}</span>'
        swatch = row.swatch.html() if row.swatch else ""
        heads = [f' data-head="{escape(text)}"' if self.words else "" for text in self.head[1:]]
        cells = "".join(
            f'<td{heads[index]} class="tl-n{" tl-muted" if index in self.muted else ""}">{escape(cell)}</td>'
            for index, cell in enumerate(row.cells)
        )
        bold = ' class="tl-bold"' if row.bold else ""
        if not row.cells and not row.small and len(self.head) > 1:  # the heading of the rows that follow
            return f'<tr{bold}><th scope="rowgroup" colspan="{len(self.head)}">{name}</th></tr>'
        if (row.small or row.more) and self.wide_notes:
            span = len(self.head)
            paragraphs = "".join(f"<p>{escape(text)}</p>" for text in row.more)
            unfolds = (
                f'<details class="tl-more"><summary>{escape(row.small or "More")}</summary>{paragraphs}</details>'
                if row.more
                else escape(row.small)
            )
            above = "tl-above tl-bold" if row.bold else "tl-above"
            return (
                f'<tr class="{above}"><th scope="row"><div>{swatch}<span>{name}</span></div></th>{cells}</tr>'
                f'<tr><td colspan="{span}" class="tl-beneath">{unfolds}</td></tr>'
            )
        return f'<tr{bold}><th scope="row"><div>{swatch}<span>{name}</span></div></th>{cells}</tr>'

    def csv(self) -> str:
        """The same rows as CSV, with what stands in small or unfolds as a last column."""
        head = [text or f"{self.head[index - 1]}, share" for index, text in enumerate(self.head)]
        rows = []
        for row in self.rows:
            blanks = [""] * (len(self.head) - 1 - len(row.cells))
            rows.append([row.name, *row.cells, *blanks, " ".join(filter(None, [row.small, *row.more]))])
        return to_csv([*head, "note"], rows)


@dataclass(frozen=True)
class LegendItem:
    """One colour of a chart: its name and what it holds."""

    swatch: Swatch
    name: str
    detail: str = ""


def legend(items: Sequence[LegendItem]) -> str:
    """A legend in columns, two lines per item."""
    parts = "".join(
        f'<div class="tl-key">{item.swatch.html()}<div><b>{escape(item.name)}</b>'
        f"{f'<br>{escape(item.detail)}' if item.detail else ''}</div></div>"
        for item in items
    )
    return f'<div class="tl-legend">{parts}</div>'


def inline_legend(items: Sequence[LegendItem], total: str = "") -> str:
    """A legend in one line: value first, then the name."""
    parts = "".join(
        f'<span class="tl-inline">{item.swatch.html()}<b>{escape(item.name)}</b> {escape(item.detail)}</span>'
        for item in items
    )
    end = f'<span class="tl-inline">= <b>{escape(total)}</b></span>' if total else ""
    return f'<div class="tl-line">{parts}{end}</div>'


def scale_legend(colours: Sequence[str], labels: Sequence[str], unit: str) -> str:
    """The sequential scale as a bar with its ends and middle named."""
    stops = ", ".join(escape(colour) for colour in colours)
    texts = "".join(f"<span>{escape(label)}</span>" for label in labels)
    return (
        f'<div class="tl-scale"><div style="background:linear-gradient(to right, {stops})" aria-hidden="true"></div>'
        f"<p>{texts}</p><small>{escape(unit)}</small></div>"
    )


def finding(text: str) -> str:
    """The sentence above a chart."""
    return f'<p class="tl-finding">{escape(text)}</p>'
