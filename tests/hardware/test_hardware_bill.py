"""The bill of materials: lines add up, follow the counts, and a missing price is not zero."""

from __future__ import annotations

import pytest

from hardware import bill_of_materials, load_system, systems

IDS = [entry.id for entry in systems()]


@pytest.mark.parametrize("system_id", IDS)
def test_lines_add_up_and_rest_on_figures(system_id):
    system = load_system(system_id)
    lines = bill_of_materials(system)
    for line in lines:
        assert line.count > 0
        assert line.total_usd == pytest.approx(line.count * line.unit_price_usd)
        assert line.figure.source
    assert len({line.id for line in lines}) == len(lines)
    assert sum(line.total_usd for line in lines) > 1000


def test_a_server_of_eight_h100_by_hand():
    lines = {line.id: line for line in bill_of_materials(load_system("8x-h100-sxm"))}
    assert set(lines) == {"gpu", "cpu", "dimm", "nic", "chassis"}
    assert (lines["gpu"].count, lines["gpu"].total_usd) == (8, 240_000)
    assert (lines["cpu"].count, lines["cpu"].total_usd) == (2, 2 * 10_710)
    assert (lines["dimm"].count, lines["dimm"].unit_price_usd) == (32, 64 * 12)
    assert lines["gpu"].name == "NVIDIA H100 SXM5 80GB"
    # A reseller quoted 310 to 317 thousand USD with NICs in August 2024, at lower memory prices.
    assert 300_000 < sum(line.total_usd for line in lines.values()) < 360_000


def test_near_data_parts_are_lines_of_their_own():
    lines = {line.id: line for line in bill_of_materials(load_system("trimoe-server"))}
    assert lines["ndp"].count == lines["dimm"].count == 16
    assert "cxl" not in lines
    assert {line.id for line in bill_of_materials(load_system("h100-cxl-ndp"))} >= {"gpu", "cxl"}


def test_nodes_multiply_everything():
    one = bill_of_materials(load_system("8x-h100-sxm"))
    two = bill_of_materials(load_system("16x-h100-sxm"))
    assert sum(line.total_usd for line in two) == pytest.approx(2 * sum(line.total_usd for line in one))


def test_changed_counts_and_prices_change_the_bill():
    system = load_system(
        "2x-h100-sxm", {"gpu.price_usd": 20000, "dram.dimms_per_channel": 2, "dram.price_usd_per_gb": 7}
    )
    lines = {line.id: line for line in bill_of_materials(system)}
    assert lines["gpu"].total_usd == 40000
    assert lines["gpu"].figure.edited
    assert lines["dimm"].total_usd == pytest.approx(32 * 64 * 7)


def test_a_missing_price_stays_missing():
    import dataclasses

    from hardware import assemble, bills

    bill = dataclasses.replace(bills()["1x-h100-sxm"], gpu="rubin-sxm-288gb")
    line = next(line for line in bill_of_materials(assemble(bill)) if line.id == "gpu")
    assert line.unit_price_usd is None
    assert line.total_usd is None
