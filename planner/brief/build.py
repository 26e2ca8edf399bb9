"""From a scenario to its brief. Every figure is one of ``planner.plan``; here they are only chosen and put in words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from typing import Any, cast

from hardware import bill_of_materials
from planner.brief import frontier as frontier_module
from planner.brief import options as options_module
from planner.brief.command import reproduce
from planner.brief.records import BillLine, Brief, Input, Option, Sensitivity, Target
from planner.brief.turns import flips, turns
from planner.context import machine_parts
from planner.difference import flat, named
from planner.planning import plan
from planner.result import Result
from planner.scenario import Scenario
from planner.sweep.executors.base import Executor
from planner.words import outlook, sureness, verdict
from planner.words.comparison import value_text
from planner.words.findings import movement, ordered
from planner.words.formats import capital, count, isolated, listing, nearly, seconds, share, shorten, trimmed

SENSITIVITIES = 3
LONGEST_NAME = 200  # characters of a title or a name; the page that is signed holds more than that


def brief(
    scenario: Scenario,
    *,
    title: str = "",
    author: str = "",
    version: str = "",
    link: str | None = None,
    made_on: date | None = None,
    others: Sequence[tuple[str, Scenario]] = (),
    planned: options_module.Planner = plan,
    with_flips: bool = True,
    executor: Executor | None = None,
) -> Brief:
    """The brief of a scenario. ``planned`` gives its complete result (a page has it already).

    ``with_flips`` looks for the values of assumptions at which another option is the one to take: some hundred plans,
    made by ``executor`` (here when None); without it :func:`completed` adds them later.
    Options are the policies of the same machine, or ``others`` (name, scenario) where such are given. Raises what
    :func:`planner.plan` raises for bad input; a plan that does not fit has a brief that says so.
    """
    result = planned(scenario)
    name = isolated(shorten(title, LONGEST_NAME)) or f"{result.model.name} on {result.system.name}"
    found: tuple[Option, ...]
    if others:
        found = options_module.against(result, others, name)
    else:
        found = options_module.on_this_machine(result) if result.headline.fits else ()
    targets = _targets(result)
    made = Brief(
        title=name,
        author=isolated(shorten(author, LONGEST_NAME)),
        version=version,
        made_on=(made_on or date.today()).isoformat(),
        link=link,
        command=reproduce(scenario, options=[label for label, _ in others]),
        engine_version=result.engine_version,
        catalog_digest=result.catalog_digest,
        scenario_hash=result.scenario_hash,
        scenario=scenario,
        decision=_decision(result, found, targets),
        verdict=verdict(result),
        outlook=sureness.outlook(result) if result.headline.fits else outlook(result),
        model=f"{result.model.name}: {result.model.sentence}",
        system=f"{result.system.name}: {result.system.sentence}",
        policy=f"{result.policy.name}: {result.policy.sentence}",
        load=_load(scenario),
        headline=result.headline,
        interval_kind=sureness.interval_title(result),
        options=found,
        options_sentence=options_module.sentence(found) if found else "",
        frontier=frontier_module.frontier(result),
        targets=targets,
        sensitivities=_sensitivities(result),
        turns=turns(result, found, targets),
        turns_complete=len(options_module.comparable(found)) < 2,
        energy=result.energy,
        cost=result.cost,
        capacity=result.capacity,
        bill=_bill(scenario) if result.cost is not None and result.cost.mode == "owned" else (),
        step=result.decode.parts if result.decode else (),
        memory=result.memory.tiers if result.memory else (),
        assumptions=tuple(ordered(result.assumptions)),
        inputs=inputs(scenario),
        warnings=result.warnings,
    )
    return completed(made, executor) if with_flips else made


def completed(made: Brief, executor: Executor | None = None) -> Brief:
    """A brief with the values of assumptions at which another option is the one to take. Raises PlanError."""
    if made.turns_complete:
        return made
    told = flips(made.scenario, made.assumptions, made.options, executor)
    return made.model_copy(update={"turns": (*told, *made.turns), "turns_complete": True})


def inputs(scenario: Scenario) -> tuple[Input, ...]:
    """Every field of the scenario, with what differs from the default marked."""
    usual = flat(Scenario())
    rows = []
    for path, value in flat(scenario).items():
        label, unit = named(path)
        changed = path not in usual or usual[path] != value
        rows.append(Input(path=path, label=capital(label), unit=unit, value=plain(value), changed=changed))
    return tuple(rows)


def _load(scenario: Scenario) -> str:
    work = scenario.workload
    text = f"{count(work.batch)} sequences at once, {count(work.prompt_tokens)} prompt and {count(work.output_tokens)} "
    text += "output tokens each"
    if work.requests_per_s is not None:
        text += f", {trimmed(work.requests_per_s)} requests/s in all"
    if work.output_tokens_per_day is not None:
        text += f", {trimmed(work.output_tokens_per_day)} output tokens/day in all"
    return text


def plain(value: Any) -> str | float | bool | None:
    """An input's value as a cell."""
    if isinstance(value, (list, dict)):  # inside a pasted config.json
        return json.dumps(value)
    return cast("str | float | bool | None", value)


