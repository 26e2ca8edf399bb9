"""The Shapley average on value functions with known answers, and on any others."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.compare.shapley import Values, groupings, merged, parts_of

Table = dict[frozenset[str], float]
FLOATS = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False, allow_subnormal=False)


def values_of(table: Mapping[frozenset[str], float | str]) -> Values[str]:
    def value(taken: frozenset[str]) -> Mapping[str, float] | str:
        found = table[taken]
        return found if isinstance(found, str) else {"m": found}

    return Values(value)


def subsets(players: str) -> list[frozenset[str]]:
    return [frozenset(p for i, p in enumerate(players) if mask >> i & 1) for mask in range(1 << len(players))]


@st.composite
def games(draw: st.DrawFn, most: int = 5) -> tuple[str, Table]:
    players = "abcdefg"[: draw(st.integers(1, most))]
    return players, {taken: draw(FLOATS) for taken in subsets(players)}


def singles(players: str) -> tuple[tuple[str, ...], ...]:
    return tuple((p,) for p in players)


@given(games())
def test_parts_add_up_exactly_in_any_order(game: tuple[str, Table]) -> None:
    players, table = game
    parts = list(parts_of(singles(players), values_of(table), "m").values())
    whole, none = table[frozenset(players)], table[frozenset()]
    exact = sum((Fraction(part) for part in parts), Fraction(0))
    assert {float(sum(order)) for order in permutations(parts)} == {float(exact)}
    assert Fraction(sum(parts)) == exact
    largest = max(abs(v) for v in table.values())
    assert abs(exact - (Fraction(whole) - Fraction(none))) <= Fraction(largest) * Fraction(1, 2**46)


@given(games(4))
def test_parts_are_the_average_over_all_orders(game: tuple[str, Table]) -> None:
    players, table = game
    parts = parts_of(singles(players), values_of(table), "m")
    orders = list(permutations(players))
    largest = max(abs(v) for v in table.values()) or 1.0
    for player in players:
        mean = Fraction(0)
        for order in orders:
            before = frozenset(order[: order.index(player)])
            mean += Fraction(table[before | {player}]) - Fraction(table[before])
        assert abs(parts[(player,)] - float(mean / len(orders))) <= 1e-12 * largest


@given(games(4), FLOATS)
def test_a_group_that_changes_nothing_gets_nothing(game: tuple[str, Table], shift: float) -> None:
    players, table = game
    idle = {taken | extra: value for taken, value in table.items() for extra in (frozenset(), frozenset("z"))}
    assert parts_of(singles(players + "z"), values_of(idle), "m")[("z",)] == 0.0
    adds = {taken: sum(ord(p) for p in taken) * 1.0 for taken in subsets(players)}
    assert parts_of(singles(players), values_of(adds), "m") == {(p,): float(ord(p)) for p in players}


def test_seven_groups_take_128_values() -> None:
    values = values_of({taken: float(len(taken) ** 2) for taken in subsets("abcdefg")})
    assert list(parts_of(singles("abcdefg"), values, "m").values()) == pytest.approx([7.0] * 7)
    assert values.evaluated == 128


def test_finest_grouping_without_failing_mixtures() -> None:
    # a needs b: every mixture with a and without b fails.
    table = {t: "a needs b" if "a" in t and "b" not in t else float(len(t)) for t in subsets("abcd")}
    blocks, reason = merged("abcd", values_of(table))
    assert blocks == (("a", "b"), ("c",), ("d",))
    assert reason == "a needs b"
    # and c needs d as well: two pairs, not one block of three or four
    table = {t: "c needs d" if "c" in t and "d" not in t else v for t, v in table.items()}
    assert merged("abcd", values_of(table))[0] == (("a", "b"), ("c", "d"))


@given(st.sets(st.sampled_from(subsets("abcd")[1:-1])))
def test_grouping_is_valid_and_none_finer_is(failing: set[frozenset[str]]) -> None:
    values = values_of({t: "fails" if t in failing else 0.0 for t in subsets("abcd")})
    blocks, _ = merged("abcd", values)

    def valid(parts: tuple[tuple[str, ...], ...]) -> bool:
        return all(frozenset(p for i, b in enumerate(parts) if m >> i & 1 for p in b) not in failing
                   for m in range(1 << len(parts)))  # fmt: skip

    assert valid(blocks)
    assert sorted(p for block in blocks for p in block) == list("abcd")
    assert not any(valid(parts) for parts in groupings("abcd") if len(parts) > len(blocks))
