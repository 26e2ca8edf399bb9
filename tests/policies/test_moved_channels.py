"""An expert on one NDP DIMM leaves it over one host channel; experts on different channels leave side by side."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from planner.policies.near_data import channel_s
from tests.policies.policy_cases import DRAM, LAYERS, LINK, Case, W, case, every_layer, tiny

CHANNELS, DIMMS = 2, 4
CHANNEL = DRAM / CHANNELS
FAST_LINK = 1e12
FAST_DIMMS: dict[str, float] = {
    "ndp.count": DIMMS,
    "dram.dimms": DIMMS,
    "dram.channels_per_socket": CHANNELS,
    "dram.dimms_per_channel": DIMMS // CHANNELS,
    "ndp.bandwidth_efficiency": 1,
    "ndp.command_s": 0,
    "ndp.flop_per_s": 1e15,
    "ndp.internal_bandwidth_bytes_per_s": 1e13,
    "ndp.rank_bandwidth_bytes_per_s": 1e13,
    "ndp.buffer_bytes": 1e9,
}
ROW = [9, 8, 1, 1, 1, 1, 1, 1]
"""the first two are the hottest"""


def dimms(moving: int, link: float = FAST_LINK, policy: str = "monde", **options: Any) -> Case:
    over = {**FAST_DIMMS, "pcie.bandwidth_bytes_per_s": link, "pcie.host_bandwidth_bytes_per_s": link}
    asked = {"hot_experts": moving} if policy == "monde" else {}
    return case(tiny(policy, {**asked, **options}, batch=8, system="trimoe-server", over=over, gpu_experts_per_layer=0))


def at(c: Case, home: list[int]) -> Any:
    return dataclasses.replace(c.placed, home=np.tile(np.array(home, np.int16), (LAYERS, 1)))


def step_s(c: Case, home: list[int]) -> float:
    return c.step(every_layer(ROW), at(c, home)).total_s


def test_busiest_channel_by_hand() -> None:
    c = dimms(2)
    leaving = np.zeros((1, LAYERS, 8))
    leaving[..., :3] = 6e6, 2e6, 3e6
    for home, most in (([0, 1, 3], 6e6), ([0, 2, 1], 8e6), ([0, 2, 2], 11e6), ([1, 3, -1], 8e6)):
        homes = np.full((LAYERS, 8), -1, np.int16)
        homes[:, :3] = home
        assert channel_s(c.ctx, leaving, homes)[0] == pytest.approx([most / CHANNEL] * LAYERS)


def test_one_moved_expert_takes_its_channel() -> None:
    """All else is fast: what changes with the channel is the time of the moved expert."""
    one = dimms(1)
    here = step_s(one, [0, 1, 2, 3, 0, 1, 2, 3])
    spread_out = one.ctx.machine.dram
    assert spread_out is not None
    rest = here - LAYERS * W / CHANNEL
    assert 0 < rest < 0.2 * here
    # Twice the channels of the same total are half as fast each.
    slower = {**FAST_DIMMS, "dram.channels_per_socket": 4, "dram.dimms_per_channel": 1}
    over = {**slower, "pcie.bandwidth_bytes_per_s": FAST_LINK, "pcie.host_bandwidth_bytes_per_s": FAST_LINK}
    options = {"hot_experts": 1}
    four = case(tiny("monde", options, batch=8, system="trimoe-server", over=over, gpu_experts_per_layer=0))
    assert step_s(four, [0, 1, 2, 3, 0, 1, 2, 3]) - here == pytest.approx(LAYERS * W / CHANNEL, rel=1e-6)


def test_two_on_one_channel_wait_for_each_other_and_two_on_two_do_not() -> None:
    two = dimms(2)
    apart, together = step_s(two, [0, 1, 2, 3, 0, 1, 2, 3]), step_s(two, [0, 2, 1, 3, 0, 1, 2, 3])
    assert together - apart == pytest.approx(LAYERS * W / CHANNEL, rel=1e-6)


def test_a_link_slower_than_a_channel_is_the_limit_as_before() -> None:
    """LINK 10 GB/s beside channels of 20: where the experts lie makes no difference."""
    assert LINK < CHANNEL
    two = dimms(2, LINK)
    assert step_s(two, [0, 1, 2, 3, 0, 1, 2, 3]) == step_s(two, [0, 2, 1, 3, 0, 1, 2, 3])


def test_sharded_experts_leave_over_all_channels() -> None:
    c = dimms(0, policy="pimoe", rule="sieve")
    assert step_s(c, [0, 1, 2, 3, 0, 1, 2, 3]) == step_s(c, [0, 2, 0, 2, 0, 2, 0, 2])
