"""The parts of the improved schedule's proof, each against the plainest statement of what it must do."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from planner.schedule import NDP
from planner.schedule_bound import NEVER, allowed, game, relaxed, rounding_cut
from planner.schedule_improved import Row, least_makespan
from planner.schedule_improved_reference import game_reference, knapsack_reference, rounding_cut_reference
from planner.schedule_knapsack import STATES, knapsack, prepare, working_room
from planner.schedule_prove import empty_pool, prove
from planner.schedule_search import fill_loads, search, whole

SEEDS = st.integers(0, 10**6)


def random_row(seed: int, experts: int = 6, dimms: int = 2) -> Row:
    rng = np.random.default_rng(seed)
    home = np.where(rng.random(experts) < 0.3, -1, rng.integers(0, dimms, experts))
    seconds = rng.integers(1, 9, (3, experts)).astype(float)
    seconds[0, rng.random(experts) < 0.1] = np.inf
    seconds[2, home < 0] = np.inf
    reads = rng.integers(0, 3, (2, experts)) * rng.choice([0.0, 0.5, 2.0])
    base = np.concatenate([rng.integers(0, 3, 3), np.full(dimms, rng.integers(0, 2))]).astype(float)
    return Row(seconds, reads * rng.random(), np.where(home >= 0, reads, reads / dimms), home.astype(np.int64), base)


def schedules(row: Row) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Every schedule with its loads, from the definition."""
    dimms = row.base.size - 3
    for choice in itertools.product((0, 1, 2), repeat=row.home.size):
        if not np.isfinite(row.seconds[choice, np.arange(row.home.size)]).all():
            continue
        load = row.base.copy()
        for e, k in enumerate(choice):
            if k == NDP:
                load[3 + row.home[e]] += row.seconds[2, e]
            else:
                load[k] += row.seconds[k, e]
                load[2] += row.host[k, e]
                for d in range(dimms) if row.home[e] < 0 else [row.home[e]]:
                    load[3 + d] += row.dimm[k, e]
        yield np.array(choice), load


@given(SEEDS, st.floats(0, 1), st.sampled_from(["any", "equal", "in step", "whole"]))
@example(1, 0.9999999999999999, "any")
@settings(max_examples=60)
def test_knapsack_is_exact(seed: int, filled: float, kind: str) -> None:
    rng = np.random.default_rng(seed)
    items = rng.permutation(12)[: rng.integers(1, 13)]
    free = rng.random(12) + 0.1 if kind != "whole" else rng.integers(1, 5, 12).astype(float)
    price = {"any": rng.random(12), "equal": np.ones(12), "in step": 2 * free, "whole": rng.integers(0, 4, 12) * 1.0}[
        kind
    ]
    room = filled * free[items].sum()
    keep, plain = np.full(12, 9.0), np.full(12, 9.0)
    found = knapsack(room, items, items.size, price, free, keep, *working_room(items.size))
    takes = np.array(list(itertools.product((0, 1), repeat=items.size)))
    value, used = takes @ price[items], takes @ free[items]
    # A set that fills the room to the last bit fits or not by the order of its sum.
    least, most = value[used <= room * (1 - 1e-12)].max(), value[used <= room * (1 + 1e-12)].max()
    assert least - 1e-12 <= found <= most + 1e-12
    assert set(keep[items]) <= {0.0, 1.0}
    assert keep[items] @ free[items] <= room * (1 + 1e-12)
    assert keep[items] @ price[items] == pytest.approx(found, abs=1e-12)
    assert (keep[np.setdiff1d(np.arange(12), items)] == 9.0).all()
    assert knapsack_reference(room, items, price, free, plain) == found
    assert np.array_equal(keep, plain)


def test_knapsack_that_outgrows_its_lists_is_relaxed_from_above() -> None:
    """Forty experts whose saving is in step with their seconds, all subset sums different: a split one remains."""
    rng = np.random.default_rng(0)
    free = rng.random(40) + 1.0
    room, items, keep = 0.37 * free.sum(), np.arange(40), np.zeros(40)
    price = free * (1 + 1e-5 * rng.random(40))
    found = knapsack(room, items, 40, price, free, keep, *working_room(40))
    split = (keep > 0) & (keep < 1)
    assert STATES < 2**40 and split.sum() == 1
    assert keep @ price == pytest.approx(found)
    assert keep @ free == pytest.approx(room)
    relaxation = linprog(-price, A_ub=free[None], b_ub=[room], bounds=(0, 1))
    assert np.floor(keep) @ price <= found <= -relaxation.fun * (1 + 1e-7)


