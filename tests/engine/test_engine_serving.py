"""From passes to what a user sees: time to first token, chunks, prefix cache, the mix of prefill and decode."""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner.evaluate import Evaluation, evaluate
from planner.scenario import Scenario
from tests.engine.engine_scenarios import changed, named, ordinary, scenario
from tests.engine.engine_tiny import ATTENTION_FLOP, HEAD, KV_BYTES, LAYERS, MIXER, PLAIN, ROUTER, Hand, mean, tiny


def parts(found: Evaluation) -> tuple[Any, Any, Any]:
    assert found.decode is not None and found.prefill is not None and found.serving is not None, found.reasons
    return found.decode, found.prefill, found.serving


@pytest.mark.parametrize("prompt", [100, 50])
def test_the_prefill_of_one_prompt_on_one_gpu(prompt: int) -> None:
    """Each row sees the prompt up to itself, so the mean context is half of it; the head runs for one row."""
    found = evaluate(changed(tiny("1x-h100-sxm", PLAIN, 1), workload__prompt_tokens=prompt))
    _, prefill, _ = parts(found)
    assert found.routing is not None
    counts = found.routing.prefill_counts
    assert counts.shape[1:] == (LAYERS, 4) and (counts.sum(axis=2) == 2 * prompt).all()
    hand = Hand(1)
    context = (prompt + 1) / 2
    core = max(ATTENTION_FLOP * context * prompt / hand.flop, KV_BYTES * context / hand.hbm)
    layer = hand.product(MIXER, prompt) + hand.product(ROUTER, prompt) + core
    expected = mean(
        [
            hand.product(HEAD, 1) + sum(layer + sum(hand.expert(int(n)) for n in row) for row in sample)
            for sample in counts
        ]
    )
    assert prefill.prompt_s == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("chosen", ordinary()[:10], ids=named)
def test_time_to_first_token_is_prefill_and_the_decode_steps_between_its_passes(chosen: Scenario) -> None:
    decode, prefill, serving = parts(evaluate(chosen))
    batch = chosen.workload.batch
    waits = prefill.passes_per_prompt * decode.step.total_s if batch > 1 else 0.0
    assert serving.ttft_s == pytest.approx(prefill.prompt_s + prefill.extra_s + waits, rel=1e-12)


def test_a_long_prompt_runs_in_chunks_and_waits_for_a_step_after_each() -> None:
    base = scenario(workload__prompt_tokens=8192, workload__batch=8, policy__prefill_chunk_tokens=2048)
    decode, prefill, serving = parts(evaluate(base))
    assert prefill.passes_per_prompt == 4
    assert serving.ttft_s == pytest.approx(prefill.prompt_s + 4 * decode.step.total_s)
    _, whole, _ = parts(evaluate(changed(base, policy__prefill_chunk_tokens=8192)))
    assert whole.passes_per_prompt == 1
    # Chunks read the weights four times.
    assert prefill.prompt_s > whole.prompt_s


def test_a_prefix_in_the_cache_is_not_computed_and_still_held() -> None:
    base = scenario(workload__prompt_tokens=8192, workload__batch=8)
    none, half, all_ = (evaluate(changed(base, workload__prefix_hit_share=s)) for s in (0.0, 0.5, 1.0))
    assert [f.ctx.new_prompt_tokens for f in (none, half, all_)] == [8192, 4096, 1]
    times = [parts(f)[1].prompt_s for f in (none, half, all_)]
    assert times[0] > times[1] > times[2] > 0
    assert times[1] > 0.45 * times[0]  # the later half attends to more
    assert none.ready is not None and half.ready is not None
    assert none.ready.ledger[0].items["KV cache"] == half.ready.ledger[0].items["KV cache"]
    assert parts(none)[2].tpot_s == parts(half)[2].tpot_s
    # Cached tokens are part of what a request is charged for: input tokens get cheaper.
    assert none.cost is not None and half.cost is not None
    assert half.cost.usd_per_million_input_tokens < none.cost.usd_per_million_input_tokens


