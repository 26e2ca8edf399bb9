"""A stand-in for the engine, so that the command line is tested by itself: it answers any scenario at once."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

import planner
from planner.cli.main import main
from planner.result import (
    Assumption,
    Change,
    Cost,
    Headline,
    Memory,
    MemoryItem,
    MemoryTier,
    ModelSummary,
    PolicySummary,
    Result,
    Share,
    Step,
    StepPart,
    SystemSummary,
)
from planner.scenario import Scenario


class Ran(NamedTuple):
    """What a command line did."""

    code: int
    out: str
    err: str


class FakePlan:
    """Answers with figures that depend on the scenario; remembers the scenarios it was given."""

    def __init__(self) -> None:
        self.scenarios: list[Scenario] = []
        self.fits = True

    def __call__(self, scenario: Scenario) -> Result:
        self.scenarios.append(scenario)
        return fake_result(scenario, self.fits)

    @property
    def scenario(self) -> Scenario:
        return self.scenarios[-1]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakePlan:
    fake = FakePlan()
    monkeypatch.setattr(planner, "plan", fake, raising=False)
    return fake


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs a command line in this process; ``stdin`` is what it reads from standard input."""

    def running(*arguments: str, stdin: bytes | None = None) -> Ran:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = main(arguments)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return running


@pytest.fixture
def refused(run: Callable[..., Ran]) -> Callable[..., str]:
    """Runs a command line that must be refused, and returns the sentence."""

    def refusing(*arguments: str, stdin: bytes | None = None) -> str:
        ran = run(*arguments, stdin=stdin)
        assert (ran.code, ran.out) == (2, ""), ran
        assert ran.err.endswith("\n")
        assert ran.err.count("\n") == 1
        assert "Traceback" not in ran.err
        sentence = ran.err.strip()
        assert sentence.endswith((".", "?"))
        assert len(sentence) < 800
        return sentence

    return refusing


def fake_result(scenario: Scenario, fits: bool = True) -> Result:
    """A result whose figures are plain arithmetic on the batch; not a plan of anything."""
    tpot_s = 0.001 * scenario.workload.batch / 3.0
    headline = Headline(fits=False, reasons=("the KV cache takes 200 GB and 160 GB are there",))
    if fits:
        headline = Headline(
            fits=True,
            ttft_s=0.25,
            tpot_s=tpot_s,
            tokens_per_s_user=1 / tpot_s,
            tokens_per_s_system=scenario.workload.batch / tpot_s,
            tokens_per_s_end_to_end=1000.0,
            prefill_tokens_per_s=12345.6,
            energy_j_per_output_token=0.72,
            usd_per_million_input_tokens=0.1,
            usd_per_million_output_tokens=0.7,
            usd_per_month=8000.0,
            systems_needed=2,
            bound_by="hbm",
            intervals={"tpot_s": (0.8 * tpot_s, 1.3 * tpot_s)},
        )
    part = StepPart(part="attention", lane="gpu", busy_s=tpot_s, exposed_s=tpot_s)
    step = Step(
        total_s=tpot_s,
        standard_error_s=tpot_s / 100,
        p99_s=1.2 * tpot_s,
        samples=32,
        tokens=scenario.workload.batch,
        parts=(part,),
        domains=(),
        bound_by="hbm",
        bound_shares={"hbm": 1.0},
        fixed_s=0.0,
        byte_floor_s=0.0,
        flop_floor_s=0.0,
    )
    tier = MemoryTier(
        tier="gpu",
        name="GPU HBM",
        devices=2,
        capacity_bytes=160e9,
        items=(MemoryItem(name="KV cache", bytes=100e9),),
        used_bytes=100e9,
        free_bytes=60e9 if fits else -40e9,
        fullest_device_bytes=50e9 if fits else 100e9,
        device_capacity_bytes=80e9,
    )
    change = Change(text="Batch 16 instead of 32", set={"workload.batch": 16}, fits=True)
    cost = Cost(
        mode="owned",
        capex_usd=250000.0,
        by_part=(Share(id="gpu", name="GPUs", value=0.7),),
        usd_per_hour=11.0,
        usd_per_million_input_tokens=0.1,
        usd_per_million_output_tokens=0.7,
        usd_per_month_one_system=8000.0,
    )
    return Result(
        engine_version="0",
        catalog_digest="0" * 64,
        scenario_hash=scenario.content_hash(),
        scenario=scenario,
        headline=headline,
        model=ModelSummary(
            id=scenario.model.id,
            name="A model",
            parameters_total=47,
            parameters_main=47,
            parameters_active=13,
            layers=32,
            moe_layers=32,
            experts=8,
            top_k=2,
            shared_experts=0,
            expert_parameters=1,
            native_format="bf16",
            kv_bytes_per_token=131072.0,
            sentence="a sentence about the model",
        ),
        system=SystemSummary(
            id=scenario.system.id, name="A system", sentence="two GPUs", nodes=1, gpus=2, as_published=False
        ),
        policy=PolicySummary(
            id=scenario.policy.id,
            name="A policy",
            sentence="everything on the GPUs",
            kv_location="gpu",
            attention_device="gpu",
            prefill="gpu",
            gpu_format="bf16",
            expert_format="bf16",
            parallelism="TP 2",
            gpu_experts_per_layer=8.0,
            source="none",
        ),
        decode=step if fits else None,
        memory=Memory(
            tiers=(tier,),
            first_unfit=None if fits else "the KV cache",
            largest_batch=64,
            largest_context_tokens=4096,
            changes=() if fits else (change,),
        ),
        cost=cost if fits else None,
        assumptions=(
            Assumption(
                path="gpu.hbm_efficiency",
                label="Achieved share of HBM bandwidth",
                value=0.8,
                unit="",
                low=0.7,
                high=0.9,
                source="a measurement",
                kind="measured",
            ),
        ),
        warnings=("Capacity arithmetic without queueing.",),
    )
