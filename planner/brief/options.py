"""The options of a brief: the plan itself, the one that is recommended under its targets, and what comes next.

Without scenarios to compare with, the options are all policies on the same machine with the same model and load
(:func:`planner.best.rank`), ranked by the cost of output tokens among those that meet the targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from planner.best import rank, variant
from planner.brief.records import Option
from planner.compare import GROUPS, differing_groups, unique_labels
from planner.errors import PlanError
from planner.planning import plan
from planner.refusals import REFUSALS
from planner.result import Result
from planner.scenario import Scenario
from planner.targets import meets
from planner.words import names
from planner.words.comparison import value_text
from planner.words.formats import bits, listing, signed_percent, trimmed, uncapital
from planner.words.names import HEADLINE

OBJECTIVE = "usd_per_million_output_tokens"
SAME = (OBJECTIVE, "tpot_s", "energy_j_per_output_token")
WITHIN = 0.01  # plans that agree so closely in these are one plan under several names
MOST = 3
Planner = Callable[[Scenario], Result]


def quick(scenario: Scenario) -> Result:
    """The figures without their ranges."""
    return plan(scenario, with_ranges=False, with_marginals=False)


def option(result: Result, name: str, what: str, *, is_this: bool = False) -> Option:
    """A result as an option."""
    head = result.headline
    classes = result.placement.classes if result.placement is not None else ()
    experts = sum(one.experts for one in classes)
    facts = result.details.facts if result.details is not None else ()
    return Option(
        name=name,
        what=what,
        scenario=result.scenario,
        is_this=is_this,
        fits=head.fits,
        meets_targets=meets(result.scenario.workload, head.ttft_s, head.tpot_s),
        figures={key: float(v) for key in HEADLINE if (v := getattr(head, key)) is not None},
        expert_bits=sum(one.experts * one.bits for one in classes) / experts if experts else None,
        as_routed=not any(label == "Not as routed" for label, _ in facts),
        why=" ".join(head.reasons) if not head.fits else f"waits for {names.bound(head.bound_by)} most",
    )


def against(this: Result, others: Sequence[tuple[str, Scenario]], name: str) -> tuple[Option, ...]:
    """The plan and the scenarios that it is compared with; the best one is recommended."""
    called = unique_labels(len(others) + 1, [name, *(label for label, _ in others)])
    found = [option(this, called[0], _where(this), is_this=True)]
    for label, (_, scenario) in zip(called[1:], others, strict=True):
        try:
            result = quick(scenario)
        except REFUSALS as error:
            what = f"{scenario.model.id} on {scenario.system.id}, {scenario.policy.id}"
            found.append(Option(name=label, what=what, scenario=scenario, fits=False, why=str(error)))
            continue
        found.append(option(result, label, _where(result)))
    return _recommended(found, found[0])


def on_this_machine(this: Result) -> tuple[Option, ...]:
    """The plan, the policy that is recommended on its machine, and the next best: three options at most."""
    own = option(this, this.policy.name, "this plan", is_this=True)
    found: list[Option] = []
    for other in _ranked(this, own):
        found.append(other)
        # The plan itself is always as good as itself: once it came, whatever follows is an alternative.
        if len(found) >= MOST and any(one.is_this or _same_answers(one, own) for one in found):
            break
    told = _recommended(found if own in found else [*found, own], own)
    best = [one for one in told if one.recommended]
    rest = [one for one in told if not one.recommended]
    rest.sort(key=lambda one: not one.is_this)  # stable: the others stay in their order
    return tuple([*best, *rest][:MOST])


def _ranked(this: Result, own: Option) -> Iterator[Option]:
    """Options from the best on: those that meet the targets first, by cost; the plan where it belongs."""
    scenario = this.scenario
    rows = [row for row in rank(scenario, OBJECTIVE).rows if row.fits and row.value is not None]
    seen = [own.figures]
    rows.sort(key=lambda row: meets(scenario.workload, row.figures.get("ttft_s"), row.figures.get("tpot_s")) is False)
    for row in rows:
        if row.policy_id == scenario.policy.id:
            yield own
            continue
        try:
            result = quick(variant(scenario, row.policy_id))
        except PlanError:
            continue
        # Where all experts are in HBM many policies are one plan under several names: one of them is enough.
        other = option(result, result.policy.name, "the same machine under this policy, with its own defaults")
        if other.fits and not any(_alike(other.figures, known) for known in seen):
            seen.append(other.figures)
            yield other


def _alike(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return all(key in one and key in other and abs(one[key] / other[key] - 1) < WITHIN for key in SAME)


def comparable(options: Sequence[Option]) -> list[Option]:
    """Those that fit and compute what the plan computes: between them a choice changes no answer of the model."""
    own = next((one for one in options if one.is_this), None)
    return [one for one in options if own is not None and one.fits and _same_answers(one, own)]


def _same_answers(one: Option, own: Option) -> bool:
    """Whether an option computes what the plan computes: the same model and work, all routed experts, no fewer bits."""
    if one.is_this:
        return True
    return one.as_routed and not _fewer_bits(one, own) and not _other_work(one, own)


def _other_work(one: Option, own: Option) -> str:
    """Why the cost of a token of an option is that of another work; empty where it is the same."""
    mine, this = one.scenario, own.scenario
    if (mine.model.id, mine.model.config) != (this.model.id, this.model.config):
        return "another model, whose answers are others"
    sizes = [(w.prompt_tokens, w.output_tokens, w.prefix_hit_share) for w in (mine.workload, this.workload)]
    return "requests of other sizes" if sizes[0] != sizes[1] else ""


def differs_in(one: Option, own: Option) -> str:
    """What an option changes against the plan, in a clause."""
    groups = [GROUPS[group] for group in differing_groups(own.scenario, one.scenario)]
    return f"it differs in {listing(groups)}" if groups else "it is the same scenario"


def _fewer_bits(one: Option, own: Option) -> bool:
    return one.expert_bits is not None and own.expert_bits is not None and one.expert_bits < own.expert_bits - 1e-9


def _recommended(found: Sequence[Option], own: Option) -> tuple[Option, ...]:
    """Mark the cheapest of those that fit, meet the targets and answer like the plan; say why the others are not."""
    able = [one for one in found if one.fits and one.meets_targets is not False and _same_answers(one, own)]
    best = min(able, key=lambda one: one.figures[OBJECTIVE], default=None)
    return tuple(one.model_copy(update={"recommended": one is best, "why": _why(one, own, best)}) for one in found)


def _why(one: Option, own: Option, best: Option | None) -> str:
    if not one.fits:
        return f"Does not fit: {one.why}" if one.expert_bits is not None else f"Cannot be planned: {one.why}"
    texts = []
    if one.meets_targets is False:
        texts.append("misses a target")
    if other := _other_work(one, own):
        texts.append(other)
    if not one.as_routed:
        texts.append("skips or exchanges experts, so the model's answers change")
    if _fewer_bits(one, own):
        texts.append(f"experts at {bits(one.expert_bits or 0)} instead of {bits(own.expert_bits or 0)} bits")
    if best is not None and one is not best:
        ratio = one.figures[OBJECTIVE] / best.figures[OBJECTIVE]
        change = f"{signed_percent(ratio - 1)} %" if 0.5 <= ratio <= 2 else f"{trimmed(ratio, 3)} times"
        texts.append(f"cost of output tokens {change} that of {best.name}" if "times" in change else
                     f"cost of output tokens {change} against {best.name}")  # fmt: skip
    texts.append(uncapital(one.why))
    text = "; ".join(texts)
    return f"{text[:1].upper()}{text[1:]}."


def sentence(options: Sequence[Option]) -> str:
    """What the options say together."""
    best = next((one for one in options if one.recommended), None)
    if best is None:
        return "None of these options fits, meets the targets and computes what was asked."
    tokens = value_text("tokens_per_s_end_to_end", best.figures.get("tokens_per_s_end_to_end"))
    money = value_text(OBJECTIVE, best.figures.get(OBJECTIVE))
    return f"{best.name} gives {tokens} per system end to end, at {money} per million output tokens."


def _where(result: Result) -> str:
    return f"{result.model.name} on {result.system.name}, {result.policy.name}"
