"""``sensitivity``: tornado over the inputs' ranges, elasticities, and flip points against other options."""

from __future__ import annotations

import argparse
from pathlib import PurePath
from typing import TYPE_CHECKING

from planner.cli.configs import read_limited
from planner.cli.output import check_out, columns, json_text, plain
from planner.cli.parsing import CommandParser, UsageError
from planner.cli.plan import build, scenario_parser
from planner.csv_text import to_csv
from planner.fields import scenario_from_json
from planner.files import write_whole

if TYPE_CHECKING:
    from planner.scenario import Scenario
    from planner.sensitivities import Elasticities, FlipReport, Tornado

_DESCRIPTION = (
    "Shows how far each input's own range moves the answer, what one per cent more of each input gives, and, with "
    "--option or --against, the value of each assumption at which another option becomes the one to take."
)
MOST_ROWS = 15


def run(command: str, arguments: list[str]) -> str:
    """The three analyses as text, JSON or CSV. Raises PlanError."""
    options = _parser(command).read(arguments)
    check_out(options.out)
    scenario = build(options)
    others = _others(options, scenario)

    import planner
    from planner.sensitivities import elasticities, flip_points, tornado
    from planner.sensitivities.tornado import KEYS
    from planner.sweep import executor, metric

    metric(options.metric)
    metric(options.objective)
    where = executor(options.executor)
    bars = [tornado(planner.plan(scenario, with_marginals=False), key) for key in KEYS]
    rows = elasticities(scenario, options.metric, options.input or None, executor=where)
    flips = None
    if others:
        names = ["this scenario", *(name for name, _ in others)]
        given = [scenario, *(one for _, one in others)]
        flips = flip_points(given, options.objective, options.input or None, names=names, executor=where)
    if options.json or (options.out and not options.csv and not options.out.lower().endswith(".csv")):
        found = {"scenario": scenario, "tornado": bars, "elasticities": rows, "flips": flips}
        if flips is not None:
            found["options"] = [one for _, one in others]
        return _write(options.out, json_text({name: _plain(value) for name, value in found.items()}, indent=None))
    if options.csv or options.out:
        return _write(options.out, _csv(scenario, bars, rows, flips))
    return plain(_text(bars, rows, flips))


def _parser(command: str) -> CommandParser:
    parser = scenario_parser(command, _DESCRIPTION)
    add = parser.add_argument
    add("--metric", metavar="NAME", default="tokens_per_s_system", help="figure of the elasticities")
    add("--input", metavar="PATH", action="append", default=[], help="inputs to vary; the default are all that matter")
    add("--option", metavar="FILE", action="append", default=[], help="another option, a scenario as JSON")
    add("--against", metavar="POLICY", action="append", default=[], help="another option, the scenario under a policy")
    add("--objective", metavar="NAME", default="usd_per_million_output_tokens", help="figure that options compete on")
    add("--executor", metavar="WHERE", default=None, help="here, processes, processes:N or dask:ADDRESS")
    add("--csv", action="store_true", help="print CSV")
    add("--out", metavar="FILE", default=None, help="write to a file: .csv is CSV, all else JSON")
    return parser


def _others(options: argparse.Namespace, scenario: Scenario) -> list[tuple[str, Scenario]]:
    from planner.best import variant
    from planner.policies import get

    found = [(PurePath(name).stem, scenario_from_json(read_limited(name, "scenario"))) for name in options.option]
    for policy in options.against:
        found.append((get(policy).id, variant(scenario, policy)))
    return found


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(one) for one in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if dump is not None else value


def _write(path: str | None, text: str) -> str:
    if path is None:
        return text
    write_whole(path, text.encode(), UsageError)
    return f"Written to {path}.\n"


def _csv(scenario: Scenario, bars: list[Tornado], rows: Elasticities, flips: FlipReport | None) -> str:
    from planner.sensitivities.rows import csv_rows

    names, found = csv_rows(scenario, bars, rows, flips)
    return to_csv(names, found)


def _text(bars: list[Tornado], rows: Elasticities, flips: FlipReport | None) -> str:
    from planner.words.formats import signed_percent, significant

    blocks = []
    for one in bars:
        table = [
            (bar.label, bar.range_text, signed_percent(bar.at_low), signed_percent(bar.at_high), bar.kind)
            for bar in one.bars[:MOST_ROWS]
        ]
        head = ("input", "its range", "at low, %", "at high, %", "kind")
        blocks.append(f"{one.sentence}\n\n" + columns(table, head, (2, 3)))
    slopes = [(row.label, significant(row.elasticity, 2)) for row in rows.rows[:MOST_ROWS]]
    blocks.append(f"1 % more of an input changes {rows.name} by so many %:\n\n" + columns(slopes, ("input", "%"), (1,)))
    if flips is not None:
        told: list[tuple[str, ...]] = [(flip.sentence,) for flip in flips.flips] or [
            ("No assumption changes that within its bounds.",)
        ]
        blocks.append(f"{flips.sentence}\n\n" + columns(told))
    else:
        blocks.append("Flip points need another option: --against POLICY or --option FILE.\n")
    return "\n".join(blocks)