@given(SEEDS)
@settings(max_examples=60)
def test_game_has_the_value_of_the_linear_programme(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, resources = rng.integers(1, 30), rng.integers(1, 9)
    table = rng.random((rows, resources)) - 0.3
    if seed % 2:
        table = np.round(table * 3) / 3  # ties
    prices, weights = np.zeros(resources), np.zeros(rows)
    value = game(np.pad(table, ((0, 2), (0, 1))), rows, resources, prices, weights)
    c = np.append(np.zeros(resources), -1.0)
    same = linprog(
        c, A_ub=np.column_stack([-table, np.ones(rows)]), b_ub=np.zeros(rows),
        A_eq=[np.append(np.ones(resources), 0.0)], b_eq=[1], bounds=[(0, None)] * resources + [(None, None)],
    )  # fmt: skip
    assert value == pytest.approx(-same.fun, abs=1e-9)
    assert prices.min() >= 0 and prices.sum() == pytest.approx(1)
    assert (table @ prices).min() == pytest.approx(value, abs=1e-9)
    assert (weights @ table).max() == pytest.approx(value, abs=1e-9)
    plain = game_reference(table)
    assert plain[0] == value
    assert np.array_equal(plain[1], prices) and np.array_equal(plain[2], weights)


@given(SEEDS, st.sampled_from([0, 1]), st.sampled_from([1.0, 0.5, 1 / 3]), st.floats(0.3, 1.2))
@settings(max_examples=40)
def test_no_schedule_that_ends_in_time_breaks_a_rounding_cut(seed: int, k: int, part: float, stretch: float) -> None:
    row = random_row(seed)
    rng = np.random.default_rng(seed)
    horizon = stretch * max(min(load.max() for _, load in schedules(row)), 1.0)
    usable = row.seconds[k][np.isfinite(row.seconds[k])]
    unit, inside = float(rng.choice(usable)) * part if usable.size else 1.0, rng.random(6) < 0.5
    cut = np.empty(6)
    zero = rounding_cut(horizon, *row, k, unit, inside, cut)
    plain_cut, plain_zero = rounding_cut_reference(horizon, row, k, unit, inside)
    assert zero == plain_zero
    if zero == np.inf:
        return
    assert np.array_equal(cut, plain_cut)
    for choice, load in schedules(row):
        if load.max() <= horizon:
            assert zero + cut[choice == k].sum() <= 1e-9


def test_a_rounding_cut_counts_whole_experts() -> None:
    """Experts of 2 s on a GPU that is open for 5 s: two at most, so sum 2 x <= 4 and no more than the cut allows."""
    row = Row(np.full((3, 4), 2.0), np.zeros((2, 4)), np.zeros((2, 4)), np.zeros(4, np.int64), np.zeros(4))
    cut = np.empty(4)
    zero = rounding_cut(5.0, *row, 0, 2.0, np.zeros(4, bool), cut)
    assert cut.tolist() == [0.4] * 4
    assert zero == pytest.approx(-0.8)
    assert zero + cut[:3].sum() > 0, "three break it"


@given(SEEDS, st.floats(0.5, 2.0))
@settings(max_examples=40)
def test_relaxed_price_is_below_that_of_every_schedule_in_time(seed: int, stretch: float) -> None:
    row = random_row(seed)
    rng = np.random.default_rng(seed)
    horizon = stretch * max(min(load.max() for _, load in schedules(row)), 1.0)
    prices = rng.dirichlet(np.ones(3))
    keep, away = np.zeros(6), np.zeros(6, np.int64)
    none = np.zeros(0, np.int64), np.zeros((0, 6)), np.zeros(0)
    found = relaxed(horizon, prices, *row, 0, *none, prepare(row.seconds, row.dimm, row.home, row.base), keep, away)
    for choice, load in schedules(row):
        if load.max() <= horizon:
            assert found <= load[:3] @ prices / horizon + 1e-9
            ends = [allowed(horizon, *row, k, e) for e, k in enumerate(choice) if k != NDP]
            assert all(ends)
    if found < NEVER / 2:
        off = 1 - keep
        asked = [sum(off[away == k] * row.seconds[k, away == k]) for k in (0, 1)]
        asked.append(sum(off * row.host[away, np.arange(6)]))
        assert found == pytest.approx((row.base[:3] + asked) @ prices / horizon)


@given(SEEDS, st.floats(0.4, 1.1))
@settings(max_examples=40)
def test_nothing_is_proven_impossible_that_a_schedule_reaches(seed: int, stretch: float) -> None:
    row = random_row(seed)
    optimum = min(load.max() for _, load in schedules(row))
    pool, cuts, number = empty_pool(6)
    proven = prove(
        stretch * optimum, *row, prepare(row.seconds, row.dimm, row.home, row.base), pool, cuts, number
    ) if optimum > 0 else False  # fmt: skip
    assert not (proven and stretch >= 1)
    assert least_makespan(row) <= optimum * (1 + 1e-12)
    assert (pool.weights.sum() == pytest.approx(1)) or pool.weights.sum() == 0


@given(SEEDS, st.sampled_from([2, 3]))
@settings(max_examples=40)
def test_search_never_makes_it_worse_and_says_the_truth(seed: int, places: int) -> None:
    row = random_row(seed, 10, 3)
    rng = np.random.default_rng(seed)
    can = np.isfinite(row.seconds)
    start = np.array([rng.choice(np.flatnonzero(can[:, e])) for e in range(10)])
    load, domain = np.empty(6), start.copy()
    before = fill_loads(*row, start, load)
    made, left = search(*row, domain, 0.0, places, 500)
    assert made == fill_loads(*row, domain, load) <= before
    assert 0 <= left <= 500
    assert np.isfinite(row.seconds[domain, np.arange(10)]).all()
    if places == 2:
        assert np.array_equal(domain == 2, start == 2)
    assert search(*row, start.copy(), before, places, 500) == (before, 500), "good enough: nothing is done"


def test_whole_schedules_take_each_dimm_from_one_of_the_mixed_ones() -> None:
    """Half a mixture of everything on the GPU and everything at home: two DIMMs of four experts keep theirs."""
    row = Row(np.ones((3, 16)), np.zeros((2, 16)), np.zeros((2, 16)), np.repeat(np.arange(4), 4), np.zeros(7))
    keep = np.stack([np.zeros(16), np.ones(16)])
    domain = np.full(16, 9)
    whole(row.seconds, row.host, row.home, np.arange(16), keep, np.zeros((2, 16), np.int64), np.full(2, 0.5), domain)
    per_dimm = domain.reshape(4, 4)
    assert (per_dimm == per_dimm[:, :1]).all()
    assert sorted(per_dimm[:, 0]) == [0, 0, 2, 2]