@pytest.mark.parametrize("chosen", ordinary()[:10], ids=named)
def test_the_steady_mix_shares_the_machine(chosen: Scenario) -> None:
    """A request costs its prefill and its share of the decode steps; end to end is slower than decode alone."""
    decode, prefill, serving = parts(evaluate(chosen))
    w = chosen.workload
    found = evaluate(chosen)
    assert found.ready is not None
    per_token = prefill.seconds_per_pass / prefill.tokens_per_pass / found.ready.layout.data
    machine_s = per_token * w.prompt_tokens + prefill.extra_s
    gpu = found.ctx.machine.gpu
    assert gpu is not None
    request_s = (machine_s + w.output_tokens * decode.step.total_s / w.batch) / gpu.serving_efficiency
    request_s += gpu.request_serial_s
    assert serving.tokens_per_s_end_to_end == pytest.approx(w.output_tokens / request_s, rel=1e-12)
    assert serving.prefill_tokens_per_s == pytest.approx(w.prompt_tokens / machine_s, rel=1e-12)
    assert serving.tokens_per_s_end_to_end < serving.tokens_per_s_system


def test_short_prompts_share_a_pass() -> None:
    """Sixteen prompts of 100 new tokens fill one pass of 1,600 rows: weights are read once for all of them."""
    chosen = scenario(workload__prompt_tokens=100, workload__batch=16)
    _, prefill, serving = parts(evaluate(chosen))
    assert prefill.tokens_per_pass == 1600
    assert serving.prefill_machine_s_per_prompt < 0.5 * prefill.prompt_s


def test_the_mean_time_per_token_grows_with_the_context_of_the_output() -> None:
    """TPOT is the mean over the output: a long output ends at a longer context than it began with."""
    short, long = (
        parts(evaluate(scenario(workload__prompt_tokens=1000, workload__output_tokens=n, workload__batch=64)))[0]
        for n in (1, 6000)
    )
    assert long.step.total_s > short.step.total_s
    assert long.total_s.shape[0] == 4 and short.total_s.shape[0] == 1
    assert (long.total_s[1:].mean(axis=1) > long.total_s[:-1].mean(axis=1)).all()


def test_small_batches_are_sampled_at_least_32_times_and_their_error_is_kept() -> None:
    for batch in (1, 7, 16):
        for model in ("deepseek-ai/DeepSeek-V2-Lite", "mistralai/Mixtral-8x7B-v0.1"):
            step = parts(evaluate(scenario(workload__batch=batch, model__id=model)))[0].step
            assert step.samples >= 32
            error = step.standard_error_s / step.total_s
            # One token hits top-k experts with one token each, whichever they are: nothing to sample but rounding.
            assert error < 1e-12 if batch == 1 else 1e-4 < error < 0.05
            assert step.p99_s >= step.total_s


def test_a_cpu_system_chooses_how_to_prefill_by_prompt_length_and_shows_both() -> None:
    """Few tokens are computed beside host memory, many are worth a stream of all experts."""
    base = scenario(model__id="deepseek-ai/DeepSeek-V3", system__id="h100-amx-server", policy__id="cpu-experts")
    modes = {}
    for prompt in (16, 8192):
        found = evaluate(changed(base, workload__batch=1, workload__prompt_tokens=prompt), quick=True)
        _, prefill, _ = parts(found)
        assert set(prefill.alternatives) == {"cpu", "stream"}
        assert all(s is not None and math.isfinite(s) and s > 0 for s in prefill.alternatives.values())
        assert prefill.prompt_s == min(prefill.alternatives.values())
        modes[prompt] = prefill.mode
    assert modes == {16: "cpu", 8192: "stream"}


def test_asking_for_a_way_to_prefill_is_obeyed() -> None:
    base = scenario(model__id="deepseek-ai/DeepSeek-V2-Lite", system__id="h100-amx-server", policy__id="cpu-experts")
    for mode in ("cpu", "stream"):
        _, prefill, _ = parts(evaluate(changed(base, policy__prefill=mode), quick=True))
        assert prefill.mode == mode
        assert prefill.prompt_s == prefill.alternatives[mode]


def test_idle_replicas_are_not_charged_for_working() -> None:
    """One sequence on four replicas: one works, the tokens of a pass are one, and power is below that of four."""
    base = scenario(model__id="deepseek-ai/DeepSeek-V2-Lite", system__id="4x-mi300x", policy__data_parallel=4)
    one, four = (evaluate(changed(base, workload__batch=b)) for b in (1, 4))
    assert parts(one)[0].step.tokens == 1 and parts(four)[0].step.tokens == 4
    assert parts(one)[2].tpot_s == pytest.approx(parts(four)[2].tpot_s, rel=0.02)
    assert one.energy is not None and four.energy is not None
    assert one.energy.average_w < four.energy.average_w
