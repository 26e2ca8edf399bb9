"""How sure a plan is, in words: what its intervals rest on, its measured neighbours, what to measure next."""

from __future__ import annotations

from planner.result import AccuracyPart, AccuracyReport, Neighbour, NextMeasurement, Result
from planner.words.formats import capital, count, listing, share, significant, trimmed, uncapital
from planner.words.names import HEADLINE

REGIMES: dict[str, str] = {
    "cpu_experts": "Experts on the CPU",
    "cpu_only": "CPU only",
    "pcie_stream": "Streamed over the link",
    "gpu_expert_cache": "Expert cache on the GPU",
    "all_gpu": "All experts in HBM",
    "unified_memory": "Unified memory",
}
PHASES: dict[str, str] = {"decode": "decode", "prefill": "prefill", "e2e": "end to end"}
LEVELS: dict[str, str] = {
    "family": "of this kind and engine",
    "phase": "of this kind, engines pooled",
    "regime": "of this kind, engines and phases pooled",
    "all": "of all kinds",
}
UNKNOWN = "No silicon measured, coverage unknown."
MEASURED = "measured accuracy"
PART_NAMES: dict[str, str] = {
    "ttft_s": "First token, TTFT",
    "tpot_s": "Per token, TPOT",
    "tokens_per_s_user": "Per user",
    "tokens_per_s_system": "Throughput",
    "tokens_per_s_end_to_end": "Throughput, end to end",
    "prefill_tokens_per_s": "Prefill",
    "energy_j_per_output_token": "Energy",
    "usd_per_million_input_tokens": "Cost, input",
    "usd_per_million_output_tokens": "Cost, output",
    "usd_per_month": "Cost per month",
}


def regime(name: str) -> str:
    """Where experts live and are computed in measured runs, in words."""
    return REGIMES.get(name, name.replace("_", " ").capitalize())


def phase(name: str) -> str:
    """Decode, prefill or both together, in words."""
    return PHASES.get(name, name.replace("_", " "))


def family(name: str) -> str:
    """An engine family; the generation before today's is said to be early."""
    return f"{name.removesuffix('-early')}, early versions" if name.endswith("-early") else name


def part_name(key: str) -> str:
    """A headline figure as its card is called."""
    return PART_NAMES.get(key, HEADLINE.get(key, (key, ""))[0])


def runs(number: int) -> str:
    """``1 run``, ``46 runs``."""
    return f"{count(number)} {'run' if number == 1 else 'runs'}"


def machines(number: int) -> str:
    """``on 1 machine``, ``on 9 machines``."""
    return f"on {count(number)} {'machine' if number == 1 else 'machines'}"


def measured_on(part: AccuracyPart) -> str:
    """``12 decode runs on 5 machines, of this kind, engines pooled; 40 % off in the median``; empty without any."""
    if part.level is None or part.median_error is None:
        return ""
    kind = f"{phase(part.phase)} runs" if part.level in ("family", "phase") else "runs"
    return (
        f"{count(part.rows)} {kind} {machines(part.groups)} {LEVELS.get(part.level, part.level)}; "
        f"{share(part.median_error)} off in the median"
    )


def rests_on(part: AccuracyPart) -> str:
    """What an interval rests on, for a line of a table: measured runs, or the input whose range widens it most."""
    seen = measured_on(part)
    if part.dominated_by == MEASURED and seen:
        return seen
    return f"{_inputs(part)}; measured: {seen}" if seen else _inputs(part)


def _inputs(part: AccuracyPart) -> str:
    if part.dominated_by == "nothing":
        return "no input's range moves it"
    return f"from the ranges of the inputs, {uncapital(part.dominated_by)} most of all"


def interval_sentence(part: AccuracyPart) -> str:
    """Where one headline's interval comes from, as a sentence."""
    seen = measured_on(part)
    if part.dominated_by == MEASURED and seen:
        return f"80 % interval from measured accuracy: {seen}."
    return f"{capital(_inputs(part))}; measured: {seen}." if seen else f"{capital(_inputs(part))}. {UNKNOWN}"


def outlook(result: Result) -> str:
    """What the ranges of a plan's figures are: measured accuracy, or ranges of the inputs; empty without ranges."""
    if not result.headline.intervals:
        return ""
    if result.accuracy is None:
        return "Ranges come from the ranges of the inputs; they are not a measured accuracy."
    return result.accuracy.sentence


def interval_title(result: Result) -> str:
    """What the column of ranges is called; empty without ranges."""
    if not result.headline.intervals:
        return ""
    return "80 % interval" if result.accuracy is not None and result.accuracy.regime else "range of the inputs"


def finding(report: AccuracyReport) -> str:
    """What the interval of TPOT rests on: the one sentence that leads."""
    part = next((part for part in report.parts if part.key == "tpot_s"), None)
    return report.sentence if part is None else f"TPOT: {uncapital(interval_sentence(part))}"


def range_sentence(report: AccuracyReport) -> str:
    """Whether the scenario lies within what was measured."""
    if report.regime is None:
        return UNKNOWN
    if report.in_validated_range:
        return f"This scenario is inside the validated range ({uncapital(regime(report.regime))})."
    return f"This scenario is outside the validated range: {listing(list(report.beyond))}. Intervals are wider for it."


def neighbours_sentence(report: AccuracyReport) -> str:
    """``3 measurements within this shape; the closest: ...``"""
    if report.regime is None:
        return "No measurement of this kind exists."
    found = report.neighbours
    if not found:
        return "No measurement lies near this shape."
    number = f"{len(found)} {'measurement' if len(found) == 1 else 'measurements'} within this shape"
    return f"{number}; the closest: {found[0].label}, {neighbour_sentence(found[0])}."


def error(neighbour: Neighbour) -> float:
    """Predicted / measured - 1."""
    return neighbour.predicted_tokens_per_s / neighbour.measured_tokens_per_s - 1.0


def neighbour_sentence(neighbour: Neighbour) -> str:
    """Measured beside predicted, in the run's own unit."""
    return (
        f"{significant(neighbour.measured_tokens_per_s)} {per(neighbour.per)} measured, "
        f"{significant(neighbour.predicted_tokens_per_s)} predicted"
    )


def per(text: str) -> str:
    """``output tokens/s per request`` of the file's ``output tokens/s, request``."""
    what, _, of = text.partition(", ")
    return f"{what} {'per request' if of == 'request' else 'in total' if of == 'total' else of}".strip()


def next_sentence(what: NextMeasurement) -> str:
    """``link rate by message size, 1 minute: from ±35 % to about ±12 %``"""
    minutes = f"{trimmed(what.minutes)} {'minute' if what.minutes == 1 else 'minutes'}"
    return f"{what.what}, {minutes}: from ±{share(what.half_width_now)} to about ±{share(what.half_width_then)}"
