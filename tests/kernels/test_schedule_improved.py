"""The improved schedule: by hand, by brute force, by a mixed-integer solver, against its twin, and its bound."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, milp

from benchmarks.schedule import layers_of, loads
from planner import schedule_improved
from planner.schedule import CPU, GPU, NDP, schedule_layers
from planner.schedule_improved import TOLERANCE, ImprovedResult, improve_layers
from planner.schedule_improved_reference import PLAIN
from tests.kernels.make_vectors import plain as as_json
from tests.kernels.make_vectors_improved import make
from tests.kernels.test_schedule import CASES, Case, best_by_force, case, makespan, plain
from tests.kernels.test_vectors import agree
from tests.kernels.vector_files import times, vectors


def improved(given_: Case, **more: Any) -> ImprovedResult:
    return improve_layers(**given_, published=schedule_layers(**given_), **more)


@pytest.mark.parametrize("tight", [0.0, 0.3, 1.0, 3.0])
@given(seed=st.integers(0, 10**6), experts=st.integers(1, 6), dimms=st.integers(1, 4), start=st.sampled_from([0, 1]))
@settings(max_examples=15)
def test_bound_optimum_and_makespan_are_in_order(tight: float, seed: int, experts: int, dimms: int, start: int) -> None:
    """Brute force: the bound is valid with contention, host channels, striped experts and base loads."""
    given_ = case(seed, experts=experts, dimms=dimms, tight=tight)
    published = schedule_layers(**given_, start=start, refine=False)
    result = improve_layers(**given_, published=published)
    assert ((result.domain == -1) == (given_["tokens"] == 0)).all()
    assert (result.makespan_s <= published.makespan_s).all()
    assert (result.lower_bound_s <= result.makespan_s).all()
    assert result.moves.tolist() == (result.domain != published.domain).sum(axis=1).tolist()
    for row in range(2):
        optimum = best_by_force(given_, row)
        assert result.lower_bound_s[row] <= optimum * (1 + 1e-12)
        assert result.makespan_s[row] >= optimum * (1 - 1e-12)
        assert result.makespan_s[row] == pytest.approx(makespan(given_, row, tuple(result.domain[row])), rel=1e-12)
        busy = [result.gpu_s[row], result.cpu_s[row], result.host_s[row], *result.ndp_s[row]]
        assert result.makespan_s[row] == pytest.approx(max(busy), rel=1e-12)
        if result.lower_bound_s[row] > 0:
            assert result.gap[row] == pytest.approx(result.makespan_s[row] / result.lower_bound_s[row] - 1, abs=1e-12)


def test_tiny_layers_are_solved_nearly_always() -> None:
    gaps = []
    for seed in range(150):
        given_ = case(seed, rows=1, tight=0.3)
        result = improved(given_)
        gaps.append(result.makespan_s[0] / max(best_by_force(given_, 0), 1e-9) - 1)
    assert np.mean(np.array(gaps) > 1e-9) <= 0.02


def optimum_of(given_: Case, row: int) -> float:
    """The makespan that HiGHS proves optimal."""
    active, table, base = loads(given_, row)
    n, resources = active.size, base.size
    possible = np.isfinite(table).all(axis=2).ravel()
    use = np.where(possible[:, None], table.reshape(3 * n, resources), 0.0)
    load = np.column_stack([use.T, -np.ones(resources)])
    one_each = np.column_stack([np.kron(np.eye(n), np.ones(3)), np.zeros(n)])
    scale = 1.0 / schedule_layers(**given_).makespan_s[row]
    load[:, :-1] *= scale
    found = milp(
        np.append(np.zeros(3 * n), 1.0),
        constraints=[LinearConstraint(load, -np.inf, -base * scale), LinearConstraint(one_each, 1, 1)],
        integrality=np.append(np.ones(3 * n), 0),
        bounds=(0, np.append(possible.astype(float), np.inf)),
        options={"mip_rel_gap": 1e-5},
    )
    assert found.status == 0
    return float(found.fun) / scale


@pytest.mark.parametrize("layout", ["planned", "half striped", "all localised"])
@pytest.mark.parametrize("zipf", [0.0, 0.7, 1.2])
def test_within_one_per_cent_of_the_solver(layout: str, zipf: float) -> None:
    """Layers of 32 experts on 4 DIMMs; the published refinement is far off on some of them."""
    given_ = layers_of(3, 2, zipf, layout, 64, experts=32, dimms=4, resident=4, top_k=4)
    result = improved(given_)
    for row in range(2):
        optimum = optimum_of(given_, row)
        assert result.makespan_s[row] <= optimum * 1.01
        assert result.lower_bound_s[row] <= optimum * (1 + 2e-5)
        assert result.lower_bound_s[row] >= optimum * 0.97


def test_bound_holds_where_reads_of_striped_experts_differ() -> None:
    """Experts in HBM are striped too and read nothing on the GPU, so moving one to the CPU loads every DIMM."""
    for seed in range(6):
        given_ = case(seed, rows=1, experts=18, dimms=3, striped=0.6, tight=2.0)
        result = improved(given_)
        optimum = optimum_of(given_, 0)
        assert result.lower_bound_s[0] <= optimum * (1 + 2e-5)
        assert result.makespan_s[0] >= optimum * (1 - 2e-5)


def test_large_layers_are_proven_close_and_the_published_ones_are_not() -> None:
    """256 experts on 16 DIMMs; what the published refinement leaves on the table is proven by the bound."""
    left = []
    for layout, batch in (("planned", 512), ("half striped", 4096), ("all localised", 64), ("all localised", 512)):
        given_ = layers_of(1, 3, 0.8, layout, batch)
        published = schedule_layers(**given_)
        result = improve_layers(**given_, published=published)
        assert (result.gap < 0.02).all()
        assert np.mean(result.gap) < 0.005
        left.append(np.mean(published.makespan_s / result.makespan_s - 1))
    assert max(left) > 0.25


@pytest.mark.parametrize(("experts", "dimms"), [(384, 8), (64, 1)])
def test_many_experts_on_one_dimm(experts: int, dimms: int) -> None:
    result = improved(layers_of(2, 2, 0.7, "all localised", 512, experts=experts, dimms=dimms, resident=8))
    assert (result.gap < 0.01).all()


def test_by_hand_three_equal_experts_on_one_dimm() -> None:
    """4 s near data, 3 s on the GPU, 5 s on the CPU, and 1 s of the DIMM for each that is read. All at home take 12 s,
    two 8 + 1; one takes 4 + 2 and the others 6 s or less on the GPU; with none at home two share the GPU for 6 s. So 6
    s is the optimum."""
    given_ = plain(
        gpu_s=np.full((1, 3), 3.0), cpu_s=np.full((1, 3), 5.0), ndp_s=np.full((1, 3), 4.0), home=np.zeros((1, 3), int),
        gpu_reads=np.ones((1, 3)), cpu_reads=np.ones((1, 3)), dimm_read_bytes_per_s=1.0, host_bytes_per_s=1e9,
    )  # fmt: skip
    result = improved(given_)
    assert result.makespan_s[0] == 6.0
    assert 6.0 * (1 - 1.01 * TOLERANCE) <= result.lower_bound_s[0] <= 6.0


def test_host_channels_alone_set_the_bound() -> None:
    """Four striped experts of 5 bytes over channels of 2 bytes/s: 10 s wherever they run."""
    given_ = plain(
        tokens=np.ones((1, 4), int), home=np.full((1, 4), -1), gpu_s=np.ones((1, 4)), cpu_s=np.ones((1, 4)),
        ndp_s=np.ones((1, 4)), gpu_reads=np.full((1, 4), 5.0), cpu_reads=np.full((1, 4), 5.0), host_bytes_per_s=2.0,
    )  # fmt: skip
    result = improved(given_)
    assert result.makespan_s[0] == 10.0
    assert result.lower_bound_s[0] >= 10.0 * (1 - 1.01 * TOLERANCE)


def test_no_tokens_and_no_rows() -> None:
    result = improved(plain(tokens=np.zeros((1, 3), int)))
    assert (result.makespan_s[0], result.lower_bound_s[0], result.gap[0]) == (0.0, 0.0, 0.0)
    loaded = improved(plain(tokens=np.zeros((1, 3), int), base_cpu_s=np.array([2.0])))
    assert (loaded.makespan_s[0], loaded.lower_bound_s[0], loaded.gap[0]) == (2.0, 2.0, 0.0)
    assert improved(case(0, rows=0)).gap.shape == (0,)


def same(first: ImprovedResult, second: ImprovedResult) -> bool:
    return all(np.array_equal(getattr(first, f), getattr(second, f)) for f in ImprovedResult.__dataclass_fields__)


def test_rows_are_independent_and_the_result_is_the_same_every_time() -> None:
    given_ = case(5, rows=4, experts=30, dimms=3)
    whole = improved(given_)
    assert same(whole, improved(given_))
    for row in range(4):
        cut = {k: v[row : row + 1] if isinstance(v, np.ndarray) else v for k, v in given_.items()}
        assert np.array_equal(improved(cut).domain[0], whole.domain[row])
        assert improved(cut).lower_bound_s[0] == whole.lower_bound_s[row]


def test_without_time_the_published_schedule_stays_with_a_weak_bound() -> None:
    given_ = case(1, rows=3, experts=40, dimms=3, tight=0.3)
    published = schedule_layers(**given_)
    result = improve_layers(**given_, published=published, budget_s=0.0)
    assert np.array_equal(result.domain, published.domain)
    assert np.array_equal(result.makespan_s, published.makespan_s)
    full = improve_layers(**given_, published=published, budget_s=60.0)
    assert same(full, improve_layers(**given_, published=published))
    assert (result.lower_bound_s > 0).all()
    assert (result.lower_bound_s <= full.lower_bound_s).all()
    assert (result.gap > full.gap).all()


def test_the_longest_rows_come_first_and_a_late_row_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that moves one second with every look: the first row begins in time, the others do not."""
    clock = iter(range(100))
    monkeypatch.setattr(schedule_improved.time, "perf_counter", lambda: float(next(clock)))
    given_ = layers_of(1, 3, 0.8, "all localised", 512)
    published = schedule_layers(**given_)
    result = improve_layers(**given_, published=published, budget_s=1.5)
    longest = int(np.argmax(published.makespan_s))
    assert [row for row in range(3) if result.moves[row]] == [longest]
    assert result.makespan_s[longest] < published.makespan_s[longest]


