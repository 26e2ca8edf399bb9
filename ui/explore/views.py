"""The answer to each question as a finding, a chart and its alternative text. Figures come from the sweep's points."""

from __future__ import annotations

import streamlit as st

from planner.sweep import METRICS, Point, SweepResult
from planner.sweep.frontier import frontier, series
from planner.sweep.knee import EXPERTS, METHOD, Knee, knee
from planner.sweep.near_best import infeasible
from planner.words.formats import capital, significant, trimmed
from ui.charts import plane
from ui.explore import points as pts
from ui.explore import spans
from ui.explore.asked import CLICK, Asked, legend
from ui.sections.common import draw, pen, say


def show_frontier(result: SweepResult, asked: Asked, key: str) -> int | None:
    """Throughput against interactivity."""
    found = frontier(result, "tokens_per_s_user", asked.metric)
    if not found.spots:
        say(infeasible(result))
        return None
    ends = [found.spot(found.pareto[-1]), found.spot(found.pareto[0])]
    slo = result.spec.base.workload.slo_tpot_s
    if found.best_meeting is not None:
        top = result.points_by_index[found.best_meeting]
        text = (
            f"Best that meets the targets: {pts.name(result, top)}, {pts.quantity(found.y, top.figure(found.y.key))}."
        )
    elif any(one.meets is False for one in found.spots):
        text = infeasible(result)
    else:
        least, most = ends[1], ends[0]
        alone = f"{capital(pts.name(result, result.points_by_index[most.index]))} is best on both axes."
        text = alone if len(found.pareto) < 2 else (
            f"At {significant(most.x)} tokens/s per user there are {significant(most.y)} {_short(found.y.key)}; "
            f"at {significant(least.x)}, {significant(least.y / most.y)} times as many."
        )  # fmt: skip
    say(text)
    place = _grouping(result)
    groups = series(result, place) if place else {"": list(result.fitting)}
    lines = []
    for number, (value, members) in enumerate(groups.items()):
        able = [p for p in members if p.figure(asked.metric) is not None]
        able.sort(key=lambda p: p.figure("tokens_per_s_user") or 0)
        lines.append(
            plane.Series(
                _group_name(result, place, value, members), [p.figure("tokens_per_s_user") or 0 for p in able],
                [p.figure(asked.metric) or 0 for p in able],
                [pts.hover(result, p, METRICS["tokens_per_s_user"], found.y) for p in able], [p.index for p in able],
                hollow=frozenset(p.index for p in able if p.outcome.meets_slo is False), place=number,
            )
        )  # fmt: skip
    path = [(found.spot(i).x, found.spot(i).y) for i in found.pareto]
    notes = [plane.Note(path[len(path) // 2][0], path[len(path) // 2][1], "frontier", 34, -14)] if len(path) > 2 else []
    if found.best_meeting is not None:
        spot = found.spot(found.best_meeting)
        notes.append(plane.Note(spot.x, spot.y, "best that meets the targets", 0, -20))
    extras = plane.Extras(
        path, found.least_x, f"meets TPOT {trimmed((slo or 0) * 1e3)} ms" if slo else "", tuple(notes)
    )
    axes = plane.Axes("output tokens/s per user", found.y.unit.replace("tok/s", "tokens/s"), log_y=True, log_x=True)
    event = draw(plane.figure(lines, axes, extras, pen()), f"explore-{key}-chart",
                 f"Throughput against interactivity. {text}", **CLICK)  # fmt: skip
    pts.chosen(event, key)
    legend(lines, any(line.hollow for line in lines))
    return found.best_meeting if found.best_meeting is not None else found.pareto[len(found.pareto) // 2]


def show_experts(result: SweepResult, asked: Asked, key: str) -> int | None:
    """Speed against the experts resident in HBM."""
    found = knee(result, EXPERTS, asked.metric)
    if not found.xs and found.today is None:
        say(infeasible(result))
        return None
    text = _knee_words(found)
    say(text)
    by = result.points_by_index
    line = plane.Series(
        "as set", found.xs, found.ys, [pts.hover(result, by[i], found.metric) for i in found.indices], found.indices,
        line=True,
    )  # fmt: skip
    verticals, notes = [], []
    lines = [line]
    if found.knee is not None:
        verticals.append((found.xs[found.knee], f"knee: {trimmed(found.xs[found.knee])} experts"))
    if found.today is not None:
        day = found.today
        lines.append(plane.Series("what the policy keeps", [day.x], [day.y],
                                  [pts.hover(result, by[day.index], found.metric)], [day.index], place=1))  # fmt: skip
        notes.append(plane.Note(day.x, day.y, "today's budget", 0, 18))
    axes = plane.Axes("experts of each layer resident in HBM", found.metric.unit.replace("tok/s", "tokens/s"))
    extras = plane.Extras(verticals=tuple(verticals), notes=tuple(notes))
    event = draw(plane.figure(lines, axes, extras, pen()), f"explore-{key}-chart",
                 f"Speed against experts in HBM. {text}", **CLICK)  # fmt: skip
    pts.chosen(event, key)
    unfit = any(point.outcome.status == "does not fit" for point in result.points)
    rest = " Numbers that do not fit beside the KV cache are left out." if unfit else ""
    st.caption(f"{METHOD} (Kneedle, 2011).{rest}")
    return found.indices[found.knee] if found.knee is not None else found.today.index if found.today else None


def _knee_words(found: Knee) -> str:
    unit = found.metric.unit
    if found.knee is None:
        if len(found.xs) > 2 and found.ys[-1] > found.ys[0]:
            return f"No knee up to {trimmed(found.xs[-1])}: each further expert in HBM gains about as much as the last."
        if len(found.xs) == 1:
            return f"This policy keeps {trimmed(found.xs[0])} experts of each layer in HBM, whatever is asked for."
        return "More experts in HBM do not make this policy faster here."
    times = found.gain_before / found.gain_after if found.gain_after > 0 else None
    rest = f", {significant(times, 2)} times what each after it gains" if times else "; after it nothing is gained"
    at = trimmed(found.xs[found.knee])
    gain = significant(found.gain_before)
    return f"Up to {at} experts per layer each one gains {gain} {unit}{rest}."


def show_free(result: SweepResult, asked: Asked, key: str) -> int | None:
    """A design of one's own: any metric against any other."""
    found = frontier(result, asked.x, asked.metric)
    if not found.spots:
        say(infeasible(result))
        return None
    both = f"{found.y.name} and {found.x.name}"
    if len(found.pareto) == 1:
        text = f"{capital(pts.name(result, result.points_by_index[found.pareto[0]]))} is best on both {both}."
    else:
        text = (
            f"{len(found.pareto)} of {len(found.spots)} points are on the frontier of {both}: none is better on both."
        )
    say(text)
    place = _grouping(result)
    groups = series(result, place) if place else {"": list(result.fitting)}
    groups = groups if len(groups) <= len(plane.COLOURS) else {"": list(result.fitting)}
    lines = [
        plane.Series(
            _group_name(result, place, value, members), [p.figure(asked.x) or 0 for p in able],
            [p.figure(asked.metric) or 0 for p in able], [pts.hover(result, p, found.x, found.y) for p in able],
            [p.index for p in able], hollow=frozenset(p.index for p in able if p.outcome.meets_slo is False), place=n,
        )
        for n, (value, members) in enumerate(groups.items())
        if (able := [p for p in members if p.figure(asked.x) is not None and p.figure(asked.metric) is not None])
    ]  # fmt: skip
    path = [(found.spot(i).x, found.spot(i).y) for i in found.pareto]
    wide = _wide([spot.x for spot in found.spots]), _wide([spot.y for spot in found.spots])
    axes = plane.Axes(f"{found.x.name}, {found.x.unit}", f"{found.y.name}, {found.y.unit}", *wide)
    event = draw(
        plane.figure(lines, axes, plane.Extras(path), pen()), f"explore-{key}-chart", f"A free sweep. {text}", **CLICK
    )
    pts.chosen(event, key)
    legend(lines, any(line.hollow for line in lines))
    return None


def _wide(values: list[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) > 10


def _grouping(result: SweepResult) -> str:
    """The axis that colours points: the first that holds words."""
    for axis in result.spec.axes:
        if axis.values is not None and any(isinstance(value, str) for value in axis.values):
            return axis.path
    return ""


def _group_name(result: SweepResult, path: str, value: str, members: list[Point]) -> str:
    if path == "policy.id":
        return spans.policy_name(value)
    if path == "system.id" and members:
        return members[0].outcome.system_name
    return value or (members[0].outcome.policy_name if members else "")


def _short(key: str) -> str:
    return {"tokens_per_s_gpu": "tokens/s per GPU", "tokens_per_usd": "tokens per dollar"}.get(key, "throughput")
