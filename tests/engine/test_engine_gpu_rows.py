"""Rows that a GPU product costs: whole tiles, the fitted law, and never fewer for more tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hardware import load_system
from planner.devices import Gpu
from planner.machine import machine
from planner.physics.gpu import computed_rows


def h100(lost: float | None = None) -> Gpu:
    gpu = machine(load_system("1x-h100-sxm")).gpu
    assert gpu is not None
    return gpu if lost is None else replace(gpu, compute_half_tokens=lost)


@pytest.mark.parametrize("lost", [0.0, 1.0, 138.0, 100_000.0])
def test_more_tokens_never_cost_fewer_rows(lost: float) -> None:
    cost = computed_rows(np.arange(0, 2049), h100(lost))
    assert cost[0] == 0.0
    assert (np.diff(cost) >= 0).all()
    assert (cost >= np.arange(0, 2049)).all()


def test_tokens_of_one_tile_cost_the_same() -> None:
    cost = computed_rows([1, 7, 16, 17, 32], h100(138.0))
    assert cost == pytest.approx([16 * (1 + 138 / 154)] * 3 + [32 * (1 + 138 / 170)] * 2)


def test_whole_tiles_are_charged_the_fitted_law() -> None:
    """n (1 + h / (n + h)), as solved from micro-benchmarks of 512 and 4,096 rows."""
    assert computed_rows([512, 4096], h100(138.0)) == pytest.approx([512 * (1 + 138 / 650), 4096 * (1 + 138 / 4234)])
