"""Energy and cost on the catalog's own systems: measured power is met, no system lacks a figure that it needs."""

from __future__ import annotations

import pytest

from hardware import bill_of_materials, load_system, systems
from planner.activity import Activity, Mix
from planner.capacity import capacity
from planner.economics import cost
from planner.energy import consumption, energy, idle_power_w, pass_energy, peak_power_w
from planner.scenario import Economics, Workload

SYSTEMS = [entry.id for entry in systems()]


def _card_w(system_id: str, work: Activity) -> float:
    """Watts of one GPU of the system, without the power supply's loss."""
    system = load_system(system_id)
    cards = system.value("node.count") * system.value("gpu.count_per_node")
    joules = pass_energy(system, work).by_device["gpu"]
    return joules / work.seconds / cards / system.value("chassis.psu_factor")


def _memory_bound(system_id: str) -> Activity:
    """One second in which every GPU reads weights at the rate that it achieves, one multiply-add per 16-bit weight."""
    system = load_system(system_id)
    cards = system.value("node.count") * system.value("gpu.count_per_node")
    read = cards * system.value("gpu.bandwidth_efficiency") * system.value("gpu.memory_bandwidth_bytes_per_s")
    return Activity(seconds=1, tokens=1, gpu_busy_s=1, hbm_bytes=read, gpu_flop=read)


def _compute_bound(system_id: str) -> Activity:
    """One second of matrix products at the best efficiency."""
    system = load_system(system_id)
    cards = system.value("node.count") * system.value("gpu.count_per_node")
    done = cards * system.value("gpu.compute_efficiency_max") * system.value("gpu.bf16_flop_per_s")
    return Activity(seconds=1, tokens=1, gpu_busy_s=1, gpu_flop=done, hbm_bytes=done / 500)


def test_h100_at_batch_one_draws_what_was_measured():
    """267 W (serialalice, 2026-06) and about 300 W (ML.ENERGY v3, in vLLM semantic-router's fleet-sim)."""
    assert 250 <= _card_w("2x-h100-sxm", _memory_bound("2x-h100-sxm")) <= 400


def test_h100_at_high_batch_draws_what_was_measured():
    """About 600 W at batch 128 (ML.ENERGY v3), 680 W at most (serialalice)."""
    assert 520 <= _card_w("2x-h100-sxm", _compute_bound("2x-h100-sxm")) <= 700


def test_h200_at_high_batch_draws_what_was_measured():
    """517 W at batch 128 with a small model, 593 to 662 W at most (conservemode.com, serialalice)."""
    assert 500 <= _card_w("2x-h200-sxm", _compute_bound("2x-h200-sxm")) <= 700


def test_b200_stays_in_its_measured_span():
    """452 to 943 W (serialalice, 2026-06)."""
    assert 400 <= _card_w("2x-b200-sxm", _memory_bound("2x-b200-sxm")) <= 943
    assert 452 <= _card_w("2x-b200-sxm", _compute_bound("2x-b200-sxm")) <= 1000


def test_a_node_of_eight_h100_peaks_near_its_rated_power():
    """DGX H100: 10.2 kW at most (servnetuk.com, 2026-07); ours has NICs and switches by the catalog's count."""
    assert 8_000 <= peak_power_w(load_system("8x-h100-sxm")) <= 11_500


def test_a_lower_power_limit_is_held():
    limited = load_system("2x-h100-sxm", {"gpu.power_limit_w": 300.0})
    work = _compute_bound("2x-h100-sxm")
    result = pass_energy(limited, work)
    assert result.by_device["gpu"] / 2 == pytest.approx(300 * limited.value("chassis.psu_factor"))
    assert result.capped_j["gpu"] > 0


@pytest.mark.parametrize("system_id", SYSTEMS)
def test_every_system_has_what_energy_and_money_need(system_id):
    system = load_system(system_id)
    decode = Activity(
        seconds=1.0,
        tokens=100.0,
        gpu_busy_s=0.5,
        gpu_flop=1e12,
        hbm_bytes=1e11,
        cpu_busy_s=0.5 if system.has_host else 0.0,
        cpu_flop=1e11 if system.has_host else 0.0,
        dram_bytes=1e10 if system.has_host else 0.0,
        ndp_flop=1e10 if system.has_dimm_ndp else 0.0,
        ndp_bytes=1e10 if system.has_dimm_ndp else 0.0,
        dimm_link_bytes=1e9 if system.has_dimm_ndp else 0.0,
        cxl_flop=1e10 if system.has_cxl_ndp else 0.0,
        cxl_bytes=1e10 if system.has_cxl_ndp else 0.0,
        cxl_link_bytes=1e9 if system.has_cxl_ndp else 0.0,
        pcie_bytes=1e9,
        scaleup_bytes=1e9 if system.value("gpu.count_per_node") > 1 else 0.0,
    )
    drawn = consumption(system, decode, decode, Mix.of(decode, decode, 1000, 100))
    assert 0 < idle_power_w(system) < drawn.decode.average_w <= drawn.peak_w
    terms = Economics()
    record = energy(drawn, terms)
    assert sum(part.value for part in record.by_device) == pytest.approx(record.j_per_output_token)
    lines = bill_of_materials(system)
    bill = cost(system, lines, terms, drawn)
    assert bill.capex_usd == pytest.approx(sum(line.total_usd or 0 for line in lines))
    assert sum(part.value for part in bill.by_part) == pytest.approx(bill.usd_per_million_output_tokens)
    assert capacity(system, lines, Workload(), terms, drawn).usd_per_month == pytest.approx(
        bill.usd_per_month_one_system
    )


@pytest.mark.parametrize("system_id", SYSTEMS)
def test_peak_is_above_idle_on_every_system(system_id):
    system = load_system(system_id)
    assert peak_power_w(system) > idle_power_w(system)
