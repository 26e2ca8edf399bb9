"""80 % intervals of the headline: from what measured runs of the kind missed, and from the ranges of the inputs.

The two are not added: the misses of measured runs hold the uncertainty of most inputs as well. Each end is the wider of
the two, and the report says which one it was. Where nothing of the kind runs in silicon, only the inputs remain, and
their coverage is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from hardware import path_schema
from planner import accuracy
from planner.accuracy_case import beyond, regime_of, shape
from planner.evaluate import Evaluation
from planner.neighbours import contradictions, nearest_runs
from planner.next_measurement import suggestions
from planner.ranges import Ranges
from planner.result import AccuracyPart, AccuracyReport, Interval

PHASES: Mapping[str, tuple[str, bool]] = {
    "ttft_s": ("prefill", True),
    "tpot_s": ("decode", True),
    "tokens_per_s_user": ("decode", False),
    "tokens_per_s_system": ("decode", False),
    "tokens_per_s_end_to_end": ("e2e", False),
    "prefill_tokens_per_s": ("prefill", False),
    "energy_j_per_output_token": ("decode", True),
    "usd_per_million_input_tokens": ("prefill", True),
    "usd_per_million_output_tokens": ("decode", True),
    "usd_per_month": ("e2e", True),
}
"""Headline figure -> phase of the runs that tell its accuracy, and whether it falls as the rate rises."""
MEASURED = "measured accuracy"
NO_SILICON = "No silicon measured, coverage unknown: ranges come from the ranges of the inputs alone."


def intervals(found: Evaluation, spread: Ranges) -> tuple[dict[str, Interval], AccuracyReport]:
    """Intervals by headline key, and what they rest on."""
    regime = regime_of(found.ctx)
    engine = found.ctx.scenario.policy.engine
    case = shape(found.ctx)
    outside = beyond(case, regime, "decode") if regime else ()
    chosen: dict[str, Interval] = {}
    parts = []
    floors = _floors(found)
    for key, value in found.figures().items():
        given = spread.intervals.get(key)
        around = None if regime is None else _measured(regime, key, engine, bool(outside))
        seen = None if around is None else _times(value, around, PHASES[key][1])
        chosen.update(_joined(key, value, given, seen, floors))
        parts.append(
            AccuracyPart(
                key=key,
                phase=PHASES[key][0],
                level=None if around is None else around.level,
                rows=0 if around is None else around.rows,
                groups=0 if around is None else around.groups,
                median_error=None if around is None else around.median_error,
                measured=seen,
                inputs=given,
                dominated_by=_dominant(spread, key, given, seen),
            )
        )
    return chosen, AccuracyReport(
        regime=regime,
        in_validated_range=regime is not None and not outside,
        beyond=outside,
        parts=tuple(parts),
        neighbours=() if regime is None else nearest_runs(case, regime),
        next_measurements=suggestions(spread, chosen.get("tpot_s"), found.figures().get("tpot_s"), regime),
        sentence=_sentence(regime, outside, parts),
    )


def _joined(
    key: str, value: float, given: Interval | None, seen: Interval | None, floors: Mapping[str, float]
) -> dict[str, Interval]:
    """The wider of both at each end, within the floors; cheaper parts or power are no matter of time, and stay."""
    if key.startswith("usd") and seen is not None:
        seen = _possible(seen, key, value, floors)
    both = [ends for ends in (given, seen) if ends is not None]
    if not both:
        return {}
    ends = min(low for low, _ in both), max(high for _, high in both)
    return {key: ends if key.startswith("usd") else _possible(ends, key, value, floors)}


def doubts(found: Evaluation) -> tuple[str, ...]:
    """Sentences for a headline that a very similar measured run contradicts; drafted tokens were never measured so."""
    regime, w = regime_of(found.ctx), found.ctx.scenario.workload
    figures, prefill = found.figures(), found.prefill
    if regime is None or prefill is None or w.draft_tokens:
        return ()
    rates = {
        ("decode", "output tokens/s, request"): figures["tokens_per_s_user"],
        ("decode", "output tokens/s, total"): figures["tokens_per_s_system"],
        ("prefill", "input tokens/s, request"): found.ctx.new_prompt_tokens / prefill.alone_s,
        ("e2e", "output tokens/s, total"): figures["tokens_per_s_end_to_end"],
    }
    return contradictions(shape(found.ctx), regime, found.ctx.scenario.policy.engine, rates)


def _floors(found: Evaluation) -> dict[str, float]:
    """By phase: least time over the predicted one, of the bytes and FLOP that the pass must move and compute."""
    assert found.decode is not None and found.prefill is not None
    decode, prefill = found.decode.step, found.prefill.timing.step
    return {
        "decode": max(decode.byte_floor_s, decode.flop_floor_s) / decode.total_s,
        "prefill": max(prefill.byte_floor_s, prefill.flop_floor_s) / prefill.total_s,
    }


def _possible(ends: Interval, key: str, value: float, floors: Mapping[str, float]) -> Interval:
    """Nothing is faster than the bytes and the FLOP allow, whatever other runs missed; energy and cost go with time."""
    phase, falls = PHASES[key]
    floor = floors.get(phase)
    if floor is None or key in ("energy_j_per_output_token", "usd_per_month"):
        return ends
    return (max(ends[0], min(value * floor, value)), ends[1]) if falls else (ends[0], min(ends[1], value / floor))


def _measured(regime: str, key: str, engine: str | None, outside: bool) -> accuracy.Spread | None:
    return accuracy.spread(regime, PHASES[key][0], engine, outside=outside)


def _times(value: float, around: accuracy.Spread, falls: bool) -> Interval:
    low, high = (1.0 / around.high, 1.0 / around.low) if falls else (around.low, around.high)
    return value * low, value * high


def _width(ends: Interval | None) -> float:
    return 0.0 if ends is None or ends[0] <= 0 else math.log(ends[1] / ends[0])


def _dominant(spread: Ranges, key: str, given: Interval | None, seen: Interval | None) -> str:
    if seen is not None and _width(seen) >= _width(given):
        return MEASURED
    labels = {spec.path: spec.label for spec in path_schema()}
    moved = {path: max(abs(m) for m in changes.get(key, (0.0, 0.0))) for path, changes in spread.moves.items()}
    if not moved:
        return "nothing"
    most = max(moved, key=lambda path: moved[path])
    return labels.get(most, most)


def _sentence(regime: str | None, outside: tuple[str, ...], parts: list[AccuracyPart]) -> str:
    tpot = next((part for part in parts if part.key == "tpot_s"), None)
    if regime is None or tpot is None or tpot.level is None or tpot.median_error is None:
        return NO_SILICON
    text = (
        f"80 % intervals. Decode of this kind was {100 * tpot.median_error:.0f} % off in the median, over {tpot.rows} "
        f"measured runs on {tpot.groups} machines, each predicted without its own."
    )
    if outside:
        text += f" This plan lies outside what was measured: {'; '.join(outside)}. Intervals are widened."
    return text