def _decision(result: Result, found: Sequence[Option], targets: Sequence[Target]) -> str:
    best = next((one for one in found if one.recommended), None)
    better = "" if best is None or best.is_this else f" {_better(best, found)}"
    if not result.headline.fits:
        return f"Do not build this as planned. {verdict(result)}{better}"
    head = result.headline
    systems = head.systems_needed or 1
    where = f"{count(systems)} systems of {result.system.name}" if systems > 1 else result.system.name
    figures = (
        f"{value_text('tokens_per_s_end_to_end', head.tokens_per_s_end_to_end)} per system end to end at "
        f"{value_text('usd_per_million_output_tokens', head.usd_per_million_output_tokens)} per million output tokens, "
        f"{value_text('usd_per_month', head.usd_per_month)} per month"
    )
    what = f"{result.model.name} on {where} with policy {result.policy.name}"
    missed = [target for target in targets if not target.met]
    if missed:
        told = listing([f"{t.name} {seconds(t.value_s)} against {seconds(t.target_s)}" for t in missed])
        ending = "" if len(missed) == 1 else "s"
        text = f"Not as asked: {what} misses its target{ending}: {told}. It gives {figures}."
    elif best is None or best.is_this:
        met = "; all targets are met" if targets else ""
        text = f"Run {what}: {figures}{met}."
    else:
        text = f"{what} gives {figures}."
    return text + better


def _better(best: Option, found: Sequence[Option]) -> str:
    """The option to take instead of the plan, in a sentence."""
    own = next(one for one in found if one.is_this)
    cost = value_text("usd_per_million_output_tokens", best.figures["usd_per_million_output_tokens"])
    differs = options_module.differs_in(best, own)
    return f"{best.name} is the option to take: {cost} per million output tokens; {differs}."


def _targets(result: Result) -> tuple[Target, ...]:
    work, head = result.scenario.workload, result.headline
    rows = []
    for key, name, target, value in (
        ("ttft_s", "first token (TTFT)", work.slo_ttft_s, head.ttft_s),
        ("tpot_s", "per token (TPOT)", work.slo_tpot_s, head.tpot_s),
    ):
        if target is None or value is None:
            continue
        ends = (head.intervals or {}).get(key)
        room = target / value - 1
        text = f"{capital(name)}: {seconds(value)} against {seconds(target)}, "
        times = value / target
        above = f"{share(times - 1)} above it" if times < 2 else f"{trimmed(times, 3)} times as much"
        text += f"{nearly(1 - times)} below it" if room >= 0 else above
        if ends is not None and value <= target < ends[1]:
            text += f"; the upper end of its range, {seconds(ends[1])}, misses"
        rows.append(
            Target(
                key=key, name=name, target_s=target, value_s=value, high_s=ends[1] if ends else None,
                met=value <= target, headroom=room, sentence=f"{text}.",
            )
        )  # fmt: skip
    return tuple(rows)


def _sensitivities(result: Result) -> tuple[Sensitivity, ...]:
    ranged = [a for a in result.assumptions if a.low is not None and a.high is not None and movement(a) > 0]
    return tuple(
        Sensitivity(
            label=a.label, path=a.path, value=a.value, low=a.low or 0.0, high=a.high or 0.0, unit=a.unit,
            moves_tpot=a.moves_tpot, moves_cost=a.moves_cost, source=a.source,
        )
        for a in sorted(ranged, key=lambda a: -movement(a))[:SENSITIVITIES]
    )  # fmt: skip


def _bill(scenario: Scenario) -> tuple[BillLine, ...]:
    system = machine_parts(scenario)
    return tuple(
        BillLine(
            name=line.name, count=line.count, unit_price_usd=line.unit_price_usd, total_usd=line.total_usd,
            source=line.figure.source, date=line.figure.date, kind=line.figure.kind, edited=line.figure.edited,
        )
        for line in bill_of_materials(system)
        if line.unit_price_usd is not None and line.total_usd is not None
    )  # fmt: skip
