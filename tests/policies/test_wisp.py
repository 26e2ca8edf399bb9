"""WiSP: LRU in each layer, nothing ahead of demand, HBM where a byte saves most."""

from __future__ import annotations

import numpy as np
import pytest

from planner.errors import PlanError
from planner.evaluate import evaluate
from planner.policies.wisp import Wisp, WispReady, best_first
from planner.serving import serve
from tests.policies.cache_cases import (
    EXPERTS,
    LOAD_S,
    READ_S,
    W,
    decode_step,
    head_s,
    kv_bytes,
    one_hot,
    parts,
    tiny,
    weights_s,
    written,
)

EQUAL = {"slots": "equal"}
# Eight passes, two of them warm-up. With one slot a layer: layer 0 finds 3 of the 6 timed, layer 1 finds 4.
TRACE = one_hot([0, 0, 1, 1, 0, 1, 1, 1], [2, 2, 2, 3, 3, 3, 2, 2])


def test_step_by_hand() -> None:
    step = decode_step(tiny("wisp", gpu_experts_per_layer=1, options=EQUAL), written(TRACE))
    # a hit costs its reading, a miss its transfer and then its reading
    misses = (3 + 2) / 6
    assert step.total_s == pytest.approx(2 * weights_s() + 2 * READ_S + misses * LOAD_S + head_s(), rel=1e-12)
    assert step.samples == 6


def test_experts_of_a_pass_cross_one_after_the_other_and_the_last_computes_after() -> None:
    counts = np.array([[[3, 1, 0, 0], [4, 0, 0, 0]]] * 8, np.int32)
    scenario = tiny("wisp", batch=4, gpu_experts_per_layer=0)
    step = decode_step(scenario, written(counts))
    # layer 0: two experts; while the second crosses, the first is computed
    assert step.total_s == pytest.approx(2 * weights_s(4) + 3 * LOAD_S + 2 * READ_S + head_s(), rel=1e-12)


def test_report_of_the_cache() -> None:
    scenario = tiny("wisp", gpu_experts_per_layer=1, options=EQUAL)
    ctx, policy, ready, placed = parts(scenario, written(TRACE))
    details = policy.details(ctx, ready, placed, written(TRACE))
    assert details is not None
    (cache,) = details.caches
    assert cache.hit_rate == pytest.approx(7 / 12)
    assert (cache.warm_up_steps, cache.steps, cache.slots_per_layer) == (2, 6, 1.0)
    assert cache.bytes_per_step == pytest.approx(5 / 6 * W)


def test_slots_go_where_they_save_most() -> None:
    # layer 0 always wants expert 0, layer 1 goes round all four: only a cache of four finds any of them there
    counts = one_hot([0] * 16, [0, 1, 2, 3] * 4)
    scenario = tiny("wisp", gpu_experts_per_layer=1)
    routing = written(counts, load=[[9, 1, 1, 1], [1, 1, 1, 1]])
    _, _, _, placed = parts(scenario, routing)
    assert placed.layer_slots.tolist() == [1, 1]  # type: ignore[attr-defined]
    _, _, _, placed = parts(tiny("wisp", gpu_experts_per_layer=2), routing)
    assert placed.layer_slots.tolist() == [1, 3]  # type: ignore[attr-defined]


def test_best_first_values_a_slot_with_those_that_it_makes_useful() -> None:
    gains, layers = best_first(np.array([[0.5, 0.0, 0.0], [0.0, 0.0, 0.9]]))
    # layer 1's three slots are worth .3 each together
    assert gains.tolist() == pytest.approx([0.5, 0.3, 0.3, 0.3, 0.0, 0.0])
    assert layers.tolist() == [0, 1, 1, 1, 0, 0]
    assert np.diff(gains).max() <= 0


def test_hbm_is_full_of_slots() -> None:
    """As many slots as fit, over all layers: one more would not."""
    scenario = tiny("wisp", machine={"gpu.memory_capacity_bytes": 313e6, "gpu.reserve_bytes": 0.0}, experts=64)
    ready = parts(scenario, written(np.ones((8, 2, 64), np.int32), top_k=64))[2]
    gpu = ready.ledger[0]
    assert 0 <= -gpu.short_bytes < W
    assert gpu.items["experts"][0] == pytest.approx(ready.slots * W)  # type: ignore[attr-defined]
    assert ready.slots % 2 == 1  # type: ignore[attr-defined]  # part of a layer's worth is used too


def sessions(number: int, hit: float = 0.9, **machine: float):  # type: ignore[no-untyped-def]
    base = tiny(
        "wisp",
        experts=16,
        prompt=8000,
        machine={"gpu.memory_capacity_bytes": 400e6, "gpu.reserve_bytes": 0.0, **machine},
        prefill_chunk_tokens=512,  # an again computed prompt streams the experts more often
        options={"sessions": number},
    )
    workload = base.workload.model_copy(update={"prefix_hit_share": hit, "output_tokens": 8})
    return base.model_copy(update={"workload": workload})


def test_sessions_get_hbm_where_they_are_worth_more_than_slots() -> None:
    none, few, many = (evaluate(sessions(n)) for n in (0, 4, 4000))
    for found, number in ((few, 4), (many, 4000)):
        ready = found.ready
        assert isinstance(ready, WispReady)
        assert ready.again_s > 0
        assert 0 <= ready.kept <= number
        assert -ready.ledger[0].short_bytes >= 0
        used = ready.ledger[0].items.get("KV cache of idle sessions", (0.0, 0.0))[0]
        assert used == pytest.approx(ready.kept * kv_bytes(8008) * 2)  # two layers
    assert few.ready.kept == 4  # type: ignore[union-attr]
    assert few.ready.slots < none.ready.slots  # type: ignore[union-attr]
    # one of very many sessions is hardly ever the one that comes back
    assert many.ready.kept / 4000 < 1  # type: ignore[union-attr]
    assert many.ready.slots >= few.ready.slots  # type: ignore[union-attr]
    # what is not kept is computed again
    lost = 1 - many.ready.kept / 4000  # type: ignore[union-attr]
    extra = many.policy.prompt_extra_s(many.ctx, many.ready, many.placed, 1.0)
    assert extra == pytest.approx(many.ready.again_s * lost)  # type: ignore[union-attr]
    assert many.serving == serve(many.ctx, many.ready, many.decode, many.prefill)  # type: ignore[arg-type]


def test_without_a_prefix_a_session_is_worth_nothing() -> None:
    ready = evaluate(sessions(50, hit=0.0)).ready
    assert isinstance(ready, WispReady)
    assert ready.kept == 0 and ready.again_s == 0.0


def test_more_slots_never_mean_more_misses() -> None:
    rng = np.random.default_rng(5)
    counts = one_hot(*(rng.integers(0, EXPERTS, 40).tolist() for _ in range(2)))
    for options in (EQUAL, {}):
        steps = [
            decode_step(tiny("wisp", gpu_experts_per_layer=n, options=options), written(counts)).total_s
            for n in range(EXPERTS + 1)
        ]
        assert steps == sorted(steps, reverse=True)
    assert steps[-1] == pytest.approx(2 * weights_s() + 2 * READ_S + head_s(), rel=1e-12)


def test_bad_input() -> None:
    for change in ({"kv_location": "host"}, {"options": {"sessions": -1}}, {"options": {"slots": "most"}}):
        with pytest.raises(PlanError) as error:
            parts(tiny("wisp", **change), written(TRACE))
        assert "\n" not in str(error.value) and str(error.value).endswith(".")
    assert Wisp.kv_choices == ("gpu",)
