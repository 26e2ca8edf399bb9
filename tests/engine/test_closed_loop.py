"""A closed loop of clients: laws that its waits and steps obey, by hand and for any input."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.closed_loop import Clients, PassTimes, pass_times, play, serve_clients
from planner.evaluate import evaluate
from planner.fields import validated

PASSES = PassTimes(step_s=0.010, rides_s=0.0, prefill_base_s=0.0, prefill_token_s=1e-4, chunk_tokens=100)


def test_one_client_waits_for_its_own_prompt_alone() -> None:
    served = play(PASSES, Clients(1, prompt_tokens=100, output_tokens=50))
    assert served.ttft_s == pytest.approx(0.010)
    assert served.tpot_s == pytest.approx(0.010)
    assert served.ttft_p99_s == pytest.approx(served.ttft_s)


def test_prompts_of_a_wave_follow_each_other() -> None:
    """All four come at once and a pass holds one prompt, so waits are 1, 2, 3 and 4 passes."""
    served = play(PASSES, Clients(4, 100, 1, requests_each=1, mixed=False))
    assert served.ttft_s == pytest.approx(0.010 * (1 + 2 + 3 + 4) / 4)


def test_a_pass_holds_as_many_prompts_as_its_limit() -> None:
    served = play(replace(PASSES, chunk_tokens=400), Clients(4, 100, 1, requests_each=1, mixed=False))
    assert served.ttft_s == pytest.approx(0.040)


def test_long_outputs_see_the_prompts_of_all_others() -> None:
    """Steady state: step + (c - 1) w P / O, for lengths that spread the clients out."""
    clients = Clients(16, 100, 400, shortest=0.5, requests_each=40, mixed=False)
    served = play(PASSES, clients)
    prompt, output = 75.0, 300.0
    law = 0.010 + 15 * 1e-4 * prompt / output
    assert served.tpot_s == pytest.approx(law, rel=0.02)


def test_running_requests_ride_in_the_passes_of_mixed_batches() -> None:
    apart = play(PASSES, Clients(8, 100, 50, shortest=0.5, mixed=False))
    mixed = play(PASSES, Clients(8, 100, 50, shortest=0.5, mixed=True))
    assert mixed.tpot_s < apart.tpot_s


def test_a_pass_is_no_shorter_than_its_launches() -> None:
    served = play(replace(PASSES, prefill_least_s=0.05), Clients(1, 100, 10))
    assert served.ttft_s == pytest.approx(0.05)


def test_fewer_slots_than_clients_make_the_others_wait() -> None:
    free = play(PASSES, Clients(8, 100, 50))
    few = play(PASSES, Clients(8, 100, 50, slots=2))
    assert few.ttft_s > free.ttft_s + 0.010 * 50
    assert few.running <= 2.0


def test_speculation_shortens_the_output_and_not_the_prompt() -> None:
    plain, drafted = play(PASSES, Clients(1, 100, 101)), play(replace(PASSES, yields=2.0), Clients(1, 100, 101))
    assert drafted.ttft_s == pytest.approx(plain.ttft_s)
    assert drafted.tpot_s == pytest.approx(plain.tpot_s / 2)


@settings(max_examples=60, deadline=None)
@given(
    clients=st.integers(1, 12),
    prompt=st.integers(1, 300),
    output=st.integers(1, 40),
    shortest=st.floats(0.3, 1.0),
    step=st.floats(1e-4, 0.1),
    token=st.floats(1e-7, 1e-3),
    chunk=st.integers(16, 400),
    mixed=st.booleans(),
)
def test_what_any_loop_obeys(
    clients: int, prompt: int, output: int, shortest: float, step: float, token: float, chunk: int, mixed: bool
) -> None:
    times = PassTimes(step, 0.3 * step, 1e-3, token, chunk, request_s=0.02)
    loop = Clients(clients, prompt, output, shortest, requests_each=3, mixed=mixed)
    served = play(times, loop)
    least = max(int(prompt * shortest), 1)
    passes = math.ceil(least / chunk)
    assert served.ttft_s >= 0.02 + passes * 1e-3 + token * least - 1e-9
    assert served.running <= clients + 1e-9
    assert served.ttft_median_s <= served.ttft_p99_s + 1e-12
    assert served == play(times, loop)  # the seed alone decides


def scenario(**policy: object) -> Any:
    return validated(
        {
            "model": {"id": "mistralai/Mixtral-8x7B-v0.1"},
            "system": {"id": "2x-h100-sxm"},
            "workload": {"batch": 8, "prompt_tokens": 512, "output_tokens": 64},
            "policy": {"id": "all-gpu", **policy},
        }
    )


def test_a_plan_with_one_client_is_served_as_planned() -> None:
    found = evaluate(scenario(), quick=True)
    times = pass_times(found)
    assert found.decode is not None and found.prefill is not None
    assert times.step_s == pytest.approx(found.decode.step.total_s)
    assert times.prefill_s(512) == pytest.approx(found.prefill.prompt_s)
    served = serve_clients(found, Clients(8, 512, 64))
    assert served.tpot_s > 0 and served.ttft_s >= found.prefill.prompt_s


def test_launches_are_neutral_until_a_figure_states_them() -> None:
    plain = evaluate(scenario(), quick=True)
    none = evaluate(scenario(), {"gpu.kernel_launch_s": 0.0, "gpu.kernel_launch_eager_s": 0.0}, quick=True)
    assert plain.serving == none.serving
    slow = evaluate(scenario(), {"gpu.kernel_launch_eager_s": 1e-3, "gpu.request_overhead_s": 0.1}, quick=True)
    assert slow.serving is not None and plain.serving is not None and slow.prefill is not None
    assert slow.prefill.prompt_s == pytest.approx(32 * 13 * 1e-3)  # 32 layers of the plainest kind
    assert slow.serving.ttft_s == pytest.approx(slow.prefill.prompt_s + plain.serving.tpot_s + 0.1)
    assert slow.serving.tpot_s == plain.serving.tpot_s


@pytest.mark.parametrize(
    ("model", "kernels"),
    [
        ("mistralai/Mixtral-8x7B-v0.1", 13),
        ("openai/gpt-oss-120b", 13),
        ("Qwen/Qwen3-235B-A22B-FP8", 18),  # queries and keys are normed, four products quantise their input
        ("moonshotai/Kimi-K2.5", 22),  # latent attention, a shared expert, weights of 4 bits alone
        ("deepseek-ai/DeepSeek-R1", 29),  # and seven quantised inputs
        ("zai-org/GLM-5-FP8", 38),  # and an index over the cache
    ],
)
def test_kernels_of_a_layer(model: str, kernels: int) -> None:
    from planner.context import resolve
    from planner.physics.launches import kernels as counted

    data = {"model": {"id": model}, "system": {"id": "8x-h200-sxm"}}
    known = validated({**data, "policy": {"id": "all-gpu"}})
    assert counted(resolve(known))[-1] == kernels
