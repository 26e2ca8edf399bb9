"""Where the experts live, in words: for the map as a whole and for one of its cells."""

from __future__ import annotations

from planner.result import Placement, PlacementClass, Result
from planner.words import names
from planner.words.formats import bits, capital, count, listing, share, significant
from planner.words.verdict import tightest


def class_name(klass: PlacementClass) -> str:
    """``GPU HBM, 16 bit``."""
    return f"{names.tier(klass.tier)}, {bits(klass.bits)}\u00a0bit"


def map_finding(result: Result) -> str:
    """Where the experts live and how much of the traffic that covers."""
    place = result.placement
    if place is None:
        return "No expert is placed: the plan stops before placement."
    total = sum(klass.experts for klass in place.classes)
    if not result.headline.fits:
        return _unfit_map(result, place, total)
    if len(place.classes) == 1:
        only = place.classes[0]
        return f"All {count(total)} experts live in {names.tier(only.tier)} at {bits(only.bits)}\u00a0bit."
    on_gpu = [klass for klass in place.classes if klass.tier == "gpu"]
    n_gpu = sum(klass.experts for klass in on_gpu)
    cold = min(
        (klass for klass in place.classes if klass.experts),
        key=lambda klass: klass.token_share / klass.experts,
        default=None,
    )
    taken = share(sum(klass.token_share for klass in on_gpu))
    text = (
        f"{count(n_gpu)} of {count(total)} experts sit in GPU HBM and take {taken} of the tokens"
        if n_gpu
        else f"None of the {count(total)} routed experts stays in GPU HBM"
    )
    if cold is not None and cold.tier != "gpu":
        text += f"; the coldest {share(cold.experts / total)} of the experts take {share(cold.token_share)}"
    return text + "."


def _unfit_map(result: Result, place: Placement, total: int) -> str:
    mean = sum(k.bits * k.experts for k in place.classes) / max(total, 1)
    tiers = listing(list(dict.fromkeys(names.tier(k.tier) for k in place.classes)))
    widths = {k.bits for k in place.classes}
    stored = f"{bits(mean)}\u00a0bit" if len(widths) == 1 else f"a mean of {significant(mean, 2)}\u00a0bits"
    text = f"All {count(total)} experts would live in {tiers} at {stored}"
    tight = tightest(result)
    if tight is not None and tight.tier not in {k.tier for k in place.classes}:
        return text + f"; what is short is {names.plain_tier(tight.name)}, not expert memory."
    return text + "."


def bits_finding(place: Placement) -> str:
    """How wide the experts are stored, on the mean and by width."""
    total = sum(klass.experts for klass in place.classes)
    widths = sorted({klass.bits for klass in place.classes}, reverse=True)
    if len(widths) == 1:
        return f"Every expert is stored at {bits(widths[0])}\u00a0bit."
    mean = sum(klass.bits * klass.experts for klass in place.classes) / max(total, 1)
    by_tokens = sum(klass.bits * klass.token_share for klass in place.classes)
    return (
        f"An expert is stored at {significant(mean, 2)}\u00a0bit on the mean; "
        f"a token meets {significant(by_tokens, 2)}\u00a0bit, because busy experts are kept wider."
        if by_tokens > mean * 1.02
        else f"An expert is stored at {significant(mean, 2)}\u00a0bit on the mean."
    )


def load_finding(place: Placement) -> str:
    """How unevenly the tokens are spread over the experts of a layer."""
    busy, cold, n = 0.0, 0.0, 0
    for row in place.load:
        ranked = sorted(row, reverse=True)
        total = sum(ranked) or 1.0
        busy += sum(ranked[: max(1, round(0.1 * len(ranked)))]) / total
        cold += sum(ranked[len(ranked) // 2 :]) / total
        n += 1
    if not n:
        return "No load is known."
    tenth = "The busiest expert of a layer" if len(place.load[0]) < 15 else "The busiest tenth of a layer's experts"
    return f"{tenth} takes {share(busy / n)} of its tokens; the colder half takes {share(cold / n)}."


def cell(place: Placement, layer: int, expert: int) -> str:
    """One expert: load, rank, tier, bits and why; ``layer`` counts MoE layers from 0, as the placement does."""
    loads, klass = place.load[layer], place.classes[place.klass[layer][expert]]
    rank = 1 + sum(load > loads[expert] for load in loads)
    text = (
        f"Expert {count(expert)} of MoE layer {layer + 1} (layer {place.layers[layer]} of the model): "
        f"{significant(loads[expert])} tokens per step, rank {count(rank)} of {count(len(loads))} in its layer. "
        f"Lives in {names.tier(klass.tier)} at {bits(klass.bits)}\u00a0bit ({klass.format})"
    )
    why = klass.why.strip().rstrip(".")
    return f"{text}. {capital(why)}." if why else text + "."
