"""What would change the decision: room to the targets and to the memory, and how far the next option is behind."""

from __future__ import annotations

import re
from collections.abc import Sequence

from planner.brief.options import OBJECTIVE, comparable
from planner.brief.records import Option, Target
from planner.result import Assumption, Result
from planner.scenario import Scenario
from planner.sensitivities import Flip, flip_points
from planner.sweep.executors.base import Executor
from planner.words.findings import movement
from planner.words.formats import THIN, capital, count, listing, nearly, seconds, share, trimmed, uncapital

FLIPS_SHOWN = 4
FIGURES_TRIED = 3
PENDING = "Values of the assumptions at which another option becomes the one to take: not looked for in this copy."


def turns(result: Result, options: Sequence[Option], targets: Sequence[Target]) -> tuple[str, ...]:
    """One sentence for each thing that turns the decision, the nearest first."""
    return (*_ranking(options), *_targets(targets), *_memory(result))


def flips(
    scenario: Scenario, assumptions: Sequence[Assumption], options: Sequence[Option], executor: Executor | None = None
) -> tuple[str, ...]:
    """The nearest values of the strongest assumptions at which another option is the one to take."""
    able = comparable(options)
    if len(able) < 2:
        return ()
    paths = looked_at(scenario, assumptions)
    told = flip_points(
        [one.scenario for one in able], OBJECTIVE, paths, names=[one.name for one in able], executor=executor
    )
    if not told.flips:
        names = listing([uncapital(one.label) for one in told.steady])
        return (f"No value within its bounds of any of these changes the choice: {names}.",) if names else ()
    return tuple(_flip(one) for one in told.flips[:FLIPS_SHOWN])


def looked_at(scenario: Scenario, assumptions: Sequence[Assumption]) -> list[str]:
    """Paths of the assumptions that are tried: the batch, the skew, and what moves the answer most."""
    moving = sorted((a for a in assumptions if movement(a) > 0), key=lambda a: -movement(a))
    skew = ["routing.sigma"] if scenario.routing.source == "generated" else []
    figures = [a.path for a in moving if a.path.startswith("system.overrides.")][:FIGURES_TRIED]
    return ["workload.batch", *skew, *figures]


def _flip(flip: Flip) -> str:
    where = flip.sentence.rpartition(": ")[0]
    if flip.option is None:
        return f"{where}: none of the options fits and meets the targets."
    return f"{where}: {flip.option_name} is the one to take."


def _ranking(options: Sequence[Option]) -> list[str]:
    best = next((one for one in options if one.recommended), None)
    if best is None:
        return []
    rows, able = [], comparable(options)
    for one in options:
        if one is best or not one.fits or one.meets_targets is False:
            continue
        gap = 1 - best.figures[OBJECTIVE] / one.figures[OBJECTIVE]
        if gap >= 0 and one not in able:
            continue
        if gap >= 0:
            rows.append(
                f"{one.name} would be the cheaper one if its output tokens cost {share(gap)} less than planned."
            )
        else:
            less = share(1 - one.figures[OBJECTIVE] / best.figures[OBJECTIVE])
            rows.append(f"{one.name} is cheaper already ({less}), but computes something else: see the options.")
    return rows


def _targets(targets: Sequence[Target]) -> list[str]:
    rows = []
    for target in targets:
        name, limit = capital(target.name), seconds(target.target_s)
        if not target.met:
            rows.append(f"{name} must fall by {nearly(1 - target.target_s / target.value_s)} to meet its target.")
        elif target.headroom < 1:
            rows.append(
                f"{name} more than {share(target.headroom)} above the estimate, beyond {limit}, misses its target."
            )
        else:
            times = trimmed(1 + target.headroom, 2)
            rows.append(f"{name} of more than {times} times the estimate, beyond {limit}, misses its target.")
    return rows


def _memory(result: Result) -> list[str]:
    memory, work = result.memory, result.scenario.workload
    if memory is None:
        return []
    if not result.headline.fits:
        return [f"It would fit with {_said(change.text)}." for change in memory.changes if change.fits][:3]
    context = work.prompt_tokens + work.output_tokens
    return [
        f"More than {count(memory.largest_batch)} sequences at once (planned: {count(work.batch)}), or a context "
        f"beyond {count(memory.largest_context_tokens)} tokens (planned: {count(context)}), no longer fits."
    ]


def _said(text: str) -> str:
    """A change of the plan inside a sentence, thousands as everywhere in the brief."""
    return re.sub(r"(?<=\d),(?=\d{3})", THIN, uncapital(text.rstrip(".")))
