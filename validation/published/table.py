"""The rows as text for a terminal and as the page of the documentation."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from planner.words.formats import significant, trimmed
from validation.published.calibrations import Calibration, calibration, identifiers
from validation.published.predict import counts
from validation.published.records import VERDICTS, ClaimRow, Value

PAPERS = {
    "context-aware": "Context-aware CXL-NDP (arXiv 2512.04476)",
    "trimoe": "TriMoE (arXiv 2603.01058)",
    "monde": "MoNDE (arXiv 2405.18832)",
    "hermes": "Hermes (HPCA 2025)",
}
_HEADER = "| id | claim | published | predicted | error | verdict |\n|---|---|---|---|---|---|\n"
_PLAIN = str.maketrans({"\u00a0": " ", "\u202f": ",", "\u2009": " ", "\u2212": "-", "\u2014": "-", "|": "/"})
_INTRODUCTION = """# Published claims beside the model

<!-- Written by `python -m validation.published`; change the data in validation/published, not this page. -->

Each published figure of the two papers and of what they compare with, beside what the engine says for that setting.
`python -m planner validate published` computes it anew; this page is the run of engine {version}.

{summary}

**Error**: predicted / published - 1. A number and a range: 0 inside the range, else to its nearest end. Two ranges: low
with low and high with high, the larger error. A range from 0 is an upper limit.

{verdicts}

Constants that were fitted or chosen for a paper live in named calibrations, listed at the end with what each was fitted
on. They act only where a setting below names them (P1, R1): neither the defaults nor any other scenario has them.
"""


def _plain(text: str) -> str:
    return text.translate(_PLAIN)


def number(value: Value | None) -> str:
    """A figure or a range in three significant digits, "-" where there is none."""
    if value is None:
        return "-"
    if isinstance(value, tuple):
        return f"{_plain(significant(value[0]))} to {_plain(significant(value[1]))}"
    return _plain(significant(value))


def published(value: Value | None) -> str:
    """A published figure with the digits that it was published with."""
    if value is None:
        return "-"
    each = value if isinstance(value, tuple) else (value,)
    return " to ".join(_plain(trimmed(v, 5)) for v in each)


def percent(value: float | None) -> str:
    """A signed error in percent; as a factor where it is beyond tenfold."""
    if value is None:
        return "-"
    return f"{value:+.1%}".replace("%", " %") if abs(value) < 9 else f"{_plain(significant(value + 1.0))} times"


def summary(rows: Sequence[ClaimRow]) -> str:
    """Counts by verdict in one sentence."""
    found = [f"{n} {verdict.replace('_', ' ')}" for verdict, n in counts(rows).items() if n]
    return f"{len(rows)} claims: {', '.join(found)}."


README_FROM, README_TO = "<!-- claims: written by `python -m validation.published` -->\n", "<!-- end of claims -->\n"


def readme(rows: Sequence[ClaimRow]) -> str:
    """The paragraph of the README: the counts, what they mean, and where all rows are."""
    found = counts(rows)
    text = (
        f"Of {len(rows)} published figures of the two papers and their baselines, the model reproduces "
        f"{found['reproduced']} within 10 % and a further {found['near']} within 25 %; {found['calibrated']} are "
        "labelled calibrated because constants were fitted to them, and "
        f"{found['not_modelled']} lie outside the model. "
        f"{found['not_reproduced']} are not reproduced and {found['not_physical']} are not physical, each with the "
        "arithmetic. Where a figure hangs on one unpublished choice, it is shown under each, and no paper's constants "
        "act outside their named calibration: [all rows](docs/published_claims.md), "
        "`python -m planner validate published`, or the Claims page."
    )
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False) + "\n"


def readme_with(text: str, rows: Sequence[ClaimRow]) -> str:
    """The whole README with that paragraph between its marks. Raises ValueError without them."""
    before, first, rest = text.partition(README_FROM)
    _, last, after = rest.partition(README_TO)
    if not first or not last:
        raise ValueError("README.md has no marks for the summary of the claims")
    return before + first + readme(rows) + last + after


def lines(rows: Sequence[ClaimRow]) -> list[tuple[str, ...]]:
    """Id, claim, published, predicted, error, verdict of each row, as text."""
    return [
        (
            row.id,
            _plain(f"{row.text} ({row.model})" if row.model else row.text),
            f"{published(row.published)} {row.unit}",
            number(row.predicted),
            percent(row.error),
            row.verdict.replace("_", " "),
        )
        for row in rows
    ]


def markdown(rows: Sequence[ClaimRow], engine_version: str) -> str:
    """The text of ``docs/published_claims.md``."""
    verdicts = "\n".join(f"* `{name}`: {meaning}" for name, meaning in VERDICTS.items())
    parts = [_INTRODUCTION.format(version=engine_version, summary=f"**{summary(rows)}**", verdicts=verdicts)]
    for paper, title in PAPERS.items():
        own = [row for row in rows if row.paper == paper]
        parts.append(
            f"\n## {title}\n\n| id | claim | published | predicted | error | verdict |\n|---|---|---|---|---|---|\n"
        )
        parts.extend(f"| {' | '.join(line)} |\n" for line in lines(own))
        parts.extend(_details(row) for row in own)
    parts.append("\n## Calibrations\n")
    parts.extend(_calibration(calibration(name)) for name in identifiers())
    return "".join(parts)


def _details(row: ClaimRow) -> str:
    facts = [f"\n### {row.id}: {_plain(row.text)}\n\n"]
    facts.append(f"Published: {published(row.published)} {row.unit}; {row.source}, {row.certainty}.")
    if row.note:
        facts.append(f" Note: {row.note}.")
    if row.setting:
        facts.append(f"  \nSetting: {row.setting}. Predicted: {number(row.predicted)} ({percent(row.error)}).")
    if row.arithmetic:
        facts.append(f"  \n{row.arithmetic}")
    facts.extend(f"  \nContradiction: {text}" for text in row.contradictions)
    facts.append("\n")
    if row.alternatives:
        facts.append("\n| under another choice | published | predicted | error |\n|---|---|---|---|\n")
        facts.extend(
            f"| {_plain(a.setting)} | {published(a.published)} | {number(a.predicted)} | {percent(a.error)} |\n"
            for a in row.alternatives
        )
    return "".join(facts)


def _calibration(found: Calibration) -> str:
    parts = [f"\n### {found.name}\n\n{found.paper}. {found.sentence}\n"]
    parts.append("\n| constant | value | kind | fitted on | sets | note |\n|---|---|---|---|---|---|\n")
    for c in found.constants:
        value = f"{c.value:g}" if isinstance(c.value, float | int) else c.value
        sets = f"`{'.'.join(c.path)}`" + (f" of {', '.join(c.policies)}" if c.policies else "")
        parts.append(
            f"| {c.name} | {value} {c.unit} | {c.kind} | {', '.join(c.fitted_on) or '-'} | {sets} | {c.note} |\n"
        )
    parts.append("\nChoices made with the published figures in view, or where nothing is published:\n\n")
    parts.extend(f"* {text}\n" for text in found.selected)
    for name, data in found.data.items():
        parts.append(
            f"\nData `{name}`: {data['source']}\n\n| K or scenario | P(0) | P(1) | P(2) |\n|---|---|---|---|\n"
        )
        for kind in ("probabilities", "uniform", "generated"):
            shown = {"probabilities": "recorded, K =", "uniform": "uniform router, K =", "generated": "generated,"}[
                kind
            ]
            parts.extend(
                f"| {shown} {key} | {' | '.join(f'{p:.3f}' for p in row)} |\n" for key, row in data[kind].items()
            )
    return "".join(parts)
