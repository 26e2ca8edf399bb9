"""The fit finds known coefficients again, also where one point was disturbed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.probe import laws

TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
WEIGHTS = 3e6
LOW, HIGH = (1e9, 1e9, 1.0), (1e12, 1e14, 2.0)


def cpu_seconds(rate: float, flop: float, overlap: float, moved: float = 4 * WEIGHTS) -> list[float]:
    pairs = [(moved / rate, 2 * WEIGHTS * n / flop) for n in TOKENS]
    return [max(p) + (1 - overlap) * min(p) for p in pairs]


@settings(max_examples=15)
@given(st.floats(5e9, 5e11), st.floats(0.2, 100), st.floats(0, 1))
def test_cpu_law_is_found_again(rate, balance, overlap):
    flop = rate * balance * 2  # crossing between bytes and compute lies within the points
    seconds = cpu_seconds(rate, flop, overlap)
    found = laws.fit(laws.cpu_law(TOKENS, 4 * WEIGHTS, WEIGHTS), LOW, HIGH, seconds)
    assert found.misfit < 0.05
    assert found.values[1] == pytest.approx(flop, rel=0.1)


def test_cpu_coefficients_and_one_disturbed_point():
    seconds = cpu_seconds(40e9, 2e11, 0.5)
    seconds[3] *= 20.0
    found = laws.fit(laws.cpu_law(TOKENS, 4 * WEIGHTS, WEIGHTS), LOW, HIGH, seconds)
    assert found.values == pytest.approx((40e9, 2e11, 1.5), rel=0.03)


@pytest.mark.parametrize(("half", "overlap"), [(20.0, 1.0), (138.0, 0.6), (400.0, 0.3)])
def test_gpu_law_is_found_again_with_noise(half, overlap):
    rate, flop, moved = 4e12, 6e14, 2 * WEIGHTS
    noise = np.random.default_rng(1).uniform(0.98, 1.02, len(TOKENS))
    seconds = []
    for n, factor in zip(TOKENS, noise, strict=True):
        rows = 16 * math.ceil(n / 16) * (1 + half / (n + half))
        pair = (moved / rate, 2 * WEIGHTS * rows / flop)
        seconds.append((max(pair) + (1 - overlap) * min(pair)) * factor)
    found = laws.fit(laws.gpu_law(TOKENS, moved, WEIGHTS), (1e12, 1e14, 1, 1), (1e13, 4e15, 2000, 2), seconds)
    assert found.misfit < 0.03
    assert found.values[0] == pytest.approx(rate, rel=0.3)
    assert found.values[1] == pytest.approx(flop, rel=0.3)
    # Few rows and many rows are told apart: the law at the ends is the measured one.
    law = laws.gpu_law(TOKENS, moved, WEIGHTS)(np.array([found.values]))[0]
    assert law[[0, -1]] == pytest.approx([seconds[0], seconds[-1]], rel=0.06)


def test_a_coefficient_is_held_where_its_bounds_meet():
    seconds = cpu_seconds(40e9, 2e11, 0.5)
    found = laws.fit(laws.cpu_law(TOKENS, 4 * WEIGHTS, WEIGHTS), (20e9, 1e8, 1.0), (20e9, 1e16, 2.0), seconds)
    assert found.values[0] == pytest.approx(20e9)
    assert found.misfit > 0.05


@given(st.floats(1e-6, 1e-4), st.floats(1e9, 1e11))
@settings(max_examples=15)
def test_latency_and_rate_of_a_link(latency, rate):
    sizes = (4096.0, 65_536.0, 2.0**20, 2.0**24, 2.0**28)
    found = laws.line(sizes, [latency + size / rate for size in sizes])
    assert found.values == pytest.approx((latency, rate), rel=0.05)


def test_the_points_that_count_decide_between_two_curves():
    slow, fast = cpu_seconds(10e9, 2e11, 1.0), cpu_seconds(40e9, 2e11, 1.0)
    mixed = [fast[0], *slow[1:]]
    law = laws.cpu_law(TOKENS, 4 * WEIGHTS, WEIGHTS)
    first = [1.0, *[0.02] * (len(TOKENS) - 1)]
    alike, weighed = (laws.fit(law, LOW, HIGH, mixed, w).values for w in (None, first))
    at = [float(law(np.array([values]))[0, 0]) for values in (alike, weighed)]
    assert at[0] > 2 * fast[0]
    assert at[1] == pytest.approx(fast[0], rel=0.02)
