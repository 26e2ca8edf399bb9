"""``plan``: a scenario from a file and from flags, planned, as JSON or as a page of text."""

from __future__ import annotations

import argparse

from planner.cli.configs import config_file, is_config_argument, name_of, read_limited
from planner.cli.parsing import CommandParser, UsageError
from planner.fields import scenario_from_json, set_paths, shown
from planner.fields.sentences import nearest
from planner.scenario import Scenario

_DESCRIPTION = (
    "Plans a scenario. Flags apply on top of the file, --set on top of the flags; without a file the defaults are "
    "planned. `python -m planner fields` lists every path that --set takes."
)


def run(command: str, arguments: list[str]) -> str:
    """The plan as text, or with ``--json`` the whole result with its ``headline``. Raises PlanError."""
    options = scenario_parser(command).read(arguments)
    scenario = build(options)

    import planner

    result = planner.plan(scenario)
    if options.json:
        from planner.cli.output import json_text

        return json_text(result, indent=None)
    from planner.cli.report import report

    return report(result)


def build(options: argparse.Namespace) -> Scenario:
    """The scenario that file and flags describe. Raises ScenarioError or UsageError."""
    scenario = Scenario()
    if options.scenario is not None:
        scenario = scenario_from_json(read_limited(options.scenario, "scenario"))
    return set_paths(scenario, changes(options))


def changes(options: argparse.Namespace) -> list[tuple[str, object]]:
    """What preset, flags and ``--set`` change, in that order."""
    return [*_preset(options), *_flags(options), *_settings(options.set)]


def scenario_parser(command: str, description: str = _DESCRIPTION) -> CommandParser:
    """A parser with all the flags that describe a scenario."""
    parser = CommandParser(command, description)
    parser.add_argument(
        "scenario", nargs="?", metavar="SCENARIO", help="scenario or result as JSON; - reads standard input"
    )
    add = parser.add_argument
    add("--model", metavar="ID", help="id of a catalog model, or the path of a config.json")
    add("--config", metavar="FILE", help="config.json of the model; --model then only names it")
    add("--system", metavar="ID", help="id of a catalog system")
    add("--policy", metavar="ID", help="id of a policy")
    add("--preset", metavar="ID", help="workload preset that the other flags start from")
    add("--batch", metavar="N", help="sequences decoding at once in the whole system")
    add("--prompt-tokens", metavar="N", help="prompt length, tokens")
    add("--output-tokens", metavar="N", help="output length, tokens")
    add("--weight-bits", metavar="BITS", help="bits of the routed experts that do not stay on the GPU; null = default")
    add("--trace", metavar="ID", help="shipped routing trace; none = the generator")
    add("--seed", metavar="N", help="seed of the routing generator")
    add("--set", metavar="PATH=VALUE", action="append", default=[], help="set any field; may be repeated")
    return parser


def _preset(options: argparse.Namespace) -> list[tuple[str, object]]:
    if options.preset is None:
        return []
    from planner.presets import presets

    known = {entry.id: entry for entry in presets()}
    if options.preset not in known:
        close = nearest(options.preset, known)
        near = f" (the nearest is {close[0]})" if close else ""
        raise UsageError(f"--preset is {shown(options.preset)}; it takes {', '.join(known)}{near}.")
    return [(f"workload.{name}", value) for name, value in known[options.preset].values().items()]


def _flags(options: argparse.Namespace) -> list[tuple[str, object]]:
    changes: list[tuple[str, object]] = []
    if options.model is not None or options.config is not None:
        changes += _model(options.model, options.config)
    for option, path in (
        ("system", "system.id"),
        ("policy", "policy.id"),
        ("batch", "workload.batch"),
        ("prompt_tokens", "workload.prompt_tokens"),
        ("output_tokens", "workload.output_tokens"),
        ("seed", "routing.seed"),
    ):
        value = getattr(options, option)
        if value is not None:
            changes.append((path, value))
    if options.weight_bits is not None:
        # A named format in the file would win over the bits that were just asked for.
        changes += [("policy.weight_bits", options.weight_bits), ("policy.expert_format", None)]
    if options.trace is not None:
        wanted = options.trace.strip().casefold() not in ("", "none", "null")
        changes += [("routing.source", "trace" if wanted else "generated"), ("routing.trace", options.trace)]
    return changes


def _model(model: str | None, config: str | None) -> list[tuple[str, object]]:
    """A catalog id, or a config.json with the name that it is shown under."""
    if config is None and model is not None and not is_config_argument(model):
        return [("model.id", model), ("model.config", None)]
    file = config if config is not None else model or ""
    name = model if config is not None and model is not None else name_of(file)
    return [("model.id", name), ("model.config", config_file(file))]


def _settings(settings: list[str]) -> list[tuple[str, object]]:
    changes: list[tuple[str, object]] = []
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals or not path.strip():
            raise UsageError(f"--set is {shown(setting)}; it takes PATH=VALUE such as workload.batch=64.")
        changes.append((path, value))
    return changes