def test_published_schedules_stay_untouched_and_loads_add_up() -> None:
    given_ = layers_of(1, 2, 0.8, "all localised", 512, experts=64, dimms=4)
    published = schedule_layers(**given_)
    before = {name: getattr(published, name).copy() for name in published.__dataclass_fields__}
    result = improve_layers(**given_, published=published)
    assert all(np.array_equal(before[name], getattr(published, name)) for name in before)
    for row in range(2):
        active, table, base = loads(given_, row)
        total = base + table[np.arange(active.size), result.domain[row, active]].sum(axis=0)
        assert result.gpu_s[row] == pytest.approx(total[GPU])
        assert result.cpu_s[row] == pytest.approx(total[CPU])
        assert result.host_s[row] == pytest.approx(total[2])
        assert result.ndp_s[row] == pytest.approx(total[3:])
        assert (given_["home"][row][result.domain[row] == NDP] >= 0).all()


@given(CASES)
@settings(max_examples=25)
def test_kernels_equal_their_twins(given_: Case) -> None:
    assert same(improved(given_), improved(given_, kit=PLAIN))


@pytest.mark.parametrize(("seed", "experts", "dimms", "tight"), [(0, 40, 4, 0.3), (1, 40, 2, 0.1), (2, 30, 1, 1.0)])
def test_kernels_equal_their_twins_on_larger_layers(seed: int, experts: int, dimms: int, tight: float) -> None:
    given_ = case(seed, rows=1, experts=experts, dimms=dimms, striped=0.3, tight=tight)
    assert same(improved(given_), improved(given_, kit=PLAIN))


