"""Whole systems: every required one loads, figures come from where they should, formulas hold."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from pathlib import Path

import pytest

from hardware import (
    Bill,
    HardwareError,
    MissingFigureError,
    assemble,
    bills,
    devices,
    inputs_of,
    load_system,
    path_schema,
    systems,
)

REQUIRED = [f"{n}x-{gpu}" for n in (1, 2, 8) for gpu in ("h100-sxm", "h200-sxm", "b200-sxm", "mi300x")] + [
    "trimoe-server",
    "h100-cxl-ndp",
    "h100-amx-server",
    "gh200",
    "epyc-rtx5090",
    "desktop-rtx4090",
    "unified-memory-box",
]
ALL = [entry.id for entry in systems()]

# What a plan needs of every machine with a GPU and a host, whatever the policy.
ALWAYS = [
    "node.count",
    "gpu.count_per_node",
    "gpu.bf16_flop_per_s",
    "gpu.memory_capacity_bytes",
    "gpu.memory_bandwidth_bytes_per_s",
    "gpu.tdp_w",
    "gpu.power_limit_w",
    "gpu.idle_w",
    "gpu.busy_overhead_w",
    "gpu.price_usd",
    "gpu.rent_usd_per_hour",
    "gpu.bandwidth_efficiency",
    "gpu.kv_bandwidth_efficiency",
    "gpu.compute_efficiency_max",
    "gpu.compute_half_tokens",
    "gpu.overlap",
    "gpu.reserve_bytes",
    "gpu.layer_launch_s",
    "gpu.layer_launch_tp_s",
    "gpu.layer_launch_eager_s",
    "gpu.captured_batch_max",
    "gpu.energy_j_per_flop",
    "gpu.hbm_energy_j_per_byte",
    "cpu.sockets",
    "cpu.cores_per_socket",
    "cpu.base_clock_hz",
    "cpu.vector_flop_per_s",
    "cpu.vector_efficiency",
    "cpu.matrix_efficiency",
    "cpu.tile_rows",
    "cpu.vector_tokens_max",
    "cpu.numa_efficiency",
    "cpu.overlap",
    "cpu.low_bit_extra_bits",
    "cpu.layer_sync_s",
    "cpu.idle_w",
    "cpu.busy_w",
    "cpu.price_usd",
    "cpu.energy_j_per_flop",
    "cpu.reserve_bytes",
    "dram.channels_per_socket",
    "dram.dimms_per_channel",
    "dram.ranks_per_dimm",
    "dram.mt_per_s",
    "dram.capacity_bytes_per_dimm",
    "dram.bandwidth_bytes_per_s",
    "dram.read_efficiency",
    "dram.price_usd_per_gb",
    "dram.dimm_idle_w",
    "dram.dimm_busy_w",
    "dram.energy_j_per_byte",
    "dram.dimms",
    "dram.capacity_bytes",
    "ndp.count",
    "cxl.count",
    "pcie.bandwidth_bytes_per_s",
    "pcie.efficiency",
    "pcie.latency_s",
    "pcie.energy_j_per_byte",
    "scaleup.bandwidth_bytes_per_s",
    "scaleup.efficiency",
    "scaleup.latency_s",
    "scaleup.energy_j_per_byte",
    "chassis.price_usd",
    "chassis.idle_w",
    "chassis.psu_factor",
    "nic.count",
]
NDP = [
    "ndp.flop_per_s",
    "ndp.rank_bandwidth_bytes_per_s",
    "ndp.internal_bandwidth_bytes_per_s",
    "ndp.bandwidth_efficiency",
    "ndp.compute_efficiency",
    "ndp.tile_rows",
    "ndp.buffer_bytes",
    "ndp.overlap",
    "ndp.command_s",
    "ndp.power_w",
    "ndp.premium_usd",
    "ndp.energy_j_per_byte",
    "ndp.energy_j_per_flop",
    "dimm_link.bandwidth_bytes_per_s",
    "dimm_link.energy_j_per_byte",
]
CXL = [
    "cxl.capacity_bytes",
    "cxl.internal_bandwidth_bytes_per_s",
    "cxl.flop_per_s",
    "cxl.tile_rows",
    "cxl.bandwidth_efficiency",
    "cxl.compute_efficiency",
    "cxl.overlap",
    "cxl.port_bandwidth_bytes_per_s",
    "cxl.port_efficiency",
    "cxl.doorbell_s",
    "cxl.completion_s",
    "cxl.power_w",
    "cxl.idle_w",
    "cxl.price_usd",
    "cxl.energy_j_per_byte",
    "cxl.energy_j_per_flop",
]
NETWORK = [
    "network.bandwidth_bytes_per_s",
    "network.efficiency",
    "network.latency_s",
    "network.energy_j_per_byte",
    "nic.price_usd",
    "nic.power_w",
]


@pytest.mark.parametrize("system_id", REQUIRED)
def test_every_required_system_is_listed(system_id):
    assert system_id in ALL


@pytest.mark.parametrize("system_id", ALL)
def test_every_system_has_every_path_and_what_plans_need(system_id):
    system = load_system(system_id)
    assert set(system.figures) == {spec.path for spec in path_schema()}
    needed = ALWAYS + (NDP if system.value("ndp.count") else []) + (CXL if system.value("cxl.count") else [])
    needed += NETWORK if system.value("nic.count") else []
    assert [path for path in needed if not system.has(path)] == []
    assert system.has_gpu
    assert system.has_host
    assert system.sentence.endswith(".")
    assert system.edited == ()


@pytest.mark.parametrize("system_id", ALL)
def test_figures_of_a_system_are_legal_and_within_bounds(system_id):
    system = load_system(system_id)
    for spec in path_schema():
        figure = system.figures[spec.path]
        assert figure.problem() is None, spec.path
        assert figure.unit == spec.unit
        assert figure.value is None or spec.lower <= figure.value <= spec.upper, spec.path
        assert not figure.edited


@pytest.mark.parametrize("system_id", ALL)
def test_parts_that_are_not_there_have_no_figures(system_id):
    system = load_system(system_id)
    assert system.has_dimm_ndp == (system_id in ("trimoe-server", "trimoe-cxl-server"))
    assert system.has_cxl_ndp == (system_id in ("h100-cxl-ndp", "trimoe-cxl-server"))
    if not system.has_dimm_ndp:
        assert [
            p for p in system.figures if p.startswith(("ndp.", "dimm_link.")) and p != "ndp.count" and system.has(p)
        ] == []
    if not system.has_cxl_ndp:
        assert [p for p in system.figures if p.startswith("cxl.") and p != "cxl.count" and system.has(p)] == []


def test_derived_figures_equal_their_formula():
    s = load_system("2x-h100-sxm")
    v = s.value
    assert v("dram.dimms") == 2 * 8 * 1
    assert v("dram.bandwidth_bytes_per_s") == 2 * 8 * 4800e6 * 8
    assert v("dram.capacity_bytes") == 16 * 64 * 2**30
    assert v("cpu.bf16_flop_per_s") == pytest.approx(56 * 2.0e9 * 1024)
    assert v("cpu.int8_op_per_s") == pytest.approx(56 * 2.0e9 * 2048)
    assert v("gpu.power_limit_w") == v("gpu.tdp_w") == 700
    assert v("pcie.bandwidth_bytes_per_s") == 63e9
    assert v("network.bandwidth_bytes_per_s") == 50e9 * 1 / 2
    assert v("dram.dimm_busy_w") == pytest.approx(3 + 0.055 * 64)
    assert v("cpu.numa_efficiency") == v("cpu.numa_pair_efficiency")
    assert load_system("1x-h100-sxm").value("cpu.numa_efficiency") == 1


@pytest.mark.parametrize("system_id", ALL)
def test_power_of_a_gpu_meets_the_two_shares_of_its_tdp(system_id):
    """Memory-bound decode draws 0.43 x TDP, compute-bound work 0.86 x TDP (fleet model of vllm semantic-router)."""
    v = load_system(system_id).value
    idle, busy = v("gpu.idle_w"), v("gpu.busy_overhead_w")
    reading = v("gpu.bandwidth_efficiency") * v("gpu.memory_bandwidth_bytes_per_s") * v("gpu.hbm_energy_j_per_byte")
    computing = v("gpu.compute_efficiency_max") * v("gpu.bf16_flop_per_s") * v("gpu.energy_j_per_flop")
    assert idle + busy + reading == pytest.approx(0.43 * v("gpu.tdp_w"))
    assert idle + busy + computing == pytest.approx(0.86 * v("gpu.tdp_w"))


def test_a_derived_range_spans_its_inputs():
    figure = load_system("1x-h100-sxm").figures["cpu.busy_w"]
    shares = load_system("1x-h100-sxm").figures["cpu.busy_power_share"]
    assert (figure.low, figure.high) == pytest.approx((350 * shares.low, 350 * shares.high))
    assert figure.kind == "derived"
    assert "TDP" in figure.source


def test_inputs_of_a_derived_figure_are_its_leaves():
    leaves = inputs_of("gpu.energy_j_per_flop")
    assert {"gpu.tdp_w", "gpu.hbm_energy_j_per_byte", "gpu.bf16_flop_per_s"} <= set(leaves)
    assert "gpu.busy_overhead_w" not in leaves
    assert inputs_of("gpu.tdp_w") == ("gpu.tdp_w",)


def test_two_dimms_per_channel_lower_the_speed_of_the_eight_gpu_host():
    system = load_system("8x-h100-sxm")
    assert system.value("dram.mt_per_s") == 4400
    assert system.value("dram.bandwidth_bytes_per_s") == 2 * 8 * 4400e6 * 8
    assert system.findings == ()


PAPERS = ("trimoe-server", "trimoe-cxl-server", "h100-cxl-ndp")  # their figures contradict each other in places


@pytest.mark.parametrize("system_id", [i for i in ALL if i not in PAPERS])
def test_systems_of_the_catalog_are_possible(system_id):
    system = load_system(system_id)
    assert system.findings == ()
    assert not system.as_published


def test_trimoe_server_carries_the_published_figures_and_shows_what_contradicts():
    s = load_system("trimoe-server")
    published = {
        "gpu.bf16_flop_per_s": 819.6e12,
        "cpu.bf16_flop_per_s": 90.1e12,
        "dram.bandwidth_bytes_per_s": 307.2e9,
        "dram.dimms": 16,
        "dram.channels_per_socket": 8,
        "dram.capacity_bytes_per_dimm": 128 * 2**30,
        "ndp.count": 16,
        "ndp.flop_per_s": 256e9,
        "ndp.internal_bandwidth_bytes_per_s": 153.6e9,
        "ndp.buffer_bytes": 256 * 1024,
        "dimm_link.bandwidth_bytes_per_s": 25e9,
        "pcie.bandwidth_bytes_per_s": 64e9,
    }
    assert {path: s.value(path) for path in published} == published
    assert s.as_published
    assert any("4400 MT/s" in finding and "281.6 GB/s" in finding for finding in s.findings)
    assert any("756.5" in finding for finding in s.findings)
    assert any("40-core" in finding for finding in s.findings)
    assert "TriMoE" in s.figures["ndp.flop_per_s"].source


def test_the_hypothetical_server_is_the_published_one_with_the_card_beside_it():
    both, trimoe, card = (load_system(i) for i in ("trimoe-cxl-server", "trimoe-server", "h100-cxl-ndp"))
    assert not both.as_published
    assert "Hypothetical" in both.sentence and "Hypothetical" in both.findings[0]
    for path in trimoe.figures:
        if not path.startswith("cxl."):
            assert both.get(path) == trimoe.get(path), path
    for path in ("cxl.flop_per_s", "cxl.internal_bandwidth_bytes_per_s", "cxl.tile_rows", "cxl.count"):
        assert both.value(path) == card.value(path), path


def test_h100_cxl_ndp_carries_the_published_figures():
    s = load_system("h100-cxl-ndp")
    published = {
        "gpu.bf16_flop_per_s": 989.4e12,
        "gpu.memory_bandwidth_bytes_per_s": 3.35e12,
        "cxl.count": 1,
        "cxl.capacity_bytes": 512 * 2**30,
        "cxl.internal_bandwidth_bytes_per_s": 512e9,
        "cxl.flop_per_s": 2 * 64 * 16 * 1e9,
        "cxl.tile_rows": 4,
        "cxl.port_bandwidth_bytes_per_s": 32e9,
        "pcie.bandwidth_bytes_per_s": 32e9,
        "pcie.generation": 4,
    }
    assert {path: s.value(path) for path in published} == published
    assert s.as_published
    assert s.value("cxl.bandwidth_efficiency") == 0.9
    assert any("13.3 channels" in finding for finding in s.findings)


def test_matrix_efficiency_scales_with_the_best_measured_product():
    """MAMF: 51 % of the peak on MI300X, 80 % on H100, 78 % on B200."""
    h100, mi300x, b200 = (
        load_system(f"1x-{gpu}").value("gpu.compute_efficiency_max") for gpu in ("h100-sxm", "mi300x", "b200-sxm")
    )
    assert mi300x / h100 == pytest.approx(0.51 / 0.80, rel=1e-4)
    assert b200 / h100 == pytest.approx(0.78 / 0.80, rel=1e-4)


def test_a_missing_price_is_an_assumption_with_a_range():
    figure = load_system("8x-mi300x").figures["gpu.price_usd"]
    assert figure.kind == "assumed"
    assert figure.low < figure.value < figure.high


def test_unified_memory_is_one_memory():
    system = load_system("unified-memory-box")
    assert system.unified_memory
    assert system.value("dram.capacity_bytes") == system.value("gpu.memory_capacity_bytes")
    assert system.value("dram.bandwidth_bytes_per_s") == pytest.approx(
        system.value("gpu.memory_bandwidth_bytes_per_s"), rel=1e-3
    )
    assert not any(load_system(i).unified_memory for i in ALL if i != "unified-memory-box")


def test_a_missing_figure_raises_one_sentence_and_is_never_zero():
    system = load_system("2x-h100-sxm")
    assert system.get("gpu.fp4_flop_per_s") is None
    assert not system.has("gpu.fp4_flop_per_s")
    with pytest.raises(MissingFigureError, match="no FP4 mode"):
        system.value("gpu.fp4_flop_per_s")


def test_an_unknown_path_is_an_error_also_when_reading():
    system = load_system("2x-h100-sxm")
    for read in (system.value, system.get, system.has):
        with pytest.raises(HardwareError, match=r"gpu\.tdp_w"):
            read("gpu.tdp")


def test_an_unknown_system_names_the_nearest():
    with pytest.raises(HardwareError, match="'2x-h100-sxm'"):
        load_system("2x-h100-smx")


def test_systems_and_devices_can_be_copied_and_pickled():
    system = load_system("trimoe-server")
    assert pickle.loads(pickle.dumps(system)) == system
    assert copy.deepcopy(system) == system
    assert pickle.loads(pickle.dumps(devices())) == devices()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update({"gpu.tdp_w": None}),
        lambda m: m.pop("gpu.tdp_w"),
        lambda m: m.clear(),
        lambda m: m.setdefault("x", None),
        lambda m: m.__delitem__("gpu.tdp_w"),
    ],
)
def test_shared_figures_refuse_every_change(change):
    figures = load_system("gh200").figures
    with pytest.raises(TypeError, match="read-only"):
        change(figures)
    assert load_system("gh200").value("gpu.tdp_w") == 700


def test_equal_input_gives_the_same_object_and_figures_cannot_be_changed():
    assert load_system("gh200", {"gpu.tdp_w": 600}) is load_system("gh200", {"gpu.tdp_w": 600.0})
    with pytest.raises(TypeError):
        load_system("gh200").figures["gpu.tdp_w"] = None  # type: ignore[index]


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_any_gpu_or_cpu_of_the_catalog_can_be_assembled_into_a_system(kind):
    base: Bill = bills()["h100-amx-server"]
    for entry in devices():
        if entry.kind == kind:
            system = assemble(dataclasses.replace(base, id="custom", name="Custom", **{kind: entry.id}))
            assert (system.gpu_name if kind == "gpu" else system.cpu_name) == entry.name
            assert all(figure.problem() is None for figure in system.figures.values()), entry.id


def test_a_system_without_a_gpu_or_without_a_host_can_be_assembled():
    base: Bill = bills()["epyc-rtx5090"]
    alone = assemble(dataclasses.replace(base, gpu=None, counts={**base.counts, "gpu.count_per_node": 0}))
    assert not alone.has_gpu
    assert alone.has_host
    assert not alone.has("gpu.bf16_flop_per_s")
    assert not alone.has("pcie.bandwidth_bytes_per_s")
    card = assemble(dataclasses.replace(base, counts={**base.counts, "cpu.sockets": 0}))
    assert card.has_gpu
    assert not card.has_host
    assert not card.has("dram.bandwidth_bytes_per_s")


def test_the_documentation_lists_every_system_with_its_sentence():
    text = (Path(__file__).parents[2] / "docs" / "hardware.md").read_text(encoding="utf-8")
    for entry in systems():
        assert f"| `{entry.id}` | {entry.sentence} |" in text
