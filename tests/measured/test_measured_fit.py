"""The fit on data whose truth is known: it finds it, few runs move it little, a wild run moves it little."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.accuracy import Residual, ends, spread
from validation.measured.coefficients import CPU, Fittable
from validation.measured.fit import Linear, solve, weights

A = Fittable("dram.read_efficiency", 0.2, CPU, low=0.05, high=1.0)
B = Fittable("cpu.layer_sync_s", 0.2, CPU, low=1e-6, high=1e-2)
PRIOR = np.log([0.6, 1e-4])
TRUTH = np.log([0.75, 1.6e-4])


def _runs(count: int, noise: float, seed: int = 0) -> tuple[Linear, np.ndarray]:
    """Runs whose ln(rate) depends on both figures, measured with noise."""
    random = np.random.default_rng(seed)
    share = random.uniform(0.1, 0.9, count)
    jacobian = np.stack([1.0 - share, -share], axis=1)
    at_prior = random.uniform(1.0, 4.0, count)
    measured = at_prior + jacobian @ (TRUTH - PRIOR) + noise * random.standard_normal(count)
    return Linear((A.path, B.path), PRIOR, at_prior, jacobian), measured


def _solved(count: int, noise: float = 0.02, seed: int = 0) -> np.ndarray:
    linear, measured = _runs(count, noise, seed)
    return solve(linear, measured, np.ones(count), (A, B), PRIOR)


def test_many_runs_find_the_truth() -> None:
    assert _solved(400) == pytest.approx(TRUTH, abs=0.05)


def test_few_runs_stay_near_where_they_started() -> None:
    far = [np.abs(_solved(n) - TRUTH).sum() for n in (1, 5, 40, 400)]
    assert far == sorted(far, reverse=True)
    moved = np.abs(_solved(1) - PRIOR)
    assert (moved < 0.5 * np.abs(TRUTH - PRIOR)).all()


def test_one_wild_run_changes_little() -> None:
    linear, measured = _runs(40, 0.02)
    clean = solve(linear, measured, np.ones(40), (A, B), PRIOR)
    measured[0] += 3.0
    assert solve(linear, measured, np.ones(40), (A, B), PRIOR) == pytest.approx(clean, abs=0.15)


def test_a_machine_with_many_runs_does_not_outvote_others_in_proportion() -> None:
    weight = weights(["a"] * 100 + ["b"])
    assert weight[:100].sum() == pytest.approx(10.0)
    assert weight[100] == 1.0


def _residuals(groups: int, rows: int, random: np.random.Generator) -> list[Residual]:
    found = []
    for g in range(groups):
        offset = 0.3 * random.standard_normal()
        found += [
            Residual(f"{g}-{i}", "all_gpu", "e2e", "vllm", str(g), offset + 0.1 * random.standard_normal())
            for i in range(rows)
        ]
    return found


@pytest.mark.parametrize("groups", [5, 12, 40])
def test_the_next_machine_lies_inside_as_often_as_stated(groups: int) -> None:
    random = np.random.default_rng(groups)
    inside = []
    for _ in range(400):
        rows = _residuals(groups + 1, 6, random)
        known, new = [r for r in rows if r.group != str(groups)], [r for r in rows if r.group == str(groups)]
        low, high = ends(known)
        inside.append(np.mean([low <= r.log_ratio <= high for r in new]))
    error = 1.96 * np.std(inside) / np.sqrt(len(inside))
    assert np.mean(inside) >= 0.8 - error
    assert np.mean(inside) <= (0.97 if groups == 5 else 0.9)


@given(st.integers(1, 4))
def test_too_few_machines_pool_upwards(groups: int) -> None:
    random = np.random.default_rng(1)
    own = _residuals(groups, 3, random)
    others = [Residual(f"o{i}", "all_gpu", "e2e", "sglang", f"o{i}", 0.1 * i) for i in range(6)]
    found = spread("all_gpu", "e2e", "vllm", among=own + others)
    assert found is not None and found.level == "phase"
    assert found.groups == groups + 6


def test_outside_what_was_measured_intervals_are_wider() -> None:
    rows = _residuals(8, 4, np.random.default_rng(2))
    inside = spread("all_gpu", "e2e", "vllm", among=rows)
    outside = spread("all_gpu", "e2e", "vllm", outside=True, among=rows)
    assert inside is not None and outside is not None
    assert outside.low < inside.low < 1.0 < inside.high < outside.high


def test_nothing_measured_gives_no_interval() -> None:
    assert spread("all_gpu", "e2e", "vllm", among=[]) is None
