"""The sentence above each chart: what the figure shows, said in words, from a Result alone."""

from __future__ import annotations

from planner.result import Assumption, Result, Step
from planner.words import names
from planner.words.formats import (
    EN_DASH,
    capital,
    count,
    gb,
    gigabytes,
    listing,
    seconds,
    share,
    signed_percent,
    significant,
    uncapital,
)
from planner.words.verdict import change_name, change_sentence, short_words, smallest_change, tightest

PACE: dict[str, str] = {
    "attention": "Attention sets the pace: it is",
    "dense_shared": "The dense and shared weights set the pace: they are",
    "routed_gpu": "The GPU sets the pace: its experts are",
    "routed_cpu": "The CPU sets the pace: its experts are",
    "routed_ndp": "The NDP sets the pace: its experts are",
    "link": "The link sets the pace: its transfers are",
    "collective": "The traffic between GPUs sets the pace: it is",
    "overhead": "Launch and synchronisation set the pace: they are",
}


def step_unit(total_s: float) -> tuple[float, str]:
    """Factor and unit of a step's parts: ms up to 2 s, so that they read as whole numbers."""
    if total_s >= 2:
        return 1.0, "s"
    return (1e3, "ms") if total_s >= 1e-3 else (1e6, "\u00b5s")


def step_finding(step: Step) -> str:
    """What sets the pace of a step, for how long, and what hides behind it."""
    if not step.parts or step.total_s <= 0:
        return "Nothing is computed in this step."
    top = max(step.parts, key=lambda part: part.exposed_s)
    factor, unit = step_unit(step.total_s)
    shown = f"{significant(top.exposed_s * factor)} of {significant(step.total_s * factor)}"
    text = f"{PACE[top.part]} exposed for {shown}\u00a0{unit}."
    hidden: dict[str, float] = {}
    for part in step.parts:
        hidden[part.lane] = hidden.get(part.lane, 0.0) + max(part.busy_s - part.exposed_s, 0.0)
    behind = [
        names.LANES_INLINE.get(lane, lane)
        for lane, time in hidden.items()
        if time >= 0.03 * step.total_s and lane != top.lane
    ]
    if behind:
        text += f" {capital(listing(behind))} work hides behind it (outlined)."
    return text


def drafted_words(step: Step) -> str:
    """What the times of a step mean where drafted tokens are verified; empty without drafting."""
    if step.yields <= 1.0:
        return ""
    return (
        f"Times are per output token: a verify pass takes {seconds(step.total_s * step.yields)} and yields "
        f"{significant(step.yields)} tokens of each sequence."
    )


def memory_finding(result: Result) -> str:
    """Which tier is tight and how far batch and context can grow, or what is missing and what is to spare."""
    memory = result.memory
    if memory is None or not memory.tiers:
        return "Memory was not counted for this plan."
    tight = tightest(result)
    if tight is not None:
        text = (
            f"{names.plain_tier(tight.name)} would need {gb(tight.fullest_device_bytes)} of "
            f"{gigabytes(tight.device_capacity_bytes)}"
            + (f" on the fullest of {count(tight.devices)} devices" if tight.devices > 1 else "")
        )
        spare = [t for t in memory.tiers if t.free_bytes > 0.05 * t.capacity_bytes]
        if spare:
            text += "; " + listing(
                [f"{names.plain_tier(t.name)} has {gigabytes(t.free_bytes)} to spare" for t in spare]
            )
        return text + "."
    full = max(memory.tiers, key=lambda t: t.fullest_device_bytes / max(t.device_capacity_bytes, 1.0))
    text = f"{names.plain_tier(full.name)} is the tight tier, {gigabytes(full.free_bytes)} free"
    batch, context = result.scenario.workload.batch, _context(result)
    grow = []
    if memory.largest_batch > batch:
        grow.append(f"the batch can grow to {count(memory.largest_batch)}")
    if memory.largest_context_tokens > context:
        grow.append(
            f"the context to {count(memory.largest_context_tokens)} tokens"
            if grow
            else f"the context can grow to {count(memory.largest_context_tokens)} tokens"
        )
    return f"{text}: {', or '.join(grow)}." if grow else f"{text}; neither batch nor context can grow."


def _context(result: Result) -> int:
    return result.scenario.workload.prompt_tokens + result.scenario.workload.output_tokens


