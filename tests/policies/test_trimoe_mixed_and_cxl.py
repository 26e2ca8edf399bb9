"""A format of their own for warm experts, and CXL-NDP beside DIMM-NDP, by hand."""

from __future__ import annotations

import numpy as np
import pytest

import models
from planner.context import architecture
from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.planning import _details
from planner.policies.base import TIER_CODE
from planner.policies.trimoe_cxl import deal_both
from tests.engine.engine_scenarios import scenario
from tests.engine.engine_tiny import EXPERT, EXPERT_BYTES, HIDDEN, LAYERS, PLAIN_CXL, TOP_K, Hand, tiny
from tests.policies.trimoe_hand import (
    CHANNEL,
    DIMMS,
    HOST,
    MACHINE,
    PCIE,
    RANKS,
    Way,
    Ways,
    cpu_compute,
    future,
    greedy_step,
    impossible,
    near_s,
    step_s,
    trimoe,
)

BATCH = 6
# A CPU so slow that most experts are cold.
SLOW_CPU = {**MACHINE, "cpu.bf16_flop_per_s": 4e10, "cpu.vector_flop_per_s": 5e9}
CXL = {**SLOW_CPU, **PLAIN_CXL, "cxl.count": 1, "cxl.capacity_bytes": 1e9}


def ways(home: np.ndarray, sizes: np.ndarray, fp8_rate: float | None = None, cpu_share: float = 1.0) -> Ways:
    """Equations 1 to 4 where each expert has its own size and unit DIMMS is the CXL device, whose experts CPU and GPU
    read striped from the host copy."""

    def of(tokens: int, layer: int, expert: int) -> tuple[Way, Way, Way]:
        at, size = int(home[layer, expert]), float(sizes[layer, expert])
        striped = at < 0 or at >= DIMMS
        rate = HOST if striped else CHANNEL
        by = [("host", 1 / HOST)]
        by += [(f"unit {d}", 1 / RANKS / (DIMMS if striped else 1)) for d in range(DIMMS) if striped or at == d]
        hand = Hand(BATCH) if size == EXPERT_BYTES or fp8_rate is None else Hand(BATCH, flop=fp8_rate)
        compute = max(2 * EXPERT * 16 * -(-tokens // 16) / hand.flop, size / hand.hbm)
        gpu = max(compute, size / PCIE, size / rate)
        cpu = max(cpu_compute(tokens, cpu_share), size / rate)
        if at < 0:
            near = impossible()
        elif at < DIMMS:
            near = Way(f"unit {at}", near_s(tokens, size))
        else:  # tiles of four rows above four
            rows = tokens if tokens <= 4 else 4 * -(-tokens // 4)
            near = Way(f"unit {at}", max(2 * EXPERT * rows / 6e10, size / 3e10))
        return Way("gpu", gpu, size, tuple(by)), Way("cpu", cpu, size, tuple(by)), near

    return of


# --- warm experts ----------------------------------------------------------------------------------------------------
def test_warm_experts_in_fp8_are_read_in_half_the_bytes_and_computed_no_faster() -> None:
    found = trimoe(BATCH, {**MACHINE, "gpu.fp8_flop_per_s": 2e12}, warm_format="fp8-block")
    where = future(found)
    warm = where.tier == TIER_CODE["host"]
    small = models.expert_bytes(architecture(found.ctx.scenario), "fp8-block")
    assert EXPERT < small < 1.01 * EXPERT and warm.any() and (~warm).any()
    assert np.array_equal(where.stored.bytes, np.where(warm, small, EXPERT_BYTES))
    assert step_s(found) == pytest.approx(
        greedy_step(found, BATCH, ways(where.home, where.stored.bytes, 2e12)), rel=1e-12
    )


def test_warm_experts_in_the_format_of_the_others_change_nothing() -> None:
    """The checkpoint is BF16."""
    named, plain = trimoe(BATCH, MACHINE, warm_format="bf16"), trimoe(BATCH, MACHINE)
    assert step_s(named) == step_s(plain)
    assert named.ready is not None and plain.ready is not None
    assert [t.items for t in named.ready.ledger] == [t.items for t in plain.ready.ledger]


def test_host_memory_keeps_room_for_the_larger_form() -> None:
    def experts(fmt: str, warm: str) -> float:
        made = tiny(
            "trimoe-server",
            MACHINE,
            BATCH,
            policy__id="trimoe",
            policy__expert_format=fmt,
            policy__gpu_experts_per_layer=0,
            policy__options={"warm_format": warm},
        )
        found = evaluate(made)
        assert found.ready is not None
        return found.ready.ledger[1].items["experts"][0]

    assert experts("int4-g128", "bf16") == experts("bf16", "as-stored") > experts("int4-g128", "as-stored")
    assert experts("bf16", "fp8-block") == experts("bf16", "as-stored")


def test_what_the_format_does_to_answers_is_said_to_be_unknown() -> None:
    told = _details(trimoe(BATCH, MACHINE, warm_format="fp8-block"), False)
    assert told is not None
    assert "not known: nobody has measured it" in dict(told.facts)["Warm experts"]


# --- CXL beside DIMMs ------------------------------------------------------------------------------------------------
def test_the_costliest_goes_where_it_is_done_soonest() -> None:
    """Two DIMMs and a CXL device twice as fast, with room for one: 6 s to CXL (3 s), 5 s and 4 s to the DIMMs, then
    the 2 s one would be done on CXL after 4 s, but there is no room; the DIMM of the 4 s one takes it."""
    seconds = np.array([[6.0, 5.0, 4.0, 2.0, 9.0]])
    cold = np.array([[True, True, True, True, False]])
    assert deal_both(seconds, seconds / 2, cold, 2, 2, 1, 1).tolist() == [[2, 0, 1, 1, -1]]
    assert deal_both(seconds, seconds / 2, cold, 2, 2, 1, 2).tolist() == [[2, 0, 1, 2, -1]]


def test_cold_experts_run_on_units_of_both_kinds() -> None:
    found = trimoe(BATCH, CXL, cold_units="dimm+cxl")
    where = future(found)
    on_cxl = where.home == DIMMS
    assert on_cxl.any() and ((where.home >= 0) & ~on_cxl).any()
    assert np.array_equal(where.tier == TIER_CODE["cxl_ndp"], on_cxl)
    of = ways(where.home, where.stored.bytes, cpu_share=0.1)

    def crossing(counts: np.ndarray, layer: int) -> float:
        """Activations of the experts that greedy runs on the device, there and back."""
        there = 0
        for e in np.flatnonzero(on_cxl[layer]):
            if (
                counts[e]
                and min(of(int(counts[e]), layer, int(e)), key=lambda w: w.seconds).resource == f"unit {DIMMS}"
            ):
                there += int(counts[e])
        return 2 * min(there, BATCH) * 2 * HIDDEN / PLAIN_CXL["cxl.port_bandwidth_bytes_per_s"]

    assert step_s(found) == pytest.approx(greedy_step(found, BATCH, of, crossing), rel=1e-12)


def test_the_device_adds_speed() -> None:
    plain, both = (trimoe(40, CXL, schedule="improved", cold_units=units) for units in ("dimm", "dimm+cxl"))
    assert step_s(both) < step_s(plain)


def test_its_memory_is_filled_no_further_than_it_goes() -> None:
    """60 GB of experts in a device of 1 GB: with as little as the catalog allows, K falls to what fits."""

    def on_device(capacity: float) -> tuple[int, float]:
        made = scenario(
            model__id="Qwen/Qwen3-30B-A3B",
            system__id="trimoe-server",
            system__overrides={"cxl.count": 1, "cxl.capacity_bytes": capacity},
            workload__batch=256,
            policy__id="trimoe",
            policy__options={"cold_units": "dimm+cxl"},
        )
        found = evaluate(made)
        assert found.placed is not None and found.ready is not None
        tier = next(t for t in found.ready.ledger if t.id == "cxl_ndp")
        assert tier.short_bytes <= 0
        placed = found.placed.tier == TIER_CODE["cxl_ndp"]
        assert float(placed.sum()) * found.placed.stored.bytes.max() <= capacity
        return int(placed.sum(axis=1).max()), tier.items.get("cold experts", (0.0, 0.0))[0]

    large, small = on_device(5e11), on_device(1e9)
    assert large[0] > small[0] == 2  # 9.4 MB an expert, 48 layers: two of each layer in 1 GB
    assert small[1] <= 1e9 < large[1]


def test_energy_counts_both_kinds_of_units() -> None:
    found = trimoe(BATCH, CXL, cold_units="dimm+cxl")
    assert found.decode is not None
    flows = found.decode.flows
    assert flows.ndp_flop > 0 and flows.cxl_flop > 0 and flows.cxl_bytes > 0 and flows.cxl_link_bytes > 0
    pairs = BATCH * TOP_K * LAYERS
    total = flows.ndp_flop + flows.cxl_flop + flows.cpu_flop
    assert total <= 2 * EXPERT * pairs * (1 + 1e-12)


def test_a_system_without_the_device_is_told_so() -> None:
    made = scenario(system__id="trimoe-server", policy__id="trimoe", policy__options={"cold_units": "dimm+cxl"})
    with pytest.raises(PlanError, match="this system has no CXL-NDP device"):
        evaluate(made)
