"""``import-times`` checks a table of measured expert times and keeps it; ``export-times`` writes the planner's own."""

from __future__ import annotations

from planner.cli.output import json_text
from planner.cli.parsing import CommandParser, UsageError
from planner.fields.sentences import shown

EXPORT = "export-times"


def run(command: str, arguments: list[str]) -> str:
    """What was imported or written. Raises PlanError with a sentence."""
    return _export(command, arguments) if command == EXPORT else _import(command, arguments)


def _import(command: str, arguments: list[str]) -> str:
    parser = CommandParser(
        command, "Checks a table of expert times and keeps it, so that scenarios can name it by its digest."
    )
    parser.add_argument("file", metavar="FILE", help="CSV with the columns device, tokens, seconds, if wanted format")
    options = parser.read(arguments)

    from planner import time_tables
    from planner.time_table_io import read_table

    table = read_table(options.file)
    digest = time_tables.register(table)
    curves = [
        {
            "device": c.device,
            "format": c.format or None,
            "rows": len(c.tokens),
            "tokens": [c.tokens[0], c.tokens[-1]],
            "falling_at_tokens": list(c.falling),
        }
        for c in table.curves
    ]
    if options.json:
        return json_text({"digest": digest, "source": table.source, "curves": curves})
    lines = [
        f"{c.name}: {len(c.tokens)} rows, {c.tokens[0]:,} to {c.tokens[-1]:,} tokens"
        + (f"; faster at {c.falling[0]:,} tokens than at fewer, the longest time so far is used" if c.falling else "")
        + ".\n"
        for c in table.curves
    ]
    return "".join(lines) + f"Kept on this machine; a scenario of trimoe names it time_table = {digest}.\n"


def _export(command: str, arguments: list[str]) -> str:
    from planner.cli.plan import build, scenario_parser

    parser = scenario_parser(
        command,
        "Writes the seconds of an expert against its tokens on GPU and CPU, as the planner computes them for a "
        "scenario of policy trimoe, into a CSV that can be edited and imported.",
    )
    parser.add_argument("--out", metavar="FILE", required=True, help="CSV file to write")
    given = parser.read(arguments)
    scenario = build(given)

    from planner.context import resolve
    from planner.policies import check_options, get
    from planner.policies.trimoe import TriMoe
    from planner.policies.trimoe_times import default_table
    from planner.time_table_io import write_table

    policy = get(scenario.policy.id)
    if not isinstance(policy, TriMoe):
        raise UsageError(f"policy.id is {shown(scenario.policy.id)}; times are exported for 'trimoe'.")
    check_options(policy, scenario.policy.options)
    ctx = resolve(scenario)
    missing = policy.missing(ctx.machine)
    if missing:
        raise UsageError(f"{policy.name} needs {' and '.join(missing)}; this system has none.")
    table = default_table(ctx, scenario.workload.batch * ctx.tokens_per_sequence)
    write_table(table, given.out)
    rows = sum(len(c.tokens) for c in table.curves)
    if given.json:
        return json_text({"file": given.out, "rows": rows, "curves": [[c.device, c.format] for c in table.curves]})
    return f"Wrote {rows:,} rows to {given.out}; edit it, then import it with import-times.\n"
