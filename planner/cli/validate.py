"""``validate``: published claims, or a table of measured runs, held against the model. The code: :mod:`validation`."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from planner.cli.output import columns, json_text
from planner.cli.parsing import CommandParser, UsageError
from planner.csv_text import harmless
from planner.words.formats import significant

if TYPE_CHECKING:
    from validation.measured.report import Row

PUBLISHED, MEASURED = "published", "measured"
MOST_SHOWN = 60


def run(command: str, arguments: list[str]) -> str:
    """The table with counts by verdict or errors by cell, or with ``--json`` all rows. Raises PlanError."""
    parser = CommandParser(
        command,
        "Holds published claims, the published measurements, or a CSV of measured runs against the model. The CSV "
        "needs the columns model, gpu or cpu, batch, phase and tokens_per_s, and takes those of "
        "validation/measured/points.csv.",
    )
    parser.add_argument(
        "subject",
        nargs="?",
        default=None,
        metavar="SUBJECT",
        help=f"{PUBLISHED} (claims), {MEASURED} (the measurements that come with the project), or FILE.csv",
    )
    parser.add_argument("--out", metavar="FILE", help="write a row for each run to this CSV as well")
    parser.add_argument("--workers", metavar="N", help="processes; one for each core if left out")
    options = parser.read(arguments)
    if options.subject == PUBLISHED:
        return _published(options)
    if options.subject is None:
        raise UsageError(
            f"{command} takes what is to be validated, and nothing is given; accepted is {PUBLISHED}, {MEASURED} or "
            "the path of a CSV file of runs."
        )
    return _measured(options)


def _published(options: argparse.Namespace) -> str:
    from planner import ENGINE_VERSION
    from validation.published import counts, rows
    from validation.published.table import lines, summary

    found = rows()
    if options.json:
        return json_text({"engine_version": ENGINE_VERSION, "counts": counts(found), "rows": found}, indent=None)
    header = ("id", "claim", "published", "predicted", "error", "verdict")
    return f"{summary(found)}\n\n" + columns(lines(found), header=header, numbers=(4,))


def _measured(options: argparse.Namespace) -> str:
    from planner import ENGINE_VERSION
    from validation.measured.reading import read_file
    from validation.measured.report import as_json, cells
    from validation.measured.ship import POINTS
    from validation.measured.stream import rows

    path = POINTS if options.subject == MEASURED else Path(options.subject)
    found: list[Row] = []
    stopped = ""
    out = _opened(options.out)
    try:
        lines = rows(read_file(path), _workers(options.workers))
        for row in lines:
            found.append(row)
            if out is not None:
                _write(out, row, first=len(found) == 1)
            _progress(len(found))
    except KeyboardInterrupt:
        stopped = f"Stopped after {len(found):,} rows.\n"
    finally:
        _progress(None)
        if out is not None:
            out.close()
    if not found and not stopped:
        raise UsageError(f"{path} has a header and no rows.")
    if options.json:
        return json.dumps(as_json(ENGINE_VERSION, found), ensure_ascii=False) + "\n"
    return stopped + _text(found, cells(found))


def _workers(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 256:
        raise UsageError(f"--workers is {text[:40]!r}; it takes a whole number from 1 to 256.")
    return int(text)


def _opened(name: str | None) -> TextIO | None:
    if name is None:
        return None
    try:
        return Path(name).open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise UsageError(f"--out {name[:200]!r} cannot be written: {error.strerror or error}.") from None


def _write(out: TextIO, row: Row, first: bool) -> None:
    record = {**row.record(), "notes": "; ".join(row.notes)}
    writer = csv.DictWriter(out, list(record))
    if first:
        writer.writeheader()
    writer.writerow({key: harmless(value) for key, value in record.items()})
    out.flush()


def _progress(done: int | None) -> None:
    if not sys.stderr.isatty():
        return
    if done is None:
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)
    elif done % 10 == 0:
        print(f"\r{done:,} rows", end="", file=sys.stderr, flush=True)


def _text(found: list[Row], by_cell: list[dict[str, object]]) -> str:
    header = ("id", "predicted tok/s", "interval", "measured", "error", "bound by", "range")
    shown = [_cells(row) for row in found[:MOST_SHOWN]]
    text = columns(shown, header=header, numbers=(1, 3, 4))
    if len(found) > MOST_SHOWN:
        text += f"... and {len(found) - MOST_SHOWN:,} more rows; --out FILE or --json gives all.\n"
    missing = [row for row in found if row.predicted_tokens_per_s is None]
    if missing:
        text += f"\n{len(missing):,} of {len(found):,} rows have no prediction:\n"
        text += "".join(f"  {row.id}: {row.reason}\n" for row in missing[:MOST_SHOWN])
    doubted = [(row.id, note) for row in found for note in row.notes if note.startswith("tokens_per_s is ")]
    if doubted:
        text += f"\n{len(doubted):,} of {len(found):,} rows look like another unit:\n"
        text += "".join(f"  {ident}: {note}\n" for ident, note in doubted[:MOST_SHOWN])
    again = sum(note.startswith("the same run as ") for row in found for note in row.notes)
    if again:
        text += f"\n{again:,} of {len(found):,} rows ask the same as an earlier one, which was planned once.\n"
    if by_cell:
        names = ("regime", "phase", "engine", "rows", "median error", "p75", "p90", "coverage of 80 %")
        text += "\n" + columns([_cell(cell) for cell in by_cell], header=names, numbers=(3, 4, 5, 6, 7))
    return text


def _cells(row: Row) -> tuple[str, ...]:
    def number(value: float | None) -> str:
        return "" if value is None else significant(value)

    interval = (
        "" if row.low_tokens_per_s is None else f"{number(row.low_tokens_per_s)} - {number(row.high_tokens_per_s)}"
    )
    error = "" if row.error is None else f"{100 * row.error:+.0f} %"
    inside = {None: "", True: "inside", False: "outside"}[row.in_validated_range]
    return (
        row.id,
        number(row.predicted_tokens_per_s),
        interval,
        number(row.measured_tokens_per_s),
        error,
        row.bound_by or "",
        inside,
    )


def _cell(cell: dict[str, object]) -> tuple[str, ...]:
    def share(name: str) -> str:
        value = cell[name]
        return "" if value is None else f"{100 * float(str(value)):.0f} %"

    words = (str(cell["regime"]), str(cell["phase"]), str(cell["system_family"]), str(cell["rows"]))
    return (*words, share("median"), share("p75"), share("p90"), share("coverage"))
