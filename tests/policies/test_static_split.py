"""Static split of llama.cpp: the experts of whole layers on the CPU, in turn with the GPU, and op offload."""

from __future__ import annotations

import numpy as np
import pytest

from planner.errors import PlanError
from tests.policies.cache_cases import (
    B_DRAM,
    B_HBM,
    B_LINK,
    HIDDEN,
    LOAD_S,
    READ_S,
    W,
    decode_step,
    head_s,
    parts,
    prefill_s,
    tiny,
    weights_s,
    written,
)

ONE = np.array([[[1, 0, 0, 0], [0, 1, 0, 0]]] * 2, np.int32)


def split(layers: int = 1, batch: int = 1, **options: object):  # type: ignore[no-untyped-def]
    return tiny("static-split", batch=batch, options={"cpu_layers": layers, **options})


def test_step_by_hand() -> None:
    round_trip = 2 * HIDDEN * 2.0 / B_LINK
    on_cpu, on_gpu = W / B_DRAM + round_trip, READ_S
    for layers in (0, 1, 2):
        step = decode_step(split(layers), written(ONE))
        by_hand = 2 * weights_s() + layers * on_cpu + (2 - layers) * on_gpu + head_s()
        assert step.total_s == pytest.approx(by_hand, rel=1e-12)


def test_nothing_overlaps() -> None:
    """A slow CPU and a slow GPU add up to the sum of both, whatever the size of either."""
    scenario = tiny("static-split", machine={"cpu.layer_sync_s": 1e-3}, options={"cpu_layers": 1}, cuda_graphs=True)
    plain = decode_step(split(1), written(ONE)).total_s
    assert decode_step(scenario, written(ONE)).total_s == pytest.approx(plain + 1e-3)  # once, for the one CPU layer


def test_which_layers() -> None:
    assert parts(split(1), written(ONE))[3].resident[:, 0].tolist() == [False, True]
    assert parts(split(1, which="last"), written(ONE))[3].resident[:, 0].tolist() == [True, False]


def test_op_offload_from_32_rows_on_by_hand() -> None:
    counts = np.array([[[8, 8, 16, 0], [0, 0, 0, 32]]] * 2, np.int32)
    step = decode_step(split(2, batch=32), written(counts))
    # all four experts of both layers are copied, then those that are hit are computed
    assert step.total_s == pytest.approx(2 * (weights_s(32) + 4 * LOAD_S) + 4 * READ_S + head_s(), rel=1e-12)
    hit = decode_step(split(2, batch=32, offload_copy="hit"), written(counts))
    assert step.total_s - hit.total_s == pytest.approx(4 * LOAD_S, rel=1e-9)
    on_cpu = decode_step(split(2, batch=32, op_offload_rows=33), written(counts))
    by_hand = 2 * weights_s(32) + 4 * W / B_DRAM + 2 * 32 * 2 * HIDDEN * 2.0 / B_LINK + head_s()
    assert on_cpu.total_s == pytest.approx(by_hand, rel=1e-12)


def test_prefill_copies_once_per_micro_batch() -> None:
    routing = written(ONE, prefill=np.array([[[50, 25, 25, 0], [25, 25, 25, 25]]]))
    head = 1000 * HIDDEN * 2 / B_HBM
    whole = prefill_s(split(2), routing, "stream")
    assert whole == pytest.approx(2 * 4 * LOAD_S + 7 * READ_S + head, rel=1e-2)
    # of 100 rows as two micro-batches of 50, each copies everything again
    halves = prefill_s(split(2, ubatch=50), routing, "stream")
    assert halves == pytest.approx(2 * whole, rel=2e-2)


def test_prefill_modes_by_rows() -> None:
    for ubatch, modes in ((512, ("stream", "cpu")), (31, ("cpu",))):
        ctx, policy, _, _ = parts(split(1, ubatch=ubatch), written(ONE))
        assert policy.prefill_modes(ctx) == modes


def test_fewest_cpu_layers_that_fit() -> None:
    # reserve aside: weights outside the experts, activations, one layer of copies and the experts of one layer
    for capacity, layers in ((80e9, 0), (268435456 * 1.0, 0)):
        machine = {"gpu.memory_capacity_bytes": capacity, "gpu.reserve_bytes": 0.0}
        ready = parts(tiny("static-split", machine=machine), written(ONE))[2]
        assert ready.cpu_layers == layers  # type: ignore[attr-defined]
    machine = {"gpu.memory_capacity_bytes": 300e6, "gpu.reserve_bytes": 0.0}
    counts = np.zeros((1, 8, 4), np.int32)
    counts[:, :, 0] = 1
    ready = parts(tiny("static-split", layers=8, machine=machine), written(counts))[2]
    number = ready.cpu_layers  # type: ignore[attr-defined]
    assert 0 < number < 8
    assert ready.ledger[0].short_bytes <= 0
    one_less = parts(
        tiny("static-split", layers=8, machine=machine, options={"cpu_layers": number - 1}), written(counts)
    )
    assert one_less[2].ledger[0].short_bytes > 0
    assert ready.ledger[1].items["experts"][0] == number * 4 * W
    assert ready.ledger[0].items["experts"][0] == (8 - number) * 4 * W


def test_experts_per_layer_are_read_as_whole_layers() -> None:
    for kept, layers in ((0, 2), (2, 1), (4, 0)):
        ready = parts(tiny("static-split", gpu_experts_per_layer=kept), written(ONE))[2]
        assert ready.cpu_layers == layers  # type: ignore[attr-defined]
        assert ready.resident_per_layer == kept


@pytest.mark.parametrize(
    ("chosen", "word"),
    [
        ({"options": {"cpu_layers": 3}}, "2 MoE layers"),
        ({"options": {"which": "middle"}}, "one of first, last"),
        ({"options": {"ubatch": 0}}, "from 1 to"),
        ({"gpu_experts_per_layer": 9}, "4 routed experts"),
    ],
)
def test_bad_input(chosen: dict[str, object], word: str) -> None:
    with pytest.raises(PlanError, match=word) as error:
        parts(tiny("static-split", **chosen), written(ONE))
    assert str(error.value).endswith(".")
