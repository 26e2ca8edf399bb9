"""A delta split over what was changed: the Shapley average over all orders of changing one group after another.

The share of a group is what its change adds, averaged over every order in which the groups can be changed
(L. S. Shapley, A value for n-person games, 1953). Shares add up to the delta, a group that never matters gets zero,
and two groups that do the same get the same. With n groups there are 2^n mixtures to value, each valued once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Generic, TypeVar

Player = TypeVar("Player", bound=str)
Block = tuple[Player, ...]
GRID_BITS = 48  # bits below the largest value: sums of seven parts stay exact in a double's 53


class Values(Generic[Player]):
    """The figures of each mixture, by the set of players changed; every mixture is valued at most once.

    ``value`` gives the figures of a mixture, or a sentence why it has none.
    """

    def __init__(self, value: Callable[[frozenset[Player]], Mapping[str, float] | str]) -> None:
        self._value = value
        self._known: dict[frozenset[Player], Mapping[str, float] | str] = {}

    def __call__(self, taken: frozenset[Player]) -> Mapping[str, float] | str:
        if taken not in self._known:
            self._known[taken] = self._value(taken)
        return self._known[taken]

    @property
    def evaluated(self) -> int:
        """Mixtures valued so far."""
        return len(self._known)


def merged(players: Sequence[Player], values: Values[Player]) -> tuple[tuple[Block[Player], ...], str]:
    """The finest grouping of ``players`` under which every mixture has figures, and the first reason for merging.

    Tries the groupings with most blocks first; of equally many, the one whose largest block is smallest. All players
    in one block always works, because only the two ends are valued then.
    """
    reason = ""
    for blocks in groupings(players):
        failed = next((why for taken in _mixtures(blocks) if isinstance(why := values(taken), str)), None)
        if failed is None:
            return tuple(sorted(blocks, key=lambda block: players.index(block[0]))), reason
        reason = reason or failed
    raise ValueError("the two ends themselves have no figures")


def groupings(players: Sequence[Player]) -> list[tuple[Block[Player], ...]]:
    """All ways to part ``players`` into blocks, finest first."""
    found = [tuple(tuple(block) for block in part) for part in _partitions(list(players))]
    return sorted(found, key=lambda blocks: (-len(blocks), max((len(b) for b in blocks), default=0)))


def parts_of(blocks: Sequence[Block[Player]], values: Values[Player], metric: str) -> dict[Block[Player], float]:
    """Each block's share of ``values(all)[metric] - values(none)[metric]``.

    Computed in exact fractions and rounded onto one grid, 2^-48 of the largest value, by largest remainder: the parts
    add up exactly, in any order of addition, to the delta on that grid (:func:`delta_of`).
    """
    table = {taken: _figure(values(taken), metric) for taken in _mixtures(blocks)}
    grid = _grid(table.values())
    whole = {taken: round(Fraction(value) / grid) for taken, value in table.items()}
    n = len(blocks)
    weight = [Fraction(math.factorial(k) * math.factorial(n - 1 - k), math.factorial(n)) for k in range(n)]
    shares: list[Fraction] = []
    for index, block in enumerate(blocks):
        others = [other for place, other in enumerate(blocks) if place != index]
        shares.append(
            sum(
                (weight[size] * (whole[taken | frozenset(block)] - whole[taken]) for taken, size in _sized(others)),
                Fraction(0),
            )
        )
    total = whole[frozenset(p for block in blocks for p in block)] - whole[frozenset()]
    return {block: float(units * grid) for block, units in zip(blocks, _rounded(shares, total), strict=True)}


def _rounded(shares: Sequence[Fraction], total: int) -> list[int]:
    """Whole numbers next to ``shares`` that add up to ``total``: the largest remainders are rounded up."""
    floors = [math.floor(share) for share in shares]
    order = sorted(range(len(shares)), key=lambda i: (floors[i] - shares[i], i))
    for index in order[: total - sum(floors)]:
        floors[index] += 1
    return floors


def _grid(values: Iterable[float]) -> Fraction:
    """A power of two: every value is a whole number of it, to 14 digits of the largest."""
    largest = max((abs(value) for value in values), default=0.0)
    return Fraction(2) ** (math.frexp(largest)[1] - GRID_BITS) if largest else Fraction(1)


def _figure(value: Mapping[str, float] | str, metric: str) -> float:
    if isinstance(value, str):
        raise ValueError(value)
    return value[metric]


def _sized(blocks: Sequence[Block[Player]]) -> Iterator[tuple[frozenset[Player], int]]:
    """Every union of some of the blocks, with how many they are."""
    for mask in range(1 << len(blocks)):
        chosen = [block for place, block in enumerate(blocks) if mask >> place & 1]
        yield frozenset(p for block in chosen for p in block), len(chosen)


def _mixtures(blocks: Sequence[Block[Player]]) -> Iterator[frozenset[Player]]:
    return (taken for taken, _ in _sized(blocks))


def _partitions(items: list[Player]) -> Iterator[list[list[Player]]]:
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for part in _partitions(rest):
        yield [[first], *part]
        for index, block in enumerate(part):
            yield [*part[:index], [first, *block], *part[index + 1 :]]
