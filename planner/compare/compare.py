"""Two to four scenarios beside each other, with a reason for every delta. All figures come from ``planner.plan``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

import planner
from planner.compare.differences import differing
from planner.compare.groups import Group, differing_groups, mixed, union_name
from planner.compare.records import Comparison, Delta, Merge, Pair, Part, Side, Step
from planner.compare.shapley import Block, Values, merged, parts_of
from planner.errors import PlanError
from planner.planning import plan
from planner.refusals import REFUSALS
from planner.result import Result
from planner.scenario import Scenario
from planner.stamp import catalog_digest
from planner.words import names, sureness, verdict
from planner.words.formats import isolated, listing, shorten

FEWEST, MOST = 2, 4
METRICS = tuple(names.HEADLINE)
NOT_PLANNED = "Cannot be planned."
Planner = Callable[[Scenario], Result]
Progress = Callable[[int, int], None]


def compare(
    scenarios: Sequence[Scenario],
    labels: Sequence[str] = (),
    *,
    planned: Planner = plan,
    progress: Progress | None = None,
) -> Comparison:
    """Compare ``scenarios``; the first is the base. ``planned`` gives a complete result with ranges (a page has it).

    A scenario that does not fit or cannot be planned stays beside the others, without figures and with the reason.
    ``progress`` is called with mixtures planned and mixtures to plan at most. Raises PlanError for fewer than two or
    more than four scenarios.
    """
    if not FEWEST <= len(scenarios) <= MOST:
        raise PlanError(f"{len(scenarios)} scenarios are given to compare; it takes {FEWEST} to {MOST}.")
    names_ = unique_labels(len(scenarios), labels)
    sides = tuple(_side(scenario, name, planned) for scenario, name in zip(scenarios, names_, strict=True))
    pairs = tuple(_pair(sides, other, progress) for other in range(1, len(sides)))
    return Comparison(
        engine_version=planner.ENGINE_VERSION,
        catalog_digest=catalog_digest(),
        sides=sides,
        differing=differing(scenarios),
        pairs=pairs,
        notes=_notes(sides),
    )


def unique_labels(number: int, labels: Sequence[str]) -> list[str]:
    """A short name for each side, no two alike: the given one, a letter where none is given."""
    found: list[str] = []
    for index, (_, given) in enumerate(zip_longest(range(number), labels[:number])):
        name = isolated(shorten(given, 80)) if given and given.strip() else chr(ord("A") + index)
        copies = (name if number == 1 else f"{name} ({number})" for number in range(1, len(found) + 2))
        found.append(next(copy for copy in copies if copy not in found))
    return found


def _side(scenario: Scenario, label: str, planned: Planner) -> Side:
    try:
        result = planned(scenario)
    except REFUSALS as error:
        return Side(
            label=label, scenario=scenario, scenario_hash=scenario.content_hash(), model=scenario.model.id,
            system=scenario.system.id, policy=scenario.policy.id, fits=False, verdict=NOT_PLANNED,
            why_not=f"cannot be planned: {error}", figures=dict.fromkeys(METRICS),
        )  # fmt: skip
    head = result.headline
    return Side(
        label=label,
        scenario=scenario,
        scenario_hash=result.scenario_hash,
        model=result.model.name,
        system=result.system.name,
        policy=result.policy.name,
        fits=head.fits,
        verdict=verdict(result),
        why_not="" if head.fits else "does not fit: " + " ".join(head.reasons),
        figures={key: getattr(head, key) for key in METRICS},
        intervals=dict(head.intervals or {}),
        interval_kind=sureness.interval_title(result),
        bound_by=head.bound_by,
        step=tuple(
            Step(id=part.part, name=names.part(part.part), value=part.exposed_s)
            for part in (result.decode.parts if result.decode else ())
            if part.exposed_s > 0
        ),
        memory=tuple(
            Step(id=tier.tier, name=names.plain_tier(tier.name), value=tier.used_bytes, of=tier.capacity_bytes)
            for tier in (result.memory.tiers if result.memory else ())
        ),
        warnings=result.warnings,
    )


def _pair(sides: Sequence[Side], index: int, progress: Progress | None) -> Pair:
    base, other = sides[0], sides[index]
    groups = differing_groups(base.scenario, other.scenario)
    values = Values(_valued(base, other, groups, progress))
    blocks: tuple[Block[Group], ...] = ()
    reason = ""
    if base.fits and other.fits:
        blocks, reason = merged(groups, values)
    return Pair(
        base=0,
        other=index,
        groups=groups,
        merges=tuple(Merge(groups=block, name=union_name(block)) for block in blocks if len(block) > 1),
        merged_because=reason,
        plans=values.evaluated,
        deltas=tuple(_delta(metric, base, other, blocks, values) for metric in METRICS),
    )


def _valued(
    base: Side, other: Side, groups: Sequence[Group], progress: Progress | None
) -> Callable[[frozenset[Group]], Mapping[str, float] | str]:
    """The figures of a mixture of two sides, through the one door; a sentence where it gives no plan."""
    done = 0

    def value(taken: frozenset[Group]) -> Mapping[str, float] | str:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, 2 ** len(groups))
        # The ends are planned already; ranges change no figure.
        if not taken:
            return _known(base.figures)
        if len(taken) == len(groups):
            return _known(other.figures)
        try:
            head = plan(mixed(base.scenario, other.scenario, taken), with_ranges=False, with_marginals=False).headline
        except REFUSALS as error:
            return f"{union_name(taken)} of {other.label} on the rest of {base.label}: {error}"
        if not head.fits:
            return f"{union_name(taken)} of {other.label} on the rest of {base.label}: {' '.join(head.reasons)}"
        return _known({key: getattr(head, key) for key in METRICS})

    return value


def _known(figures: Mapping[str, float | None]) -> dict[str, float]:
    return {key: float(value) for key, value in figures.items() if value is not None}


def _delta(metric: str, base: Side, other: Side, blocks: Sequence[Block[Group]], values: Values[Group]) -> Delta:
    label, unit = names.HEADLINE[metric]
    first, last = base.figures[metric], other.figures[metric]
    if first is None or last is None:
        lacking = [side for side, value in ((base, first), (other, last)) if value is None]
        why = "; ".join(f"{side.label} {(side.why_not or 'has no such figure').rstrip('.')}" for side in lacking)
        return Delta(metric=metric, label=label, unit=unit, base=first, other=last, unavailable=f"not available: {why}")
    parts = parts_of(blocks, values, metric)
    return Delta(
        metric=metric,
        label=label,
        unit=unit,
        base=first,
        other=last,
        delta=sum(parts.values()),
        ratio=last / first if first else None,
        parts=tuple(Part(groups=block, name=union_name(block), value=value) for block, value in parts.items()),
    )


def _notes(sides: Sequence[Side]) -> tuple[str, ...]:
    notes = []
    planned = [side for side in sides if side.verdict != NOT_PLANNED]
    models = list(dict.fromkeys(side.model for side in planned))
    if len(models) > 1:
        notes.append(
            f"Different models are compared ({listing(models)}): speed and cost stand side by side, what the models "
            "answer does not."
        )
    notes += [f"{side.label} has no figures: {side.why_not}" for side in sides if not side.fits]
    hashes = [side.scenario_hash for side in sides]
    twins = [side.label for index, side in enumerate(sides) if side.scenario_hash in hashes[:index]]
    notes += [f"{label} is the same scenario as one before it." for label in twins]
    return tuple(notes)
