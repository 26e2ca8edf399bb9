"""Money: tokens times their price is the bill, whatever the utilisation; the fleet's arithmetic."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from planner.activity import Activity, Mix
from planner.capacity import capacity, load_requests_per_s, systems_for
from planner.economics import PARTS, cost
from planner.energy import consumption
from planner.errors import PlanError
from planner.scenario import Economics, Workload
from tests.energy.energy_standin import BILL, MissingFigure, Row, StandIn, consumptions, economics

CAPEX = sum(row.total_usd for row in BILL)


def _simple(idle_devices: StandIn | None = None):
    decode = Activity(seconds=0.5, tokens=100, gpu_busy_s=0.4, gpu_flop=1e13, hbm_bytes=1e12)
    prefill = Activity(seconds=1.0, tokens=4000, gpu_busy_s=1.0, gpu_flop=4e14, hbm_bytes=1e12)
    system = idle_devices or StandIn()
    return system, consumption(system, decode, prefill, Mix.of(decode, prefill, 1000, 200))


@given(consumptions(), economics)
def test_tokens_times_cost_is_the_bill_of_the_whole_life(drawn, terms):
    bill = cost(StandIn(), BILL, terms, drawn)
    life_h = terms.life_years * 8760
    requests = life_h * 3600 * terms.busy_share * drawn.mix.requests_per_s
    paid = requests * (
        drawn.mix.output_tokens * bill.usd_per_million_output_tokens / 1e6
        + drawn.mix.input_tokens * bill.usd_per_million_input_tokens / 1e6
    )
    other = terms.other_usd_per_month / 730 * life_h
    if terms.mode == "owned":
        kwh = drawn.average_w(terms.busy_share) / 1000 * life_h * terms.pue
        expected = CAPEX + kwh * terms.electricity_usd_per_kwh + other
    else:
        rent = 2 * 2.95 if terms.rent_usd_per_hour is None else terms.rent_usd_per_hour
        expected = rent * life_h + other
    assert paid == pytest.approx(expected, rel=1e-9)
    assert bill.usd_per_hour * life_h == pytest.approx(expected, rel=1e-9)
    assert bill.usd_per_month_one_system == pytest.approx(bill.usd_per_hour * 730)


@given(consumptions(), economics)
def test_parts_of_a_price_add_up_in_the_fixed_order_and_none_is_negative(drawn, terms):
    bill = cost(StandIn(), BILL, terms, drawn)
    assert sum(part.value for part in bill.by_part) == pytest.approx(bill.usd_per_million_output_tokens, rel=1e-9)
    order = [part.id for part in bill.by_part]
    assert order == sorted(order, key=list(PARTS).index)
    assert all(part.value > 0 for part in bill.by_part)
    if terms.mode == "owned":
        assert sum(part.value for part in bill.bill_of_materials) == pytest.approx(bill.capex_usd)
    else:
        assert bill.capex_usd is None
        assert bill.bill_of_materials == ()


@given(consumptions(), economics, st.floats(0.01, 0.5))
def test_doubling_utilisation_halves_the_machine_and_leaves_working_electricity(drawn, terms, busy):
    terms = terms.model_copy(update={"mode": "owned", "electricity_usd_per_kwh": 0.1})
    once, twice = (
        {
            part.id: part.value
            for part in cost(StandIn(), BILL, terms.model_copy(update={"busy_share": b}), drawn).by_part
        }
        for b in (busy, 2 * busy)
    )
    for part in ("gpu", "cpu", "dimms", "ndp", "cxl", "chassis"):
        assert twice[part] == pytest.approx(once[part] / 2)
    assert twice["electricity"] == pytest.approx(once["electricity"])


@given(consumptions(), economics, economics)
def test_a_busier_machine_never_makes_a_token_dearer(drawn, terms, other):
    low, high = sorted((terms.busy_share, other.busy_share))
    idle, busy = (cost(StandIn(), BILL, terms.model_copy(update={"busy_share": b}), drawn) for b in (low, high))
    assert busy.usd_per_million_output_tokens <= idle.usd_per_million_output_tokens * (1 + 1e-12)
    assert busy.usd_per_million_input_tokens <= idle.usd_per_million_input_tokens * (1 + 1e-12)


@given(consumptions(), economics)
def test_price_of_input_and_output_split_by_machine_time_when_energy_is_free(drawn, terms):
    bill = cost(StandIn(), BILL, terms.model_copy(update={"electricity_usd_per_kwh": 0.0}), drawn)
    assume(bill.usd_per_million_input_tokens > 0)
    assert bill.usd_per_million_output_tokens / bill.usd_per_million_input_tokens == pytest.approx(
        drawn.mix.seconds_per_output_token / drawn.mix.seconds_per_input_token, rel=1e-9
    )


def test_idle_electricity_stands_apart_and_vanishes_at_full_use():
    system, drawn = _simple()
    half = {p.id: p.value for p in cost(system, BILL, Economics(busy_share=0.5), drawn).by_part}
    full = {p.id: p.value for p in cost(system, BILL, Economics(busy_share=1.0), drawn).by_part}
    per_hour = drawn.idle_w / 1000 * 1.25 * 0.0929
    assert half["electricity_idle"] == pytest.approx(per_hour / 3600 * 0.005 * 1e6)
    assert "electricity_idle" not in full


def test_a_rented_system_pays_no_electricity_and_needs_no_price():
    system, drawn = _simple()
    bill = cost(system, (), Economics(mode="rented", busy_share=0.5, other_usd_per_month=730), drawn)
    assert {part.id for part in bill.by_part} == {"rent", "other"}
    assert bill.usd_per_hour == pytest.approx(2 * 2.95 + 1)
    # 5 ms of the system per output token, half of the rented hours without work.
    assert bill.usd_per_million_output_tokens == pytest.approx((2 * 2.95 + 1) / 0.5 / 3600 * 0.005 * 1e6)
    given_rent = cost(system, (), Economics(mode="rented", rent_usd_per_hour=10), drawn)
    assert given_rent.usd_per_hour == 10


def test_parts_that_a_system_lacks_are_absent():
    system, drawn = _simple()
    bill = cost(system, (Row("gpu", 1.0), Row("nic", 2.0), Row("chassis", 3.0)), Economics(), drawn)
    assert {part.id: part.value for part in bill.bill_of_materials} == {"gpu": 1.0, "chassis": 5.0}


def test_a_missing_price_is_never_zero():
    system, drawn = _simple(StandIn(cxl__price_usd=None))
    with pytest.raises(MissingFigure, match=r"cxl\.price_usd"):
        cost(system, (Row("gpu", 1.0), Row("cxl", None)), Economics(), drawn)
    with pytest.raises(MissingFigure, match=r"gpu\.rent_usd_per_hour"):
        cost(StandIn(gpu__rent_usd_per_hour=None), (), Economics(mode="rented"), drawn)
    with pytest.raises(PlanError, match=r"economics\.rent_usd_per_hour"):
        cost(StandIn(gpu__count_per_node=0.0), (), Economics(mode="rented"), drawn)


@given(st.floats(1e-6, 1e9), st.floats(1e-6, 1e6), st.floats(0.01, 1))
def test_systems_carry_the_load_and_one_fewer_would_not(load, rate, target):
    needed = systems_for(load, rate, target)
    assert load <= needed * rate * target * (1 + 1e-9)
    if needed > 1:
        assert load > (needed - 1) * rate * target * (1 - 1e-9)


def test_a_load_of_a_whole_number_of_systems_needs_that_number():
    for systems in range(1, 200):
        assert systems_for(0.7 * systems * 0.3, 0.3, 0.7) == systems
    assert systems_for(0.0, 1.0, 0.7) == 1


@given(consumptions(), economics, st.floats(0, 1e5), st.floats(0.05, 1), st.integers(0, 20))
def test_the_fleet_is_at_the_utilisation_of_its_load(drawn, terms, load, target, spares):
    assume(load / (drawn.mix.requests_per_s * target) < 1e9)
    work = Workload(requests_per_s=load, target_utilisation=target, spare_systems=spares)
    fleet = capacity(StandIn(), BILL, work, terms, drawn)
    assert fleet.utilisation is not None
    assert fleet.utilisation <= target * (1 + 1e-9)
    assert fleet.utilisation * fleet.systems_needed * fleet.system_requests_per_s == pytest.approx(load, rel=1e-9)
    assert fleet.spare_systems == spares
    idle_kw = (fleet.systems_needed + spares) * drawn.idle_w / 1000 * terms.pue
    full_kw = (fleet.systems_needed * drawn.working_w + spares * drawn.idle_w) / 1000 * terms.pue
    assert idle_kw * (1 - 1e-9) <= fleet.average_kw <= full_kw * (1 + 1e-9) or drawn.working_w < drawn.idle_w
    assert fleet.usd_per_month >= 0
    assert "without queueing" in fleet.note


@given(consumptions(), economics)
def test_no_load_is_one_system_at_the_busy_share(drawn, terms):
    alone = capacity(StandIn(), BILL, Workload(), terms, drawn)
    assert alone.systems_needed == 1
    assert alone.utilisation is None
    assert alone.usd_per_month == pytest.approx(cost(StandIn(), BILL, terms, drawn).usd_per_month_one_system)
    assert alone.average_kw == pytest.approx(drawn.average_w(terms.busy_share) / 1000 * terms.pue)


def test_a_fleet_whose_load_meets_the_busy_share_costs_its_systems_and_says_nothing_more():
    system, drawn = _simple()
    rate = drawn.mix.requests_per_s
    work = Workload(requests_per_s=3 * 0.6 * rate, target_utilisation=0.6)
    terms = Economics(busy_share=0.6)
    fleet = capacity(system, BILL, work, terms, drawn)
    assert fleet.systems_needed == 3
    assert fleet.usd_per_month == pytest.approx(3 * cost(system, BILL, terms, drawn).usd_per_month_one_system)
    assert "busy share" not in fleet.note
    other = capacity(system, BILL, work, Economics(busy_share=0.3), drawn)
    assert "60%" in other.note
    assert "30%" in other.note


def test_a_load_in_tokens_per_day_is_the_same_load_in_requests():
    assert load_requests_per_s(Workload(output_tokens_per_day=86_400 * 256 * 2.5, output_tokens=256)) == pytest.approx(
        2.5
    )
    assert load_requests_per_s(Workload(requests_per_s=3)) == 3
    assert load_requests_per_s(Workload()) is None


def test_a_mix_without_work_is_refused():
    with pytest.raises(ValueError, match="0 s"):
        Mix(10, 10, 0, 0)
    with pytest.raises(ValueError, match="output_tokens"):
        Mix(10, math.nan, 1, 1)


def test_end_to_end_rate_shares_the_machine():
    # 1000 prompt tokens at 0.25 ms and 200 output tokens at 5 ms: 1.25 s of machine a request.
    _, drawn = _simple()
    assert drawn.mix.seconds_per_request == pytest.approx(1.25)
    assert drawn.mix.output_tokens_per_s == pytest.approx(160)
    assert drawn.mix.decode_share == pytest.approx(0.8)
