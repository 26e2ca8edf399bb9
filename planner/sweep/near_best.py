"""Which point to take: the best that meets the targets, what is nearly as good, or what excludes all of them."""

from __future__ import annotations

from dataclasses import dataclass

from planner.sweep.metrics import Metric, metric
from planner.sweep.record import Point, SweepResult
from planner.words.formats import count, listing, seconds

WITHIN = 0.02
COST = "usd_per_million_output_tokens"


@dataclass(frozen=True)
class Choice:
    """The best point and those within a share of it, best first; or, where no point is feasible, why."""

    metric: Metric
    best: int | None
    near: tuple[int, ...]
    sentence: str


@dataclass(frozen=True)
class Excluded:
    """One constraint and how many points it excludes; a point is counted under the first that it fails."""

    constraint: str
    points: int
    example: str


def choose(result: SweepResult, key: str = COST, within: float = WITHIN) -> Choice:
    """The point that is best on a metric among those that fit and meet the targets of their scenario."""
    one = metric(key)
    able = [p for p in result.fitting if p.outcome.meets_slo is not False and p.figure(key) is not None]
    if not able:
        return Choice(one, None, (), infeasible(result))
    more = one.more_is_better is not False
    ordered = sorted(able, key=lambda p: (-_of(p, key) if more else _of(p, key), p.index))
    top = _of(ordered[0], key)
    near = [p for p in ordered if abs(_of(p, key) - top) <= within * abs(top)]
    others = len(near) - 1
    told = "nothing else is" if others == 0 else f"{count(others)} other{'s are' if others > 1 else ' is'}"
    sentence = f"{told[:1].upper()}{told[1:]} within {100 * within:g} % of the best."
    return Choice(one, ordered[0].index, tuple(p.index for p in near), sentence)


def excluded(result: SweepResult) -> tuple[Excluded, ...]:
    """What excludes points, by how many; empty when every point is feasible."""
    found: dict[str, list[str]] = {}
    for point in result.points:
        why = _constraint(result, point)
        if why is not None:
            found.setdefault(why[0], []).append(why[1])
    rows = [Excluded(constraint, len(examples), examples[0]) for constraint, examples in found.items()]
    return tuple(sorted(rows, key=lambda row: -row.points))


def infeasible(result: SweepResult) -> str:
    """One sentence on what excludes every point."""
    rows = [row for row in excluded(result) if row.constraint != NOT_RUN]
    total = sum(row.points for row in rows)
    if not rows:
        return "No point was planned yet."
    if len(rows) == 1:
        every = f"all {count(total)}" if total > 1 else "the only one"
        return f"No point is feasible: {rows[0].constraint} excludes {every}. {rows[0].example}".strip()
    told = [f"{row.constraint} excludes {count(row.points)}" for row in rows]
    return f"No point of {count(total)} is feasible: {listing(told)}. {rows[0].example}".strip()


def left_out(result: SweepResult) -> str:
    """One sentence on the points beside the feasible ones and what excludes them; empty where there are none."""
    rows = [row for row in excluded(result) if row.constraint != NOT_RUN]
    if not rows:
        return ""
    told = listing([f"{row.constraint} excludes {count(row.points)}" for row in rows])
    return f"Of {count(len(result.points))} points {told}."


NOT_RUN = "the end of the sweep"


def _constraint(result: SweepResult, point: Point) -> tuple[str, str] | None:
    out = point.outcome
    if out.status == "not run":
        return NOT_RUN, ""
    if out.status == "does not fit":
        return _unfit(out.reason), out.reason
    if out.status in ("refused", "failed"):
        return _refused(out.reason) if out.status == "refused" else "a fault of the program", out.reason
    if out.meets_slo is False:
        return _missed(result, point)
    return None


def _refused(reason: str) -> str:
    alone = " not known" in reason or "; it takes " in reason
    return "a value that is not accepted" if alone else "a clash of inputs"


def _unfit(reason: str) -> str:
    """The memory tier that is too small, or the part that a system lacks, from the planner's own sentence."""
    tier, colon, rest = reason.partition(":")
    if colon and "GB needed" in rest:
        return f"the capacity of {tier}"
    return "a part that the system lacks" if " needs " in reason else "what does not fit"


def _missed(result: SweepResult, point: Point) -> tuple[str, str]:
    w = result.scenario(point).workload
    for name, target, key in (("TPOT", w.slo_tpot_s, "tpot_s"), ("TTFT", w.slo_ttft_s, "ttft_s")):
        value = point.figure(key)
        if target is not None and value is not None and value > target:
            return f"the target of {name}", f"The nearest is {_nearest(result, key)}, the target {seconds(target)}."
    return "the targets", ""


def _nearest(result: SweepResult, key: str) -> str:
    return str(seconds(min(value for point in result.fitting if (value := point.figure(key)) is not None)))


def _of(point: Point, key: str) -> float:
    value = point.figure(key)
    assert value is not None
    return value