def test_vectors() -> None:
    assert agree(json.loads(json.dumps(as_json(make()))), vectors("schedule_improved")), "written by the script"
    for stored_case in vectors("schedule_improved"):
        given_, answer = stored_case["input"], stored_case["answer"]
        for name in ("gpu_s", "cpu_s", "ndp_s", "gpu_reads", "cpu_reads"):
            given_[name] = times(given_[name])
        for name in ("tokens", "home", "base_gpu_s", "base_cpu_s", "base_host_s"):
            given_[name] = np.array(given_[name])
        result = improved(given_)
        assert result.domain.tolist() == answer["domain"]
        np.testing.assert_allclose(result.makespan_s, answer["makespan_s"], rtol=1e-12)
        np.testing.assert_allclose(result.lower_bound_s, answer["lower_bound_s"], rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dimms": 0}, "dimms is 0; a schedule needs at least 1"),
        ({"budget_s": -1.0}, "budget_s is -1.0; accepted is a time of at least 0, or None for no limit"),
        ({"budget_s": float("nan")}, "budget_s is nan; accepted is a time"),
        (
            {"published": schedule_layers(**case(0, rows=1, experts=3))},
            r"published is a schedule of shape \(1, 3\) on 3",
        ),
        ({"tokens": np.array([[1, 0, 1]])}, "published leaves out other experts than those without tokens"),
    ],
)
def test_bad_input_is_a_sentence(changes: Case, sentence: str) -> None:
    given_ = plain()
    with pytest.raises(ValueError, match=sentence):
        improve_layers(**{**given_, "published": schedule_layers(**given_), **changes})
