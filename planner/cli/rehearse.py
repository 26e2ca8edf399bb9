"""``rehearse``: one MoE layer of a scenario on the machine at hand, predicted beside rehearsed."""

from __future__ import annotations

import dataclasses
import math
import sys

from planner.cli.output import columns, json_text
from planner.cli.parsing import UsageError
from planner.cli.plan import build, scenario_parser
from planner.fields.sentences import shown

SHORTEST_S, LONGEST_S, USUAL_S = 0.1, 120.0, 20.0


def run(command: str, arguments: list[str]) -> str:
    """The rehearsal as text or JSON. Raises PlanError with a sentence."""
    parser = scenario_parser(
        command,
        "Builds one MoE layer of the scenario's real shape with random weights on this machine, runs it with the "
        "scenario's routing and placement, and shows predicted beside rehearsed seconds of each domain.",
    )
    parser.add_argument("--seconds", metavar="N", default=str(USUAL_S), help="time to run the layer, up to 120 s")
    parser.add_argument(
        "--machine", metavar="DIGEST", help="kept measured machine (of this very machine) instead of a probe"
    )
    options = parser.read(arguments)
    seconds = _seconds(options.seconds)
    scenario = build(options)

    from planner.probe.run import load_torch
    from planner.rehearsal.run import rehearse

    found = rehearse(scenario, seconds, load_torch(), options.machine, _say)
    if options.json:
        rows = [{**dataclasses.asdict(row), "error": row.error} for row in found.rows]
        return json_text({**dataclasses.asdict(found), "rows": rows})
    table = columns(
        [
            [
                r.domain,
                r.device,
                f"{r.runs:,}",
                f"{r.tokens:,}",
                f"{r.predicted_s * 1e3:,.2f}",
                f"{r.rehearsed_s * 1e3:,.2f}",
                f"{r.usual_s * 1e3:,.2f}",
                f"{r.error:+.0%}",
                r.note,
            ]
            for r in found.rows
        ],
        ("domain", "device", "experts run", "tokens", "predicted ms", "rehearsed ms", "median ms", "error", ""),
        range(2, 8),
    )
    lines = [
        f"{found.model}, layer {found.layer}, {found.policy}; {found.steps} sampled decode steps.\n",
        f"This machine: {found.machine}; figures from {found.measured}.\n\n",
        table,
        "\nRehearsed: each expert at its fastest repeat; error: predicted / rehearsed - 1.\n",
        *(f"{warning}\n" for warning in found.warnings),
    ]
    return "".join(lines)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not SHORTEST_S <= value <= LONGEST_S:
        raise UsageError(f"--seconds is {shown(text)}; it takes a number from {SHORTEST_S:g} to {LONGEST_S:g}.")
    return value


def _say(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(text + "\n")