def money_finding(result: Result) -> str:
    """Which part leads the energy and which the cost."""
    energy = [s for s in (result.energy.by_device if result.energy else ()) if s.value > 0]
    cost = [s for s in (result.cost.by_part if result.cost else ()) if s.value > 0]
    if not energy or not cost:
        return "Energy and cost are not known for this plan."
    top_e, top_c = max(energy, key=lambda s: s.value), max(cost, key=lambda s: s.value)
    share_e, share_c = top_e.value / sum(s.value for s in energy), top_c.value / sum(s.value for s in cost)
    if top_e.id == top_c.id:
        return f"{_leader(top_e.name)} both: {share(share_e)} of the energy, {share(share_c)} of the cost."
    return f"{_leader(top_e.name)} the energy ({share(share_e)}), {_noun(top_c.name)} the cost ({share(share_c)})."


def _noun(name: str) -> str:
    if name[:1].isupper() and not name[:2].isupper():
        name = name[:1].lower() + name[1:]
    return name if _plural(name) or name in {"electricity", "rent"} else f"the {name}"


def _plural(name: str) -> bool:
    head = name.split(" ")[0] if " with " in name else name
    return head.endswith("s") and not head.endswith("ss") and head.lower() not in {"chassis"}


def _leader(name: str) -> str:
    return f"{capital(_noun(name))} {'lead' if _plural(name) else 'leads'}"


def changes_finding(result: Result) -> str:
    """Above the table of changes that make an unfit plan fit."""
    fitting = [change for change in (result.memory.changes if result.memory else ()) if change.fits]
    if not fitting:
        return (
            "No single change that was tried makes this fit: another system, or a smaller model or format, is needed."
        )
    first = smallest_change(result)
    lead = change_sentence(first) if first else ""
    if len(fitting) == 1:
        return lead
    fastest = max(fitting, key=lambda change: change.tokens_per_s_system or 0.0)
    if fastest is not first and fastest.tokens_per_s_system is not None:
        return f"{lead} The most tokens per second: {uncapital(change_name(fastest))}."
    return lead


def movement(assumption: Assumption) -> float:
    """How far the range of an input moves the answer: the larger of its relative effects on TPOT and on cost."""
    moves = (*(assumption.moves_tpot or ()), *(assumption.moves_cost or ()))
    return max((abs(value) for value in moves), default=0.0)


def ordered(assumptions: tuple[Assumption, ...]) -> list[Assumption]:
    """The user's own edits first, then by how far each moves the answer."""
    return sorted(assumptions, key=lambda a: (not a.edited, -movement(a), a.label))


def moves_text(interval: tuple[float, float] | None) -> str:
    """``+14 / −9`` in percent, at the low and at the high end."""
    if interval is None:
        return ""
    low, high = signed_percent(interval[0]), signed_percent(interval[1])
    return low if low == high else f"{low}\u00a0/\u00a0{high}"


def assumptions_finding(result: Result) -> str:
    """Which input to check first."""
    if not result.assumptions:
        return "No assumption with a range moved this answer."
    if not result.headline.fits:
        tight = tightest(result)
        if tight is not None:
            return f"These figures decide the memory: {short_words(tight)}."
        return "These figures were used before the plan stopped."
    ranged = [a for a in result.assumptions if a.low is not None and a.low != a.high]
    movers = [a for a in ranged if a.moves_tpot is not None]
    top = max(movers, key=lambda a: max(abs(v) for v in a.moves_tpot or (0.0,)), default=None)
    if top is not None and max(abs(v) for v in top.moves_tpot or (0.0,)) >= 0.005:
        low, high = top.moves_tpot or (0.0, 0.0)
        ends = f"{signed_percent(low)} to {signed_percent(high)}\u202f%"
        return f"Check {_noun_of(top.label)} first: its range alone moves TPOT by {ends}."
    costs = [a for a in ranged if a.moves_cost is not None and movement(a) >= 0.005]
    if costs:
        best = max(costs, key=movement)
        low, high = best.moves_cost or (0.0, 0.0)
        return (
            f"Check {_noun_of(best.label)} first: its range alone moves the cost by "
            f"{signed_percent(low)} to {signed_percent(high)}\u202f%."
        )
    return "No range of a single input moves TPOT or cost by as much as 0.5\u202f%."


def _noun_of(label: str) -> str:
    first = label.split(" ", 1)[0]
    keep = any(c.isupper() or c.isdigit() for c in first[1:])
    return f"\u201c{label}\u201d" if EN_DASH in label else f"the {label if keep else label[:1].lower() + label[1:]}"
