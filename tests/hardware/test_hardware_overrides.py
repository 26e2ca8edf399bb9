"""Changing figures: what is edited shows, what follows changes too, what is wrong is refused with one sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import HardwareError, load_system, path_schema, systems

SPECS = {spec.path: spec for spec in path_schema()}
IDS = [entry.id for entry in systems()]


def test_an_override_is_marked_and_tells_what_was_there():
    system = load_system("2x-h100-sxm", {"gpu.power_limit_w": 500, "gpu.price_usd": 20000})
    assert system.edited == ("gpu.power_limit_w", "gpu.price_usd")
    figure = system.figures["gpu.price_usd"]
    assert figure.edited
    assert figure.value == 20000
    assert "30000 USD" in figure.source
    assert system.value("gpu.power_limit_w") == 500
    assert not system.figures["gpu.tdp_w"].edited


def test_a_changed_figure_changes_what_follows_from_it():
    system = load_system("2x-h100-sxm", {"dram.mt_per_s": 4000})
    assert system.value("dram.bandwidth_bytes_per_s") == 2 * 8 * 4000e6 * 8
    assert not system.figures["dram.bandwidth_bytes_per_s"].edited
    assert load_system("2x-h100-sxm", {"gpu.tdp_w": 600}).value("gpu.power_limit_w") == 600
    assert load_system("2x-h100-sxm", {"cpu.sockets": 1}).value("cpu.numa_efficiency") == 1


def test_what_is_set_stays_even_if_its_inputs_change():
    system = load_system("2x-h100-sxm", {"dram.mt_per_s": 4000, "dram.bandwidth_bytes_per_s": 5e11})
    assert system.value("dram.bandwidth_bytes_per_s") == 5e11
    assert system.edited == ("dram.bandwidth_bytes_per_s", "dram.mt_per_s")


def test_published_figures_stay_when_their_inputs_change_and_yield_to_the_user():
    assert (
        load_system("trimoe-server", {"dram.ranks_per_dimm": 2}).value("ndp.internal_bandwidth_bytes_per_s") == 153.6e9
    )
    edited = load_system("trimoe-server", {"ndp.internal_bandwidth_bytes_per_s": 76.8e9})
    assert edited.value("ndp.internal_bandwidth_bytes_per_s") == 76.8e9
    assert edited.as_published
    assert edited.edited == ("ndp.internal_bandwidth_bytes_per_s",)


def test_a_second_dimm_per_channel_lowers_the_speed_by_itself():
    system = load_system("2x-h100-sxm", {"dram.dimms_per_channel": 2})
    assert system.value("dram.mt_per_s") == 4400
    assert system.value("dram.dimms") == 32
    assert system.findings == ()


def test_near_data_parts_can_be_added_to_any_server():
    system = load_system("2x-h100-sxm", {"ndp.count": 16, "cxl.count": 2})
    assert system.has_dimm_ndp
    assert system.has_cxl_ndp
    assert system.value("ndp.internal_bandwidth_bytes_per_s") == 2 * 4800e6 * 8
    assert system.value("cxl.capacity_bytes") == 512 * 2**30


def test_a_figure_that_the_silicon_lacks_can_be_set_and_is_remarked_upon():
    system = load_system("2x-h100-sxm", {"gpu.fp4_flop_per_s": 4e15})
    assert system.value("gpu.fp4_flop_per_s") == 4e15
    assert any("no FP4 mode" in finding for finding in system.findings)


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"gpu.tdp": 700}, "'gpu.tdp_w'"),
        ({"": 700}, "no hardware figure"),
        ({"gpu.tdp_w": -3}, "between 1 and 10000, the nearest is 1"),
        ({"gpu.tdp_w": 1e9}, "the nearest is 10000"),
        ({"gpu.tdp_w": 0}, "the nearest is 1"),
        ({"gpu.tdp_w": float("nan")}, "finite number in W"),
        ({"gpu.tdp_w": float("inf")}, "finite number in W"),
        ({"gpu.tdp_w": True}, "finite number in W"),
        ({"gpu.tdp_w": "700"}, "finite number in W"),
        ({"gpu.tdp_w": None}, "finite number in W"),
        ({"cpu.sockets": 1.5}, "whole number"),
        ({"x" * 5000: 1}, "no hardware figure"),
    ],
)
def test_a_wrong_override_is_refused_with_one_short_sentence(overrides, words):
    with pytest.raises(HardwareError) as caught:
        load_system("2x-h100-sxm", overrides)
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert len(message) < 300


@st.composite
def _overrides(draw: st.DrawFn) -> dict[str, float]:
    chosen = draw(st.lists(st.sampled_from(sorted(SPECS)), min_size=1, max_size=4, unique=True))
    result = {}
    for path in chosen:
        spec = SPECS[path]
        if spec.integer:
            result[path] = float(draw(st.integers(int(spec.lower), int(min(spec.upper, 64)))))
        else:
            result[path] = draw(st.floats(spec.lower, spec.upper, allow_nan=False))
    return result


@settings(max_examples=150, deadline=None)
@given(system_id=st.sampled_from(IDS), overrides=_overrides())
def test_any_legal_override_gives_a_legal_system(system_id, overrides):
    system = load_system(system_id, overrides)
    assert set(system.edited) == set(overrides)
    for path, figure in system.figures.items():
        assert figure.problem() is None, path
        assert figure.edited == (path in overrides)
    for path, value in overrides.items():
        assert system.value(path) == value
    assert all(finding.endswith(".") and "\n" not in finding for finding in system.findings)


@settings(max_examples=60, deadline=None)
@given(
    sockets=st.integers(1, 8),
    channels=st.integers(1, 16),
    rate=st.floats(1000, 20000),
    dimms=st.integers(1, 2),
)
def test_bandwidth_is_always_sockets_times_channels_times_rate(sockets, channels, rate, dimms):
    system = load_system(
        "2x-h100-sxm",
        {
            "cpu.sockets": sockets,
            "dram.channels_per_socket": channels,
            "dram.mt_per_s": rate,
            "dram.dimms_per_channel": dimms,
        },
    )
    assert system.value("dram.bandwidth_bytes_per_s") == pytest.approx(sockets * channels * rate * 8e6)
    assert system.value("dram.dimms") == sockets * channels * dimms
