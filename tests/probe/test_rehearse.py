"""A small MoE layer on this very machine: predicted beside rehearsed, the error printed and held to a wide factor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import planner
from hardware import Figure, load_system
from models import load
from planner import measured_machines
from planner.cli.main import main
from planner.errors import PlanError
from planner.fields import set_paths
from planner.probe import gpu as gpu_module
from planner.probe.host import facts
from planner.probe.run import measured_machine
from planner.rehearsal import layer as layer_module
from planner.rehearsal import run as run_module
from planner.rehearsal.layer import CpuExperts, pool_size, shapes
from planner.rehearsal.run import rehearse
from planner.scenario import Scenario
from tests.probe.fake_torch import FakeTorch

ROOT = Path(planner.__path__[0]).parent
SMALL = "allenai/OLMoE-1B-7B-0924"
FACTOR = 10.0  # a mistaken unit is worth 1000; a machine that others use too costs some times
CHANGES = [("model.id", SMALL), ("system.id", "desktop-rtx4090"), ("policy.id", "cpu-experts"), ("workload.batch", 8)]


def test_error_on_this_machine_is_reported_and_no_unit_is_mistaken(capsys, tmp_path):
    """In a process whose BLAS has one thread: on a busy machine several of them wait for each other."""
    flags = ["--model", SMALL, "--system", "desktop-rtx4090", "--policy", "cpu-experts", "--batch", "8"]
    ran = subprocess.run(
        [sys.executable, "-m", "planner", "rehearse", *flags, "--seconds", "1", "--json"],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "TIERLINE_DATA": str(tmp_path)},
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    (row,) = json.loads(ran.stdout)["rows"]
    with capsys.disabled():
        print(f"\nrehearsed {row['domain']} on {row['device']}: {row['runs']} experts, error {row['error']:+.0%}")
    assert row["domain"] == "host"
    assert row["tokens"] >= row["runs"] > 0
    assert row["rehearsed_s"] <= row["usual_s"]
    assert 1 / FACTOR < row["predicted_s"] / row["rehearsed_s"] < FACTOR


def test_every_domain_of_a_mixed_plan_has_a_row(kept):
    changes = [*CHANGES, ("policy.gpu_experts_per_layer", 16)]
    found = rehearse(set_paths(Scenario(), changes), 0.4, kept=kept)
    assert {row.domain for row in found.rows} == {"gpu", "host"}
    assert sum(row.experts for row in found.rows) == 64
    assert any("torch" in warning for warning in found.warnings)


def test_with_a_gpu_the_planned_domain_runs_there(monkeypatch, timed_recording):
    """On the stand-in, whose products take what the probe found: the prediction must come out near."""
    torch = FakeTorch()
    for module in (gpu_module, layer_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=torch.perf_counter))
    series, gaps = gpu_module.Gpu(torch, 3, (1, 4, 16, 64, 128, 256, 512, 1024, 2048)).series()
    on_cpu = timed_recording[0]
    recording = on_cpu.model_copy(
        update={"series": (*on_cpu.series, *series), "gpu": gpu_module.Gpu(torch, 1, ()).facts()}
    )
    assert not gaps
    digest = measured_machines.register(measured_machine(recording))
    changes = [("model.id", SMALL), ("policy.id", "all-gpu"), ("system.id", "1x-h200-sxm"), ("workload.batch", 64)]
    found = rehearse(set_paths(Scenario(), changes), 1.0, torch, digest)
    assert [(row.domain, row.device) for row in found.rows] == [("gpu", "gpu")]
    assert abs(found.rows[0].error) < 0.5
    streamed = [
        ("policy.id", "layer-streaming"),
        ("policy.gpu_experts_per_layer", 0),
        ("system.id", "desktop-rtx4090"),
        *changes[:1],
    ]
    links = [r for r in rehearse(set_paths(Scenario(), streamed), 1.0, torch, digest).rows if r.device == "link"]
    assert [row.domain for row in links] == ["streamed"]
    assert abs(links[0].error) < 0.1


def test_experts_have_the_real_shape_and_take_turns():
    arch = load(SMALL)
    matrices = shapes(arch, arch.moe_layers[0])
    assert matrices == [(1024, 2048), (1024, 2048), (2048, 1024)]
    assert sum(rows * cols for rows, cols in matrices) == arch.expert_parameters
    experts = CpuExperts([(8, 4), (8, 4), (4, 8)], 3, 5, 0)
    assert experts.run(2) > 0
    assert experts.turn == 1
    assert experts.out[:2].any()
    assert not experts.out[2:].any()


def test_a_pool_defeats_the_caches_and_a_layer_that_does_not_fit_goes_round():
    assert pool_size(10e6, 32e6, 0, 100e9, "memory") == 14
    assert pool_size(10e6, 32e6, 0, 60e6, "memory") == 3
    with pytest.raises(PlanError, match="One expert takes 10"):
        pool_size(10e9, 32e6, 0, 15e9, "memory")


def test_a_kept_machine_must_be_this_one(kept):
    machine = measured_machines.get(kept)
    assert machine.recording is not None
    other = machine.recording.model_copy(update={"host": facts().model_copy(update={"cpu_name": "Another CPU"})})
    digest = measured_machines.register(measured_machine(other))
    with pytest.raises(PlanError, match="this machine is"):
        rehearse(set_paths(Scenario(), CHANGES), 0.2, kept=digest)


def test_prediction_is_by_this_machines_figures():
    """The frame that measured figures are put on decides nothing that is measured."""
    figures = {"dram.bandwidth_bytes_per_s": Figure(1e10, "bytes/s", None, None, "timed", None, "measured")}
    assert load_system(run_module.FRAME, measured=figures).value("dram.bandwidth_bytes_per_s") == 1e10


@pytest.mark.parametrize("seconds", ["0", "121", "nan", "many"])
def test_seconds_out_of_bounds(seconds, capsys):
    assert main(["rehearse", "--seconds", seconds]) == 2
    assert capsys.readouterr().err.startswith("--seconds is")


def test_command_prints_text_and_json(kept, capsys):
    flags = ["rehearse", "--model", SMALL, "--system", "desktop-rtx4090", "--policy", "cpu-experts", "--batch", "2"]
    assert main([*flags, "--seconds", "0.2", "--machine", kept]) == 0
    assert "predicted ms" in capsys.readouterr().out
    assert main([*flags, "--seconds", "0.2", "--machine", kept, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert row["error"] == pytest.approx(row["predicted_s"] / row["rehearsed_s"] - 1)
    assert main([*flags, "--machine", "x"]) == 2
