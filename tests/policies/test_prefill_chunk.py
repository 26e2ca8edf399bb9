"""The prefill chunk where nobody named one: whole prompts for policies that stream experts, if there is room."""

from __future__ import annotations

from typing import Any

import pytest

from planner.evaluate import Evaluation, evaluate
from planner.policies import catalog, get
from tests.engine.engine_scenarios import scenario
from tests.policies.test_bound_of_all import machines

LITE = "deepseek-ai/DeepSeek-V2-Lite"
STREAMING = ("freetoken", "fiddler", "wisp", "layer-streaming", "cpu-experts")


def planned(policy: str, prompt: int, chunk: int | None = None, hbm: float = 80e9, **more: Any) -> Evaluation:
    return evaluate(
        scenario(
            model__id=LITE,
            system__id="h100-amx-server",
            system__overrides={"gpu.memory_capacity_bytes": hbm},
            workload__batch=2,
            workload__prompt_tokens=prompt,
            routing__steps=4,
            policy__id=policy,
            policy__prefill_chunk_tokens=chunk,
            **more,
        )
    )


@pytest.mark.parametrize("policy", STREAMING)
def test_a_long_prompt_streams_the_experts_once(policy: str) -> None:
    whole, parts = (
        planned(policy, 32768, policy__prefill="stream" if policy in ("fiddler", "cpu-experts") else "auto"),
        (planned(policy, 32768, 8192, policy__prefill="stream" if policy in ("fiddler", "cpu-experts") else "auto")),
    )
    assert whole.fits and parts.fits and whole.prefill is not None and parts.prefill is not None
    assert (whole.prefill.passes_per_prompt, parts.prefill.passes_per_prompt) == (1, 4)
    assert whole.prefill.prompt_s < parts.prefill.prompt_s
    ledgers = [f.ready.ledger[0].items["activations"][0] for f in (whole, parts) if f.ready]
    assert ledgers[0] > ledgers[1]  # and its activations are in the ledger


@pytest.mark.parametrize("prompt", [1, 1000, 8192])
def test_a_prompt_that_is_no_longer_than_the_default_changes_nothing(prompt: int) -> None:
    one, other = planned("freetoken", prompt), planned("freetoken", prompt, 8192)
    assert one.figures() == other.figures()


def test_what_is_asked_for_is_done() -> None:
    found = planned("freetoken", 32768, 1000)
    assert found.prefill is not None and found.prefill.passes_per_prompt == 33


def test_a_policy_that_keeps_all_experts_in_hbm_keeps_the_default() -> None:
    found = planned("all-gpu", 32768)
    assert found.prefill is not None and found.prefill.passes_per_prompt == 4


def test_without_room_for_the_activations_the_prompt_is_cut() -> None:
    """From plenty of HBM down: whole, then in more parts, never a plan that fits in parts but is refused."""
    passes = []
    for hbm in (80e9, 11e9, 10e9, 9.5e9, 9e9, 8e9, 7e9):
        found, usual = planned("freetoken", 100_000, hbm=hbm), planned("freetoken", 100_000, 8192, hbm)
        assert found.fits == usual.fits
        if found.prefill is not None and found.ready is not None and usual.ready is not None:
            assert found.ready.ledger[0].short_bytes <= 0
            assert found.ready.kv_location == usual.ready.kv_location
            passes.append(found.prefill.passes_per_prompt)
    assert passes[0] == 1 and max(passes) > 1


@pytest.mark.parametrize("policy", [e.id for e in catalog()])
def test_every_policy_takes_a_long_prompt(policy: str) -> None:
    found = evaluate(
        scenario(
            model__id="allenai/OLMoE-1B-7B-0924",
            system__id=machines(policy)[0],
            workload__batch=1,
            workload__prompt_tokens=20_000,
            routing__steps=2,
            policy__id=policy,
        )
    )
    assert found.fits and found.prefill is not None
    assert found.prefill.passes_per_prompt == (1 if "stream" in get(policy).prefill_modes(found.ctx) else 3)
