"""``validate``: published claims held against the model. The code lives in :mod:`validation`."""

from __future__ import annotations

from planner.cli.output import columns, json_text
from planner.cli.parsing import CommandParser, UsageError

SUBJECT = "published"


def run(command: str, arguments: list[str]) -> str:
    """The table with counts by verdict, or with ``--json`` rows, counts and engine version. Raises PlanError."""
    parser = CommandParser(command, "Holds published claims against the model; takes about a minute.")
    parser.add_argument("subject", nargs="?", default=None, metavar=SUBJECT, help="what is held against the model")
    options = parser.read(arguments)
    if options.subject != SUBJECT:
        given = "nothing is given" if options.subject is None else f"{options.subject[:40]!r} is given"
        raise UsageError(f"{command} takes what is to be validated, and {given}; accepted is {SUBJECT}.")

    from planner import ENGINE_VERSION
    from validation.published import counts, rows
    from validation.published.table import lines, summary

    found = rows()
    if options.json:
        return json_text({"engine_version": ENGINE_VERSION, "counts": counts(found), "rows": found}, indent=None)
    header = ("id", "claim", "published", "predicted", "error", "verdict")
    return f"{summary(found)}\n\n" + columns(lines(found), header=header, numbers=(4,))
