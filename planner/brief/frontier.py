"""Throughput against interactivity over the batch: the trade that every serving decision makes."""

from __future__ import annotations

from planner.brief.options import quick
from planner.brief.records import Frontier, Point
from planner.fields import set_path
from planner.result import Result
from planner.sweep.metrics import tokens_per_s_per_gpu
from planner.targets import meets
from planner.words.formats import count, significant

MOST_POINTS = 10


def frontier(this: Result) -> Frontier | None:
    """Batches from 1 to the largest that fits, in steps of a factor, with the chosen one among them."""
    if not this.headline.fits or this.memory is None:
        return None
    chosen = this.scenario.workload.batch
    points = [point for batch in batches(chosen, this.memory.largest_batch) if (point := _point(this, batch))]
    target = this.scenario.workload.slo_tpot_s
    per = "GPU" if this.system.gpus else "system"
    return Frontier(
        points=tuple(points),
        per=per,
        least_tokens_per_s_user=None if target is None else 1.0 / target,
        sentence=_sentence(points, per),
    )


def batches(chosen: int, largest: int) -> list[int]:
    """At most ten batches on a scale of factors: 1, the chosen one, the largest, and powers of two or more between."""
    top = max(largest, chosen, 1)
    factor = 2
    while True:
        found = {1, chosen, top}
        size = 1
        while size < 0.7 * top:  # closer to the largest, two points would be one on the chart
            found.add(size)
            size *= factor
        if len(found) <= MOST_POINTS:
            return sorted(found)
        factor *= 2


def _point(this: Result, batch: int) -> Point | None:
    chosen = batch == this.scenario.workload.batch
    result = this if chosen else quick(set_path(this.scenario, "workload.batch", batch))
    head = result.headline
    cost = head.usd_per_million_output_tokens
    if head.tokens_per_s_user is None or head.tokens_per_s_system is None or head.ttft_s is None or cost is None:
        return None
    return Point(
        batch=batch,
        tokens_per_s_user=head.tokens_per_s_user,
        tokens_per_s_per_gpu=tokens_per_s_per_gpu(result) or head.tokens_per_s_system,
        ttft_s=head.ttft_s,
        usd_per_million_output_tokens=cost,
        meets_targets=meets(this.scenario.workload, head.ttft_s, head.tpot_s),
        chosen=chosen,
    )


def _sentence(points: list[Point], per: str) -> str:
    chosen = next((point for point in points if point.chosen), None)
    if chosen is None:
        return ""
    text = (
        f"Batch {count(chosen.batch)} gives each user {significant(chosen.tokens_per_s_user)} tok/s and "
        f"{significant(chosen.tokens_per_s_per_gpu)} output tok/s per {per}"
    )
    able = [point for point in points if point.meets_targets is not False and not point.chosen]
    most = max(able, key=lambda point: point.tokens_per_s_per_gpu, default=None)
    if chosen.meets_targets is False and most is not None:
        return (
            f"{text}, and misses a target; batch {count(most.batch)} meets it, with "
            f"{significant(most.tokens_per_s_per_gpu)} per {per}."
        )
    if chosen.meets_targets is False:
        return f"{text}, and misses a target; so does every other batch."
    if most is not None and most.tokens_per_s_per_gpu > 1.02 * chosen.tokens_per_s_per_gpu:
        return (
            f"{text}; batch {count(most.batch)} would give {significant(most.tokens_per_s_per_gpu)} per {per} at "
            f"{significant(most.tokens_per_s_user)} tok/s per user."
        )
    limit = " that meets the targets" if any(point.meets_targets is not None for point in points) else ""
    return f"{text}; no other batch{limit} gives more."
