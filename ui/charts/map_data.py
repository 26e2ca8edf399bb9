"""A placement arranged for drawing: order of the experts, classes of the view, shares by layer. Sorting only."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from planner.result import Placement
from planner.words import names
from planner.words.formats import bits as bits_text
from ui.theme import VIRIDIS, bits_colour, tier_colour

View = Literal["tier", "bits", "load"]
Order = Literal["load", "number"]
LOAD_STEPS = 60
SMALL_MAP_EXPERTS = 32


@dataclass(frozen=True)
class Group:
    """One colour of the map: its name, what is written into its band, and what it holds."""

    name: str
    short: str
    colour: str
    experts: int
    token_share: float


@dataclass(frozen=True)
class MapData:
    """``order[layer]`` lists expert numbers as drawn, left to right; ``group[layer][expert]`` indexes ``groups``."""

    layers: int
    experts: int
    order: list[list[int]]
    group: list[list[int]]
    groups: list[Group]
    shares: list[list[float]]  # [group][layer] share of that layer's tokens
    by_rank: list[list[float]]  # [position][layer] tokens per expert and step


def groups_of(place: Placement, view: View) -> tuple[list[Group], list[int]]:
    """The colours of a view and, for each class of the placement, which of them it has."""
    if view == "bits":
        widths = sorted({klass.bits for klass in place.classes}, reverse=True)
        found = []
        for width in widths:
            members = [klass for klass in place.classes if klass.bits == width]
            found.append(
                Group(
                    name=f"{bits_text(width)}\u00a0bit",
                    short=f"{bits_text(width)} bit",
                    colour=bits_colour(width),
                    experts=sum(klass.experts for klass in members),
                    token_share=sum(klass.token_share for klass in members),
                )
            )
        return found, [widths.index(klass.bits) for klass in place.classes]
    taken: dict[tuple[str, float], int] = {}
    found = []
    for klass in place.classes:
        # Two formats of the same width in one tier would have one colour: the name tells them apart.
        again = taken.get((klass.tier, klass.bits), 0)
        taken[klass.tier, klass.bits] = again + 1
        name = f"{names.tier(klass.tier)}, {bits_text(klass.bits)}\u00a0bit" + (f" ({klass.format})" if again else "")
        found.append(
            Group(
                name=name,
                short=f"{names.TIER_SHORT.get(klass.tier, klass.tier)} {bits_text(klass.bits)} bit",
                colour=tier_colour(klass.tier, klass.bits),
                experts=klass.experts,
                token_share=klass.token_share,
            )
        )
    return found, list(range(len(place.classes)))


def arrange(place: Placement, view: View, order: Order) -> MapData:
    """Everything that the map draws, from the placement alone."""
    groups, of_class = groups_of(place, view)
    layers, experts = len(place.load), len(place.load[0]) if place.load else 0
    orders = [
        sorted(range(experts), key=row.__getitem__, reverse=True) if order == "load" else list(range(experts))
        for row in place.load
    ]
    group = [[of_class[klass] for klass in row] for row in place.klass]
    shares = [[0.0] * layers for _ in groups]
    for layer, (row, loads) in enumerate(zip(group, place.load, strict=True)):
        total = sum(loads) or 1.0
        for index, load in zip(row, loads, strict=True):
            shares[index][layer] += load / total
    by_rank = [[place.load[layer][orders[layer][rank]] for layer in range(layers)] for rank in range(experts)]
    return MapData(layers, experts, orders, group, groups, shares, by_rank)


def busiest_share(place: Placement, part: float) -> list[float]:
    """Share of each layer's tokens that its busiest ``part`` of the experts takes."""
    shares = []
    for row in place.load:
        ranked = sorted(row, reverse=True)
        shares.append(sum(ranked[: max(1, round(part * len(row)))]) / (sum(row) or 1.0))
    return shares


def quantile(values: list[float], share: float) -> float:
    """Quantile by linear interpolation between the sorted values."""
    ranked = sorted(values)
    place = share * (len(ranked) - 1)
    low = int(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * (place - low)


@dataclass(frozen=True)
class LoadScale:
    """Logarithmic steps of load, for the view by load: step of a value, colours, ends."""

    low: float
    high: float

    def step(self, load: float) -> int:
        if load <= self.low or self.high <= self.low:
            return 0
        share = math.log(load / self.low) / math.log(self.high / self.low)
        return min(int(share * LOAD_STEPS), LOAD_STEPS - 1)


def load_scale(place: Placement) -> LoadScale:
    """From the smallest load that is not zero (at most 10,000 below the largest) to the largest."""
    every = [load for row in place.load for load in row if load > 0]
    if not every:
        return LoadScale(1.0, 1.0)
    high = max(every)
    return LoadScale(max(min(every), high / 1e4), high)


def viridis() -> list[list[float | str]]:
    """Plotly's form of the sequential scale; dark is little on a light ground and the same on a dark one."""
    last = len(VIRIDIS) - 1
    return [[index / last, colour] for index, colour in enumerate(VIRIDIS)]
