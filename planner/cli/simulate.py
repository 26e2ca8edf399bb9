"""``simulate``: hundreds of decode steps under TriMoE, the layout following the predicted load; and its ablation."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from planner.cli.output import columns, json_text, spaced
from planner.cli.parsing import UsageError
from planner.cli.plan import build, scenario_parser
from planner.fields.sentences import nearest, shown
from planner.words.formats import count, seconds, share, significant, trimmed

if TYPE_CHECKING:
    from planner.layout import AblationRow, Simulation, SimulationOptions

SECTION = "simulation."
_DESCRIPTION = (
    "Simulates consecutive decode steps of policy trimoe: load prediction, and experts that move in the shadow of GPU "
    "work. --set simulation.NAME=VALUE sets an option of the simulation: "
)


def run(command: str, arguments: list[str]) -> str:
    """A summary as text, or with ``--json`` the whole simulation. Raises PlanError."""
    from planner.layout import DEFAULT_STEPS, SimulationOptions

    names = ", ".join(SimulationOptions.model_fields)
    parser = scenario_parser(command, f"{_DESCRIPTION}{names}.")
    parser.add_argument("--steps", metavar="N", help=f"decode steps, {DEFAULT_STEPS} if left out")
    parser.add_argument(
        "--ablation", action="store_true", help="add GPU + NDP alone, + CPU, + refinement, + relayout, on these steps"
    )
    parser.add_argument(
        "--hot-share",
        metavar="SHARE",
        help="for --ablation: share of the active experts that GPU + NDP moves to the GPU; else by bandwidths",
    )
    given = parser.read(arguments)
    chosen, given.set = options_of(given.set)
    scenario = build(given)
    steps, hot = _steps(given, DEFAULT_STEPS), _hot_share(given)

    from planner.layout import ablation, simulate

    found = simulate(scenario, steps, chosen)
    rows = ablation(scenario, steps, chosen, hot) if given.ablation else ()
    if given.json:
        if not given.ablation:
            return json_text(found, indent=None)
        return json_text({"simulation": found, "ablation": list(rows)}, indent=None)
    return spaced(summary(found) + ("\n" + table(rows) if rows else ""))


def options_of(settings: list[str]) -> tuple[SimulationOptions, list[str]]:
    """The settings of the simulation, and those that are left for the scenario. Raises UsageError."""
    from pydantic import ValidationError

    from planner.layout import SimulationOptions

    changes: dict[str, object] = {}
    others = []
    for setting in settings:
        path, equals, value = setting.partition("=")
        name = path.strip()
        if not equals or not name.startswith(SECTION):
            others.append(setting)
            continue
        name = name.removeprefix(SECTION)
        if name not in SimulationOptions.model_fields:
            close = nearest(name, SimulationOptions.model_fields)
            near = f"; the nearest is {SECTION}{close[0]}" if close else ""
            raise UsageError(f"There is no option {shown(SECTION + name)}{near}.")
        changes[name] = _value(value.strip())
    try:
        return SimulationOptions.model_validate(changes), others
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        name = str(detail["loc"][0])
        field = SimulationOptions.model_fields[name]
        reason = str(detail["msg"]).removeprefix("Input ")
        raise UsageError(
            f"{SECTION}{name} is {shown(detail['input'])}; it {reason[:1].lower()}{reason[1:]} ({field.description})."
        ) from None


def _value(text: str) -> object:
    if text.casefold() in ("none", "null", ""):
        return None
    switches = {"on": True, "off": False, "true": True, "false": False, "yes": True, "no": False}
    if text.casefold() in switches:
        return switches[text.casefold()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _steps(given: argparse.Namespace, default: int) -> int:
    from planner.routing.sequence import MAX_STEPS

    if given.steps is None:
        return default
    try:
        steps = int(str(given.steps).replace(",", ""))
    except ValueError:
        steps = 0
    if not 1 <= steps <= MAX_STEPS:
        raise UsageError(f"--steps is {shown(given.steps)}; it takes a whole number from 1 to {MAX_STEPS:,}.")
    return steps


def _hot_share(given: argparse.Namespace) -> float | None:
    if given.hot_share is None:
        return None
    try:
        value = float(given.hot_share)
    except ValueError:
        value = -1.0
    if not 0.0 < value <= 1.0:
        raise UsageError(
            f"--hot-share is {shown(given.hot_share)}; it takes a share above 0 and up to 1, such as 0.0588."
        )
    return value


def summary(found: Simulation) -> str:
    """The simulation in words and two columns; plain spaces."""
    used, moved = found.utilisation, found.bytes_per_step
    accuracy = (
        "no prefetch or relayout was decided"
        if found.decision_accuracy is None
        else f"{_percent(found.decision_accuracy)} of {count(found.decisions)} prefetches and relayouts also gain "
        "under the true loads"
    )
    rows = [
        ("Speed", f"{significant(found.tokens_per_s)} tokens/s of the system, mean step {seconds(found.mean_step_s)}"),
        ("Load prediction", f"relative L1 error {_percent(found.prediction_error)} per layer and step"),
        ("Decisions", accuracy),
        (
            "Moved per step",
            f"{_gigabytes(moved['prefetch'])} prefetched, {_gigabytes(moved['relayout'])} relaid out, "
            f"{_gigabytes(moved['rebalance'])} rebalanced",
        ),
        ("Late", f"{trimmed(found.tasks_late_mean, 3)} transfers on average wait for the next step"),
        (
            "Overhead",
            f"{seconds(found.hidden_s)} hidden in {seconds(found.window_s)} of GPU work, {seconds(found.exposed_s)} "
            f"exposed ({_percent(found.exposed_share)} of the step)",
        ),
        (
            "Busy",
            f"GPU {share(used.gpu)} ({share(used.gpu_working)} without waits for PCIe), CPU {share(used.cpu)}, "
            f"DIMMs {share(used.ndp)}, PCIe {share(used.pcie)}; mean of GPU, CPU, DIMMs {_percent(used.mean)}",
        ),
        ("In HBM", f"{found.resident_per_layer} routed experts of each layer"),
    ]
    text = f"{found.source}\n\n" + columns(rows)
    for definition in dict.fromkeys(c.definition for c in found.classes):
        group = [c for c in found.classes if c.definition == definition]
        doubt = "" if group[0].supported else "; no support in the source"
        text += f"\nClasses by {definition}{doubt}\n"
        text += columns(
            [(f"  {c.name}", _percent(c.expert_share), _percent(c.token_share)) for c in group],
            header=("", "experts", "tokens"),
            numbers=(1, 2),
        )
    if found.warnings:
        text += "\n" + "".join(f"Note: {note}\n" for note in found.warnings)
    return text


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _gigabytes(value: float) -> str:
    return f"{trimmed(value / 1e9, 3)} GB"


def table(rows: tuple[AblationRow, ...]) -> str:
    """The ablation, each row against the one before."""
    cells = [
        (
            row.name,
            significant(row.tokens_per_s),
            "" if row.ratio is None else f"{row.ratio:.2f}",
            "" if row.published is None else f"{row.published:.2f}",
            row.what,
        )
        for row in rows
    ]
    return columns(cells, header=("", "tokens/s", "ratio", "published", "what it adds"), numbers=(1, 2, 3))
