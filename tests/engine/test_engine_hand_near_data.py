"""MoNDE and context-aware CXL-NDP on a tiny model, computed by hand: who moves, who waits, who shares a DIMM."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from planner.deal import deal
from planner.evaluate import Evaluation
from tests.engine.engine_tiny import (
    CONTEXTS,
    EXPERT,
    EXPERT_BYTES,
    EXPERTS,
    LAYERS,
    PLAIN,
    PLAIN_CXL,
    PLAIN_DIMM_NDP,
    PLAIN_HOST,
    TOP_K,
    VECTOR_BYTES,
    Hand,
    evaluated,
    mean,
    timed,
    tiny,
)

CXL = {**PLAIN, **PLAIN_HOST, **PLAIN_CXL}
DIMM = {**PLAIN, **PLAIN_HOST, **PLAIN_DIMM_NDP, "ndp.count": 2, "dram.dimms": 2, "dram.channels_per_socket": 2}
DIMM |= {"dram.dimms_per_channel": 1, "dram.bandwidth_bytes_per_s": 1.6e10}
PCIE = PLAIN["pcie.bandwidth_bytes_per_s"]
PORT = PLAIN_CXL["cxl.port_bandwidth_bytes_per_s"]
INSIDE = PLAIN_CXL["cxl.internal_bandwidth_bytes_per_s"]


def near(tokens: int, flop: float, bandwidth: float, tile: int, size: float = EXPERT_BYTES, how: str = "gemv") -> float:
    """One expert on a near-data unit: rows up to one tile cost what they are, whole tiles above."""
    if not tokens:
        return 0.0
    padded = tile * math.ceil(tokens / tile)
    rows: float = tokens if tokens <= tile and how != "padded" else padded
    if how == "scaled":
        rows *= 8 * size / EXPERT / 16
    return max(2 * EXPERT * rows / flop, size / bandwidth)


def hottest(layer: np.ndarray, count: int) -> set[int]:
    """The most loaded experts of a pass, ties to the lower index."""
    return set(sorted(range(len(layer)), key=lambda e: (-int(layer[e]), e))[:count])


def cxl_layer(layer: np.ndarray, batch: int, moved: set[int], how: str = "gemv") -> float:
    """max(sum PMove + compute of the last, sum of near-data experts + activations), and the reads of the moved ones."""
    hand = Hand(batch)
    flop = PLAIN_CXL["cxl.flop_per_s"]
    there = [int(n) for e, n in enumerate(layer) if n and e not in moved]
    vectors = min(sum(there), batch)
    results = vectors * VECTOR_BYTES / PORT
    on_gpu = [hand.expert(int(layer[e])) for e in moved]
    link = len(moved) * EXPERT_BYTES / PORT + max(on_gpu, default=0.0) + results
    inside = sum(near(n, flop, INSIDE, 4, how=how) for n in there) + len(moved) * EXPERT_BYTES / INSIDE + 2 * results
    return max(link, inside, sum(on_gpu))


@pytest.mark.parametrize("batch", [1, 2, 5, 24])
@pytest.mark.parametrize("how", ["gemv", "padded"])
def test_monde_moves_the_hottest_by_the_ratio_of_bandwidths(batch: int, how: str) -> None:
    """H = ceil(active x B_link / (B_link + B_ndp)), at least 1: here 1/16 of at most 4."""
    found = evaluated(tiny("h100-cxl-ndp", CXL, batch, policy__id="monde", policy__options={"ndp_compute": how}))
    counts, step = timed(found)
    hand = Hand(batch)
    share = PORT / (PORT + INSIDE)
    times = []
    for c in CONTEXTS:
        for sample in counts:
            total = hand.head()
            for layer in sample:
                wanted = max(1, math.ceil(share * int((layer > 0).sum())))
                total += hand.attention(c) + cxl_layer(layer, batch, hottest(layer, wanted), how)
            times.append(total)
    assert step == pytest.approx(mean(times), rel=1e-12)


def test_monde_moves_as_many_as_it_is_told_and_never_an_idle_one() -> None:
    found = evaluated(tiny("h100-cxl-ndp", CXL, 1, policy__id="monde", policy__options={"hot_experts": 4}))
    assert found.decode is not None
    # One token, two experts: both move, no more.
    moved = found.decode.flows.cxl_link_bytes
    assert moved == pytest.approx(LAYERS * TOP_K * EXPERT_BYTES, rel=1e-12)
    assert found.decode.flows.cxl_flop == 0


@pytest.mark.parametrize("link", [1e9, 3e10, 2.9e11])
def test_the_number_to_move_follows_the_link(link: float) -> None:
    """A link as fast as the memory balances half of the active experts; a slow one moves the obligatory one."""
    overrides = {**CXL, "cxl.port_bandwidth_bytes_per_s": link, "pcie.bandwidth_bytes_per_s": 1e12}
    found = evaluated(tiny("h100-cxl-ndp", overrides, 40, policy__id="monde"))
    counts, _ = timed(found)
    wanted = [max(1, math.ceil(int((y > 0).sum()) * link / (link + INSIDE))) for sample in counts for y in sample]
    vectors = [
        min(sum(int(n) for e, n in enumerate(y) if e not in hottest(y, w)), 40) * VECTOR_BYTES
        for y, w in zip(counts.reshape(-1, EXPERTS), wanted, strict=True)
    ]
    expected = (sum(wanted) * EXPERT_BYTES + sum(vectors)) / len(counts)
    assert found.decode is not None
    assert found.decode.flows.cxl_link_bytes == pytest.approx(expected, rel=1e-12)


def test_residents_count_towards_the_experts_to_move() -> None:
    """One expert of each layer in HBM: where it is active, nothing has to move for H = 1."""
    found = evaluated(tiny("h100-cxl-ndp", CXL, 1, policy__id="monde", policy__gpu_experts_per_layer=1))
    counts, _ = timed(found)
    assert found.placed is not None and found.decode is not None
    resident = found.placed.resident
    missed = mean([float((~((sample > 0) & resident).any(axis=1)).sum()) for sample in counts])
    near_data = mean([float(((sample > 0) & ~resident).sum()) for sample in counts]) - missed
    vectors = mean(
        [
            min(1.0, float(((y > 0) & ~r).sum()) - (not ((y > 0) & r).any()))
            for s in counts
            for y, r in zip(s, resident, strict=True)
        ]
    )
    assert found.decode.flows.cxl_link_bytes == pytest.approx(missed * EXPERT_BYTES + LAYERS * vectors * VECTOR_BYTES)
    assert found.decode.flows.cxl_flop == pytest.approx(2 * EXPERT * near_data)


# --- two NDP DIMMs: rank time ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("excluded", [False, True])
@pytest.mark.parametrize("batch", [1, 6])
def test_a_host_read_takes_rank_time_of_its_dimm(batch: int, excluded: bool) -> None:
    """The moved expert is read from its own DIMM: x / (ranks x rank rate), or x / channel rate if that is excluded.

    The DIMM that takes longest with its own experts and the read sets the time; the other one does not wait.
    """
    chosen = tiny("trimoe-server", DIMM, batch, policy__id="monde", policy__options={"whole_dimm_exclusion": excluded})
    found = evaluated(chosen)
    counts, step = timed(found)
    assert found.routing is not None
    home = deal(found.routing.profile, 2)
    hand = Hand(batch)
    flop, inside = DIMM["ndp.flop_per_s"], DIMM["ndp.internal_bandwidth_bytes_per_s"]
    ranks = 4 * DIMM["ndp.rank_bandwidth_bytes_per_s"]
    channel, channels = DIMM["dram.bandwidth_bytes_per_s"] / 2, DIMM["dram.bandwidth_bytes_per_s"]
    occupied = EXPERT_BYTES / (channel if excluded else ranks)
    share = PCIE / (PCIE + 2 * inside)
    times = []
    for c in CONTEXTS:
        for sample in counts:
            total = hand.head()
            for index, layer in enumerate(sample):
                wanted = max(1, math.ceil(share * int((layer > 0).sum())))
                moved = hottest(layer, wanted)
                dimm = [0.0, 0.0]
                for e, n in enumerate(layer):
                    dimm[home[index, e]] += occupied if e in moved else near(int(n), flop, inside, 1)
                there = sum(int(n) for e, n in enumerate(layer) if e not in moved)
                vectors = min(there, batch)
                # A vector is written to each DIMM that one of the token's experts lies on.
                copies = min(there, batch * 2 * (1 - (1 - 1 / 2) ** TOP_K))
                on_gpu = [hand.expert(int(layer[e])) for e in moved]
                link = (len(moved) * EXPERT_BYTES + vectors * VECTOR_BYTES) / PCIE + max(on_gpu)
                dram = (len(moved) * EXPERT_BYTES + 2 * copies * VECTOR_BYTES) / channels
                total += hand.attention(c)
                total += max(max(dimm) + 2 * vectors * VECTOR_BYTES / PCIE, link, dram, sum(on_gpu))
            times.append(total)
    assert step == pytest.approx(mean(times), rel=1e-12)


def test_exclusion_matters_only_as_far_as_ranks_are_faster_than_the_channel() -> None:
    """Ranks as fast as the channel: both switches give the same step. Faster ranks: exclusion is the slower one."""

    def step(excluded: bool, rank: float) -> float:
        overrides = {**DIMM, "ndp.rank_bandwidth_bytes_per_s": rank, "pcie.bandwidth_bytes_per_s": 1e12}
        options: dict[str, Any] = {"whole_dimm_exclusion": excluded, "hot_experts": 2}
        return timed(evaluated(tiny("trimoe-server", overrides, 6, policy__id="monde", policy__options=options)))[1]

    channel = DIMM["dram.bandwidth_bytes_per_s"] / 2
    assert step(True, channel / 4) == step(False, channel / 4)
    assert step(True, channel) > step(False, channel)


def test_exclusion_is_the_same_on_every_node() -> None:
    one, two = (
        timed(
            evaluated(
                tiny(
                    "trimoe-server",
                    {**DIMM, "node.count": nodes},
                    batch,
                    policy__id="monde",
                    policy__options={"whole_dimm_exclusion": True},
                )
            )
        )[1]
        for nodes, batch in ((1, 6), (2, 12))
    )
    assert one == two


# --- CXL: two ports in series ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("port", "pcie"), [(1e9, 4e9), (4e9, 1e9), (2e9, 2e9)])
def test_the_slower_of_two_ports_sets_the_rate_and_a_bounce_is_slower(port: float, pcie: float) -> None:
    """Peer to peer: min of both ports. Through host memory: one copy after the other, and two crossings of it."""
    overrides = {**CXL, "cxl.port_bandwidth_bytes_per_s": port, "pcie.bandwidth_bytes_per_s": pcie}
    busy = {}
    for bounce in (False, True):
        options: dict[str, Any] = {"hot_experts": 4, "cxl_bounce": bounce}
        found = evaluated(tiny("h100-cxl-ndp", overrides, 1, policy__id="monde", policy__options=options))
        timed(found)
        assert found.decode is not None
        parts = found.decode.step.parts
        busy[bounce] = sum(p.busy_s for p in parts if p.lane == "cxl_link" and p.part == "link")
        crossed = found.decode.flows.cxl_link_bytes
        assert found.decode.flows.dram_bytes == pytest.approx(2 * crossed if bounce else 0.0)
    moved = LAYERS * TOP_K * EXPERT_BYTES
    assert busy[False] == pytest.approx(moved / min(port, pcie), rel=1e-12)
    assert busy[True] == pytest.approx(moved / port + moved / pcie, rel=1e-12)


def test_what_is_streamed_cannot_leave_a_device_faster_than_it_reads() -> None:
    slow = {**CXL, "cxl.internal_bandwidth_bytes_per_s": 5e8}
    found = evaluated(tiny("h100-cxl-ndp", slow, 1, policy__id="monde", policy__prefill="stream"))
    assert found.prefill is not None
    assert found.prefill.prompt_s >= LAYERS * EXPERTS * EXPERT_BYTES / 5e8


def test_commands_are_paid_per_layer_and_direction_where_near_data_units_work() -> None:
    """Doorbell and completion both ways; a layer without a near-data expert rings no bell."""
    rung = {**CXL, "cxl.doorbell_s": 1e-6, "cxl.completion_s": 2e-6}
    found = evaluated(tiny("h100-cxl-ndp", rung, 4, policy__id="monde"))
    assert found.decode is not None
    assert found.decode.step.fixed_s == pytest.approx(LAYERS * 2 * 3e-6, rel=1e-12)
    none = evaluated(tiny("h100-cxl-ndp", rung, 4, policy__id="monde", policy__options={"hot_experts": 4}))
    assert none.decode is not None and none.decode.step.fixed_s == 0


# --- context-aware ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("bits", [2.0, 3.0])
def test_context_aware_waits_for_the_longer_of_gpu_and_near_data(batch: int, bits: float) -> None:
    """Hot experts on the GPU in BF16, the others where they lie at the selected bits; nothing moves in decode."""
    found = evaluated(
        tiny(
            "h100-cxl-ndp",
            CXL,
            batch,
            policy__id="context-aware",
            policy__gpu_experts_per_layer=2,
            policy__weight_bits=bits,
        )
    )
    counts, step = timed(found)
    placed = found.placed
    assert placed is not None
    sizes = placed.stored.bytes
    cold_bits = placed.stored.bits[~placed.resident].reshape(LAYERS, 2)
    assert (cold_bits.sum(axis=1) == 2 * bits).all()  # the budget R = N (b - 1) is spent to the last bit
    hand = Hand(batch)
    flop = PLAIN_CXL["cxl.flop_per_s"]
    times = []
    for c in CONTEXTS:
        for sample in counts:
            total = hand.head()
            for index, layer in enumerate(sample):
                hot = [e for e in range(EXPERTS) if placed.resident[index, e]]
                cold = [e for e in range(EXPERTS) if e not in hot and layer[e]]
                vectors = min(sum(int(layer[e]) for e in cold), batch)
                gpu = sum(hand.expert(int(layer[e])) for e in hot)
                ndp = sum(near(int(layer[e]), flop, INSIDE, 4, float(sizes[index, e])) for e in cold)
                total += hand.attention(c) + max(gpu, ndp + 2 * vectors * VECTOR_BYTES / PORT)
            times.append(total)
    assert step == pytest.approx(mean(times), rel=1e-12)


def test_the_hot_set_has_the_most_important_experts_of_the_prefill() -> None:
    """S = (P / sum P + W / sum W) / 2 over each layer's selections and router scores."""
    found = evaluated(tiny("h100-cxl-ndp", CXL, 1, policy__id="context-aware", policy__gpu_experts_per_layer=2))
    assert found.routing is not None and found.placed is not None
    picks, scores = found.routing.context, found.routing.context_scores
    score = 0.5 * picks / picks.sum(axis=1, keepdims=True) + 0.5 * scores / scores.sum(axis=1, keepdims=True)
    for row, resident in zip(score, found.placed.resident, strict=True):
        assert min(row[resident]) >= max(row[~resident])


def fill_of(found: Evaluation) -> float:
    assert found.prefill is not None
    return found.prefill.extra_s


def test_the_hot_set_moves_once_per_batch_and_hides_behind_prefill() -> None:
    """A layer's hot experts move while later layers compute; those of the last layer always show."""
    fill = LAYERS * 2 * EXPERT_BYTES / PORT
    for batch in (1, 4):
        common = {"policy__id": "context-aware", "policy__gpu_experts_per_layer": 2}
        shown = evaluated(tiny("h100-cxl-ndp", CXL, batch, policy__options={"fill_hidden": False}, **common))
        hidden = evaluated(tiny("h100-cxl-ndp", CXL, batch, **common))
        assert fill_of(shown) == pytest.approx(fill / batch, rel=1e-12)
        assert hidden.prefill is not None
        expected = max(fill - hidden.prefill.prompt_s * (LAYERS - 1) / LAYERS, fill / LAYERS)
        assert fill_of(hidden) == pytest.approx(expected / batch, rel=1e-12)
