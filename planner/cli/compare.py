"""``compare``: two to four scenarios beside each other, what differs, and the reason for every delta."""

from __future__ import annotations

from pathlib import PurePath

from planner.cli.configs import read_limited
from planner.cli.output import columns, json_text, plain
from planner.cli.parsing import CommandParser, UsageError
from planner.fields import scenario_from_json

_DESCRIPTION = (
    "Compares two to four scenarios; the first is the base. Deltas are split over the groups of inputs that differ, by "
    "the Shapley average over the orders of changing them, so that the reasons add up."
)
_REASONS = ("tokens_per_s_end_to_end", "tpot_s", "usd_per_million_output_tokens")


def run(command: str, arguments: list[str]) -> str:
    """The comparison as text, or the whole record with ``--json``. Raises PlanError."""
    parser = CommandParser(command, _DESCRIPTION)
    parser.add_argument("scenarios", nargs="*", metavar="FILE", help="scenarios or results as JSON, two to four")
    parser.add_argument("--metric", metavar="NAME", help="headline figure whose reasons are printed; all are in --json")
    options = parser.read(arguments)
    from planner.words.names import HEADLINE

    if options.metric is not None and options.metric not in HEADLINE:
        from planner.errors import unknown

        raise UsageError(unknown("--metric", options.metric, HEADLINE))
    files = options.scenarios
    if not 2 <= len(files) <= 4:
        raise UsageError(f"{len(files)} scenario files are given to compare; it takes two to four.")
    if files.count("-") > 1:
        raise UsageError("Standard input is given twice; it holds one scenario.")
    scenarios = [scenario_from_json(read_limited(name, "scenario")) for name in files]

    from planner.compare import compare

    found = compare(scenarios, [PurePath(name).stem if name != "-" else "standard input" for name in files])
    if options.json:
        return json_text(found, indent=None)

    from planner.words.comparison import delta_rows, difference_rows, figure_rows, reasons_sentence

    head = ("", *(side.label for side in found.sides))
    blocks = [columns(figure_rows(found), head)]
    for pair in found.pairs:
        base, other = found.sides[pair.base].label, found.sides[pair.other].label
        lines = [f"From {base} to {other}\n"]
        for metric in (options.metric,) if options.metric else _REASONS:
            delta = next(d for d in pair.deltas if d.metric == metric)
            lines.append(f"{reasons_sentence(found, pair, delta)}\n")
            if delta.parts:
                lines.append(
                    columns([("", *row) for row in delta_rows(delta)], ("", "from", "change", "of the base"), (2, 3))
                )
        if pair.merges:
            lines.append(f"Changed together: {pair.merged_because}\n")
        blocks.append("".join(lines))
    if found.differing:
        blocks.append(columns(difference_rows(found), ("What differs", *head[1:], "group")))
    blocks += [f"{note}\n" for note in found.notes]
    return plain("\n".join(blocks))
