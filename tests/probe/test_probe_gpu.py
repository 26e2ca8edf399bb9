"""The GPU side: every source that there is, the stand-in always and a real GPU where torch has one."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import pytest

from planner.measured_machine import parse
from planner.probe import gpu as gpu_module
from planner.probe import run as run_module
from planner.probe.figures import figures_of
from planner.probe.gpu import Gpu
from planner.probe.host import facts
from planner.probe.recording import Recording
from planner.probe.run import GPU_TOKENS, measured_machine
from tests.probe.fake_torch import FakeTorch, Truth

TOKENS = GPU_TOKENS[1]
PATHS = ("gpu.bandwidth_efficiency", "gpu.compute_efficiency_max", "gpu.compute_half_tokens", "gpu.layer_launch_s",
         "gpu.layer_launch_eager_s", "pcie.efficiency", "pcie.latency_s", "gpu.count_per_node")  # fmt: skip


def real_torch() -> Any | None:
    try:
        torch = importlib.import_module("torch")
    except (ImportError, OSError):
        return None
    return torch if torch.cuda.is_available() else None


SOURCES = ["stand-in", *(["real"] if real_torch() else [])]


def recorded(torch: Any, monkeypatch: pytest.MonkeyPatch) -> Recording:
    if isinstance(torch, FakeTorch):
        monkeypatch.setattr(gpu_module, "time", SimpleNamespace(perf_counter=torch.perf_counter))
        monkeypatch.setattr(gpu_module, "link_of_driver", lambda: (5, 16))
    gpu = Gpu(torch, 3, TOKENS)
    series, gaps = gpu.series()
    return Recording(date="2026-01-01", seconds=1.0, host=facts(), gpu=gpu.facts(), series=tuple(series), gaps=gaps)


@pytest.fixture(params=SOURCES)
def recording(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Recording:
    return recorded(real_torch() if request.param == "real" else FakeTorch(), monkeypatch)


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Recording:
    return recorded(FakeTorch(), monkeypatch)


def test_every_figure_is_measured_and_physical(recording):
    found = figures_of(recording)
    assert not set(PATHS) - set(found.figures), found.missing
    value = {path: figure.value for path, figure in found.figures.items()}
    assert 0 < value["gpu.bandwidth_efficiency"] <= 1
    assert 0 < value["gpu.compute_efficiency_max"] <= 1
    assert 1e-7 < value["gpu.layer_launch_s"] <= value["gpu.layer_launch_eager_s"] < 0.1
    assert 1e-7 < value["pcie.latency_s"] < 1e-2
    rates = [p.bytes_per_s for s in recording.find("copy") for p in s.points]
    assert all(1e5 < rate < 1e12 for rate in rates)


def test_a_recorded_run_replays_through_the_same_code(recording):
    again = Recording.model_validate_json(recording.model_dump_json())
    machine = measured_machine(again)
    assert machine == measured_machine(recording)
    assert parse(machine.text().encode(), "it").digest == machine.digest


def test_the_stand_in_is_found_again(stand_in):
    found = figures_of(stand_in).figures
    assert found["gpu.bandwidth_efficiency"].value == pytest.approx(Truth.read_bytes_per_s / 4.8e12, rel=0.05)
    assert found["gpu.compute_efficiency_max"].value == pytest.approx(Truth.flop_per_s / 989.4e12, rel=0.05)
    assert found["gpu.compute_half_tokens"].value == pytest.approx(Truth.half_tokens, rel=0.15)
    lanes = 16 * 32e9 * 128 / 130 / 8
    assert found["pcie.efficiency"].value == pytest.approx(Truth.link_bytes_per_s / lanes, rel=0.05)
    assert found["gpu.layer_launch_s"].value == pytest.approx(16 * Truth.kernel_s, rel=0.05)
    assert found["gpu.layer_launch_eager_s"].value == pytest.approx(16 * Truth.launch_s, rel=0.05)
    assert found["gpu.count_per_node"].value == 2
    assert measured_machine(stand_in).parts["gpu"] == "h200-sxm-141gb"


def test_pageable_copies_are_a_finding_with_their_ratio(stand_in):
    finding = {f.id: f for f in measured_machine(stand_in).findings}["pageable"]
    assert finding.state == "costs"
    assert finding.worth == pytest.approx(Truth.link_bytes_per_s / Truth.pageable_bytes_per_s, rel=0.05)
    assert "9 GB/s" in finding.sentence


def test_an_unknown_gpu_gets_absolute_figures(monkeypatch):
    class Unknown(Truth):
        name = "Future 9000"

    machine = measured_machine(recorded(FakeTorch(Unknown), monkeypatch))
    assert "gpu" not in machine.parts
    share, peak = (machine.figures[p].value for p in ("gpu.bandwidth_efficiency", "gpu.memory_bandwidth_bytes_per_s"))
    assert share * peak == pytest.approx(Truth.read_bytes_per_s, rel=0.05)


def test_what_a_gpu_cannot_do_is_a_gap_and_keeps_the_catalog(monkeypatch):
    class Old(Truth):
        fp8 = False

    torch = FakeTorch(Old)
    torch.cuda.CUDAGraph = None  # a build without graphs
    recording = recorded(torch, monkeypatch)
    assert "8.9" in recording.gaps["GPU products in fp8"] or "callable" in recording.gaps["GPU products in fp8"]
    found = figures_of(recording)
    assert "gpu.layer_launch_s" in found.missing
    assert "gpu.bandwidth_efficiency" not in found.figures


def test_a_torch_without_gpu_is_said(monkeypatch):
    torch = FakeTorch()
    torch.cuda.is_available = lambda: False
    run = run_module._Run(lambda _: None)
    assert run_module._gpu(run, torch, True) is None
    assert run.gaps["GPU"] == "torch sees no GPU"


def test_silicon_without_bf16_is_held_against_its_fp16_rate(monkeypatch):
    class Turing(Truth):
        name, flop_per_s, read_bytes_per_s = "Tesla T4", 40e12, 240e9

    machine = measured_machine(recorded(FakeTorch(Turing), monkeypatch))
    assert machine.parts["gpu"] == "t4-16gb"
    assert machine.figures["gpu.compute_efficiency_max"].value == pytest.approx(40e12 / 65e12, rel=0.1)
    assert "gpu.bf16_flop_per_s" not in machine.figures
