"""Energy of a pass: the parts add up, limits hold, and what is idle is paid for."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from planner.activity import Activity, Mix
from planner.energy import DEVICES, MOVEMENTS, consumption, energy, idle_power_w, pass_energy, peak_power_w
from planner.scenario import Economics
from tests.energy.energy_standin import (
    MissingFigure,
    StandIn,
    consumptions,
    economics,
    passes,
    seconds,
    systems,
)


@given(systems(), passes())
def test_parts_add_up_by_device_and_by_movement(system, work):
    result = pass_energy(system, work)
    assert sum(result.by_device.values()) == pytest.approx(result.total_j, rel=1e-12)
    assert sum(result.by_movement.values()) == pytest.approx(result.total_j, rel=1e-12)
    assert all(joules >= 0 for joules in result.cells.values())
    assert tuple(result.by_device) == tuple(DEVICES)
    assert tuple(result.by_movement) == tuple(MOVEMENTS)


@given(systems(), passes())
def test_no_device_averages_above_its_limit(system, work):
    result, psu = pass_energy(system, work), system.value("chassis.psu_factor")
    nodes = system.value("node.count")
    drawn = {device: joules / work.seconds for device, joules in result.by_device.items()}

    # A card whose limit the user set below its idle power still idles.
    gpu_w = max(system.value("gpu.power_limit_w"), system.value("gpu.idle_w"))
    assert drawn["gpu"] <= psu * nodes * system.value("gpu.count_per_node") * gpu_w * (1 + 1e-9)
    assert drawn["cpu"] <= psu * nodes * system.value("cpu.sockets") * system.value("cpu.tdp_w") * (1 + 1e-9)


@given(passes(), st.floats(100, 700))
def test_what_the_power_limit_cuts_is_reported(work, limit_w):
    free = pass_energy(StandIn(gpu__power_limit_w=1e12, cpu__tdp_w=1e12), work)
    held = pass_energy(StandIn(gpu__power_limit_w=limit_w), work)
    assert held.total_j + sum(held.capped_j.values()) == pytest.approx(free.total_j, rel=1e-9)
    assert not free.capped_j


def test_the_limit_binds_on_a_hot_pass_and_keeps_the_proportions():
    # 1e15 FLOP/s at 0.5 pJ/FLOP is 500 W a card, 2.5 TB/s at 40 pJ/B 100 W: 775 W with idle and overhead.
    hot = Activity(seconds=1, tokens=1, gpu_busy_s=1, gpu_flop=2e15, hbm_bytes=5e12)
    result = pass_energy(StandIn(), hot)
    assert result.by_device["gpu"] == pytest.approx(2 * 700 * 1.1)
    assert result.capped_j == pytest.approx({"gpu": 2 * 75 * 1.1})
    assert result.cells["gpu", "compute"] / result.cells["gpu", "hbm"] == pytest.approx(5.0)


def test_each_figure_in_its_place():
    work = Activity(
        seconds=2.0,
        tokens=4.0,
        gpu_busy_s=0.5,
        gpu_flop=1e14,
        hbm_bytes=1e12,
        cpu_busy_s=1.0,
        cpu_flop=1e13,
        dram_bytes=2e11,
        ndp_busy_s=1.0,
        ndp_flop=1e12,
        ndp_bytes=1e12,
        cxl_busy_s=1.0,
        cxl_flop=1e12,
        cxl_bytes=4e11,
        pcie_bytes=1e10,
        cxl_link_bytes=1e10,
        scaleup_bytes=1e10,
        network_bytes=1e10,
        dimm_link_bytes=1e10,
    )
    cells = {key: joules / 1.1 for key, joules in pass_energy(StandIn(), work).cells.items()}
    assert cells == pytest.approx(
        {
            ("gpu", "static"): 2 * 75 * 2,
            ("gpu", "overhead"): 2 * 100 * 0.5,
            ("gpu", "compute"): 50,
            ("gpu", "hbm"): 40,
            ("cpu", "static"): 2 * 100 * 2,
            ("cpu", "compute"): 100,
            ("cpu", "overhead"): 2 * 150 * 1,
            ("dimms", "static"): 16 * 3 * 2,
            ("dimms", "dram"): 19.2,
            ("ndp", "compute"): 1,
            ("ndp", "ndp_memory"): 48,
            ("cxl", "static"): 40 * 2,
            ("cxl", "compute"): 0.9,
            ("cxl", "ndp_memory"): 12.8,
            ("links", "link"): 0.35 * 2 + 0.1 + 0.4 + 0.1,
            ("links", "static"): 20 * 2,
            ("chassis", "static"): 150 * 2,
        }
    )


@given(systems(), seconds)
def test_static_power_is_paid_for_the_whole_time_on_every_device(system, wall):
    nothing_runs = pass_energy(system, Activity(seconds=wall))
    assert nothing_runs.total_j == pytest.approx(idle_power_w(system) * wall, rel=1e-9)
    assert nothing_runs.by_movement["static"] == pytest.approx(nothing_runs.total_j, rel=1e-12)


@given(systems(), passes())
def test_a_longer_pass_with_the_same_work_costs_exactly_the_idle_power_more(system, work):
    slower = Activity(**{**vars(work), "seconds": work.seconds * 3})
    more = pass_energy(system, slower).total_j - pass_energy(system, work).total_j
    assume(work.gpu_busy_s > 0)  # without a kernel the power limit is held over the wall time
    rounding = 1e-9 * pass_energy(system, slower).total_j
    assert more == pytest.approx(idle_power_w(system) * 2 * work.seconds, abs=rounding)


@given(systems(), passes(), st.floats(0.1, 50))
def test_energy_is_proportional_to_the_number_of_passes(system, work, times):
    assert pass_energy(system, work * times).total_j == pytest.approx(
        pass_energy(system, work).total_j * times, rel=1e-9
    )


@given(passes(), passes())
def test_added_passes_add_tokens_time_and_bytes(first, second):
    both = first + second
    assert both.tokens == first.tokens + second.tokens
    assert both.seconds == first.seconds + second.seconds
    assert both.dram_bytes == first.dram_bytes + second.dram_bytes


@given(consumptions(), economics)
def test_the_record_adds_up_and_pue_stays_out_of_joules_per_token(drawn, terms):
    with_pue = energy(drawn, terms)
    assert sum(part.value for part in with_pue.by_device) == pytest.approx(with_pue.j_per_output_token, rel=1e-9)
    assert sum(part.value for part in with_pue.by_movement) == pytest.approx(with_pue.j_per_output_token, rel=1e-9)
    doubled = energy(drawn, terms.model_copy(update={"pue": terms.pue * 2}))
    for name in ("j_per_output_token", "j_per_input_token", "average_w", "peak_w"):
        assert getattr(with_pue, name) == getattr(doubled, name)
    assert doubled.kwh_per_month == pytest.approx(2 * with_pue.kwh_per_month)
    assert doubled.gco2e_per_million_output_tokens == pytest.approx(2 * with_pue.gco2e_per_million_output_tokens)


@given(consumptions(), economics)
def test_the_months_energy_is_what_its_tokens_and_its_idle_time_draw(drawn, terms):
    busy_s = 730 * 3600 * terms.busy_share
    requests = busy_s * drawn.mix.requests_per_s
    tokens_j = requests * (
        drawn.mix.output_tokens * drawn.decode.j_per_token + drawn.mix.input_tokens * drawn.prefill.j_per_token
    )
    idle_j = drawn.idle_w * 730 * 3600 * (1 - terms.busy_share)
    assert energy(drawn, terms).kwh_per_month == pytest.approx((tokens_j + idle_j) / 3.6e6 * terms.pue, rel=1e-9)


@given(consumptions())
def test_average_stays_below_peak(drawn):
    assert drawn.idle_w <= drawn.peak_w
    assert max(drawn.decode.average_w, drawn.prefill.average_w) <= drawn.peak_w


def test_peak_is_the_sum_of_the_rated_powers_at_the_wall():
    assert peak_power_w(StandIn()) == pytest.approx(1.1 * (2 * 700 + 2 * 350 + 16 * (7 + 6) + 116 + 20 + 150))
    assert peak_power_w(StandIn(node__count=3.0)) == pytest.approx(3 * peak_power_w(StandIn()))


def test_a_device_that_is_used_needs_its_figure_and_an_absent_one_does_not():
    work = Activity(seconds=1, tokens=1, gpu_busy_s=1, gpu_flop=1e12, hbm_bytes=1e12, dram_bytes=1e9)
    without = StandIn(cxl__count=0.0, cxl__idle_w=None, cxl__power_w=None, ndp__count=None, ndp__power_w=None)
    assert pass_energy(without, work).by_device["cxl"] == 0
    with pytest.raises(MissingFigure, match=r"dram\.energy_j_per_byte"):
        pass_energy(StandIn(dram__energy_j_per_byte=None), work)


def test_h100_cards_alone_land_on_the_measured_decode_power():
    """H100 SXM, batch 1, memory-bound: measured 267 W (serialalice, 2026-06) and about 300 W (ML.ENERGY v3)."""
    work = Activity(seconds=1, tokens=1, gpu_busy_s=1, gpu_flop=2 * 2.7e12, hbm_bytes=2 * 2.7e12)
    card_w = pass_energy(StandIn(chassis__psu_factor=1.0), work).by_device["gpu"] / 2
    assert 250 <= card_w <= 400


def test_an_impossible_pass_is_refused():
    with pytest.raises(ValueError, match="longer than the pass itself"):
        Activity(seconds=1, gpu_busy_s=2)
    with pytest.raises(ValueError, match="dram_bytes"):
        Activity(seconds=1, dram_bytes=-1)
    with pytest.raises(ValueError, match="gpu_flop"):
        Activity(seconds=1, gpu_flop=float("nan"))
    one = Activity(seconds=1, tokens=1)
    with pytest.raises(ValueError, match="yields 0"):
        consumption(StandIn(), Activity(seconds=1), one, Mix.of(one, one, 1, 1))
    with pytest.raises(ValueError, match="charged"):
        Mix.of(Activity(seconds=1), one, 1, 1)


def test_carbon_of_a_million_tokens_by_hand():
    work = Activity(seconds=1, tokens=10)
    drawn = consumption(StandIn(), work, work, Mix.of(work, work, 1, 1))
    idle_w = 1.1 * (150 + 200 + 48 + 40 + 20 + 150)
    assert drawn.idle_w == pytest.approx(idle_w)
    terms = Economics(busy_share=0.5, pue=1.2, grid_gco2e_per_kwh=400)
    # Half the time idle: each token carries its own joules and as many again from the idle half.
    joules = 2 * idle_w / 10
    assert energy(drawn, terms).gco2e_per_million_output_tokens == pytest.approx(joules * 1e6 / 3.6e6 * 1.2 * 400)
