"""Terms of kernels, threads, copies and requests: what each slows, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.context import resolve
from planner.evaluate import Evaluation, evaluate
from planner.fields import validated
from planner.physics.cpu import expert_compute_s
from planner.physics.gpu import layer_overhead_s
from planner.physics.launches import PLAIN, captured_extra_s, kernels
from planner.scenario import Scenario


def scenario(policy: dict[str, Any], batch: int = 1, model: str = "Qwen/Qwen3-30B-A3B", prompt: int = 512) -> Scenario:
    return validated(
        {
            "model": {"id": model},
            "system": {"id": "1x-h100-sxm", "overrides": {"dram.capacity_bytes": 2.0**42}},
            "workload": {"batch": batch, "prompt_tokens": prompt, "output_tokens": 32},
            "policy": policy,
        }
    )


def served(found: Scenario, **figures: float) -> Evaluation:
    one = evaluate(found, {path.replace("__", "."): value for path, value in figures.items()}, quick=True)
    assert one.serving is not None, one.reasons
    return one


BLOCKS = {"id": "cpu-experts", "expert_format": "gguf-q4_k", "gpu_experts_per_layer": 0, "prefill": "cpu"}


def test_block_formats_go_with_cores_and_clock_and_not_with_the_vector_width() -> None:
    """Published prefill rates with repacked GGUF kernels are 44 FLOP per cycle and core on AVX2 and AVX-512 alike."""
    found = scenario(BLOCKS)
    narrow = served(found, cpu__vector_flop_per_cycle=32, cpu__vector_efficiency=0.5)
    wide = served(found, cpu__vector_flop_per_cycle=128, cpu__vector_efficiency=0.5)
    assert narrow.prefill is not None and wide.prefill is not None
    assert wide.prefill.alone_s == pytest.approx(narrow.prefill.alone_s)
    slower = served(found, cpu__block_flop_per_cycle=10)
    assert slower.prefill is not None
    assert slower.prefill.alone_s > 1.5 * narrow.prefill.alone_s


@given(st.integers(1, 4096), st.booleans())
def test_expert_compute_uses_the_rate_of_its_form(rows: int, tiles: bool) -> None:
    cpu = resolve(scenario(BLOCKS)).machine.cpu
    assert cpu is not None and cpu.matrix_flop_per_s is not None
    blocks = expert_compute_s(1e6, rows, cpu, matrix=False)
    assert blocks == pytest.approx(2e6 * rows / cpu.block_flop_per_s)
    assert expert_compute_s(1e6, rows, cpu, matrix=tiles) <= expert_compute_s(1e6, rows + 1, cpu, matrix=tiles)


def test_staged_copies_slow_a_narrow_host_and_never_speed_anything_up() -> None:
    found = scenario({"id": "layer-streaming", "gpu_experts_per_layer": 0})
    wide = {"dram__bandwidth_bytes_per_s": 3e12}
    narrow = {"dram__bandwidth_bytes_per_s": 8e10}
    for host, slows in ((wide, False), (narrow, True)):
        pinned = served(found, pcie__host_crossings=1, **host).serving
        staged = served(found, pcie__host_crossings=4, **host).serving
        assert pinned is not None and staged is not None
        assert (staged.tpot_s > 1.2 * pinned.tpot_s) == slows
        assert staged.tpot_s >= pinned.tpot_s * (1 - 1e-9)


def test_barriers_of_a_cpu_only_layer_grow_with_the_cores() -> None:
    found = scenario({"id": "cpu-only", "expert_format": "gguf-q4_k"})
    steps = {}
    for cores in (16, 128):
        # The same rates with more cores: what is left are the barriers.
        held = {
            "cpu__cores_per_socket": cores,
            "cpu__vector_flop_per_s": 1e13,
            "cpu__block_flop_per_cycle": 640 / cores,
        }
        steps[cores] = [served(found, cpu__thread_sync_s=t, **held).decode for t in (1e-6, 5e-6)]
    added = {cores: b.step.total_s - a.step.total_s for cores, (a, b) in steps.items() if a and b}
    layers = 48
    sockets = resolve(found).machine.cpu
    assert sockets is not None
    assert added[16] == pytest.approx(4e-6 * 16 * sockets.sockets * layers, rel=1e-6)
    assert added[128] == pytest.approx(8 * added[16], rel=1e-6)


def test_time_per_request_costs_throughput_and_no_latency() -> None:
    found = scenario({"id": "all-gpu"}, batch=8)
    plain, slow = served(found, gpu__request_serial_s=0).serving, served(found, gpu__request_serial_s=0.01).serving
    assert plain is not None and slow is not None
    assert slow.tpot_s == plain.tpot_s and slow.ttft_s == plain.ttft_s
    assert 32 / slow.tokens_per_s_end_to_end == pytest.approx(32 / plain.tokens_per_s_end_to_end + 0.01)


def test_beyond_the_captured_batch_a_layer_costs_its_own_figure() -> None:
    gpu = resolve(scenario({"id": "all-gpu"})).machine.gpu
    assert gpu is not None
    most = int(gpu.captured_batch_max)
    inside, beyond = (layer_overhead_s(gpu, n, 1, True) for n in (most, most + 1))
    assert (inside, beyond) == (gpu.layer_launch_s, max(gpu.layer_uncaptured_s, gpu.layer_launch_s))
    assert layer_overhead_s(gpu, 1, 1, False) == gpu.layer_launch_eager_s
    assert layer_overhead_s(gpu, most + 1, 1, False) == max(gpu.layer_uncaptured_s, gpu.layer_launch_eager_s)


def test_layers_of_one_block_launch_fewer_kernels() -> None:
    """Hybrid models number a mixer, or experts, alone as a layer."""
    ctx = resolve(scenario({"id": "all-gpu"}, model="nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"))
    count = kernels(ctx)
    assert (count < PLAIN).any()
    extra = captured_extra_s(ctx, 1e-6)
    assert np.allclose(extra, (count - PLAIN) * 1e-6)
    a, b = (served(ctx.scenario, gpu__kernel_launch_s=k, gpu__layer_launch_s=2e-5).serving for k in (0.0, 1e-6))
    assert a is not None and b is not None and b.tpot_s < a.tpot_s
