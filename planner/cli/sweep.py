"""``sweep``: plans a grid or a sequence of scenarios, as a table of text, JSON or CSV."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from planner.cli.configs import read_limited
from planner.cli.output import check_out, columns, plain
from planner.cli.parsing import CommandParser, UsageError
from planner.cli.plan import build, changes, scenario_parser
from planner.fields import json_tree, shown
from planner.files import write_whole
from planner.scenario import Scenario
from planner.sweep.text import FORMS

if TYPE_CHECKING:
    from planner.sweep import Point, Progress, SweepResult, SweepSpec
    from planner.sweep.run import OnPoint

_DESCRIPTION = (
    "Plans every point of a design over any fields of a scenario. The file is a scenario, a sweep of its own "
    "({base, axes, design, samples}) or the JSON of an earlier sweep; --axis and --set apply on top of it."
)
_AXIS = f"{FORMS}; may be repeated"
TEXT_ROWS = 60
SHOWN = ("tokens_per_s_user", "tokens_per_s_system", "usd_per_million_output_tokens")


def run(command: str, arguments: list[str]) -> str:
    """The sweep as text, JSON or CSV. Raises PlanError."""
    options = _parser(command).read(arguments)
    check_out(options.out)
    spec = _spec(options)

    from planner.sweep import executor, metric, sweep

    one = metric(options.metric)
    result = sweep(spec, executor=executor(options.executor), on_point=_progress(options.quiet))
    if options.json:
        return _out(options.out, result.to_json() + "\n", result)
    if options.csv or (options.out or "").lower().endswith(".csv"):
        from planner.sweep.table import to_csv

        return _out(options.out, to_csv(result, _link), result)
    if options.out:
        return _out(options.out, result.to_json() + "\n", result)
    return _text(result, one.key)


def _parser(command: str) -> CommandParser:
    parser = scenario_parser(command, _DESCRIPTION)
    add = parser.add_argument
    add("--axis", metavar="PATH=VALUES", action="append", default=[], help=_AXIS)
    add("--design", metavar="KIND", default=None, help="grid (the default) or sobol")
    add("--samples", metavar="N", default=None, help="points of a sobol design")
    add("--metric", metavar="NAME", default="usd_per_million_output_tokens", help="figure that the best is chosen on")
    add("--executor", metavar="WHERE", default=None, help="here, processes, processes:N or dask:ADDRESS")
    add("--csv", action="store_true", help="print CSV with all inputs of every point")
    add("--out", metavar="FILE", default=None, help="write to a file: .csv is CSV, all else JSON")
    add("--quiet", action="store_true", help="say nothing while it runs")
    return parser


def _spec(options: argparse.Namespace) -> SweepSpec:
    from planner.sweep import spec_from
    from planner.sweep.text import axis_from

    data: dict[str, object] = {}
    if options.scenario is not None:
        text = read_limited(options.scenario, "scenario")
        found = json_tree(text, "the sweep")
        if isinstance(found, dict) and "spec" in found:
            found = found["spec"]
        if isinstance(found, dict) and "axes" in found:
            data = dict(found)
            options.scenario = None
    if "base" in data:
        from planner.fields import set_paths, validated

        data["base"] = set_paths(validated(data["base"]), changes(options))
    else:
        data["base"] = build(options)
    axes = data.get("axes", [])
    if options.axis:
        data["axes"] = [*(axes if isinstance(axes, list) else []), *(axis_from(text) for text in options.axis)]
    if not data.get("axes"):
        raise UsageError("A sweep needs an axis: --axis workload.batch=1,8,64, or a file with axes.")
    for name in ("design", "samples"):
        if getattr(options, name) is not None:
            data[name] = getattr(options, name)
    if options.samples is not None:
        data["samples"] = _whole("--samples", options.samples)
        data.setdefault("design", "sobol")
    return spec_from(data)


def _whole(option: str, text: str) -> int:
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        value = 0.5
    if not value.is_integer():
        raise UsageError(f"{option} takes a whole number, not {shown(text)}.")
    return int(value)


def _progress(quiet: bool) -> OnPoint | None:
    """A line on a terminal that says how far it is; nothing where nobody watches."""
    if quiet or not sys.stderr.isatty():
        return None

    def show(point: Point, progress: Progress) -> None:
        done, total = progress.done, progress.total
        sys.stderr.write(f"\r{done:,} of {total:,} points" + ("\n" if done == total else ""))
        sys.stderr.flush()

    return show


def _link(scenario: Scenario) -> str:
    """The part of an address that opens a scenario in the page; empty where it is too large for one."""
    from ui import address

    return "" if address.too_large(scenario) else f"?s={address.encode(scenario)}"


def _out(path: str | None, text: str, result: SweepResult) -> str:
    if path is None:
        return text
    write_whole(path, text.encode(), UsageError)
    done = sum(point.outcome.status != "not run" for point in result.points)
    return f"{done:,} of {len(result.points):,} points written to {path}. {result.stopped}".rstrip() + "\n"


def _text(result: SweepResult, key: str) -> str:
    from planner.sweep.about import label
    from planner.sweep.idle import idle_axes
    from planner.sweep.metrics import METRICS
    from planner.sweep.near_best import choose, left_out
    from planner.words.formats import significant
    from planner.words.names import BOUNDS

    choice = choose(result, key)
    keys = list(dict.fromkeys([key, *SHOWN]))
    header = ["point", *result.paths, *keys, "bound by or reason"]
    rows = []
    near = set(choice.near)
    for point in result.points[:TEXT_ROWS]:
        figures = ["" if point.figure(name) is None else significant(point.figure(name) or 0.0) for name in keys]
        mark = "*" if point.index == choice.best else "~" if point.index in near else ""
        why = BOUNDS.get(point.outcome.bound_by or "", "") if point.fits else point.outcome.reason
        if point.outcome.meets_slo is False:
            why += ", misses its targets"
        values = ["null" if value is None else str(value) for value in point.values]
        rows.append([f"{point.index}{mark}", *values, *figures, why])
    numbers = range(1 + len(result.paths), 1 + len(result.paths) + len(keys))
    first = result.stopped + "\n" if result.stopped else ""
    if choice.best is None:
        first += choice.sentence
    else:
        best = result.points[choice.best]
        value = significant(best.figure(key) or 0.0)
        first += f"Best on {METRICS[key].name}: point {best.index} (*), {value} {METRICS[key].unit}. {choice.sentence}"
        first += f" {left_out(result)}".rstrip()
    first += "".join(f" {label(path)} moves nothing here." for path in idle_axes(result))
    more = len(result.points) - TEXT_ROWS
    last = f"... and {more:,} more; --json, --csv or --out FILE has them all.\n" if more > 0 else ""
    return plain(f"{first}\n\n" + columns(rows, header=header, numbers=numbers) + last)
