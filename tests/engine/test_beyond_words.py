"""What of a plan lies outside what was measured is said in words and units, never as a name and a raw number."""

from __future__ import annotations

import re

import pytest

from planner.accuracy_case import beyond, measured_shapes


@pytest.mark.parametrize("cell", sorted(measured_shapes()))
def test_every_quantity_is_said_in_words_and_units(cell: str) -> None:
    regime, phase = cell.split("/")
    ranges = measured_shapes()[cell]
    told = beyond({name: 10 * high for name, (_, high) in ranges.items()}, regime, phase)
    assert len(told) == len(ranges) - (phase != "e2e")
    for text in told:
        assert not re.search(r"_|\de[+-]\d|\d{6}", text)
        assert "(measured: " in text


def test_a_bandwidth_has_its_unit() -> None:
    case = {name: low for name, (low, _) in measured_shapes()["cpu_experts/decode"].items()}
    (told,) = beyond(case | {"gpu_bandwidth_bytes_per_s": 3.35e12}, "cpu_experts", "decode")
    assert told == "GPU memory of 3.35\u00a0TB/s (measured: 717\u00a0GB/s to 1.79\u00a0TB/s)"
    (told,) = beyond(case | {"batch": 512}, "cpu_experts", "decode")
    assert told == "batch 512 (measured: 1 to 37)"
    assert beyond(case, "cpu_experts", "decode") == ()
    assert beyond(case, "unified_memory", "prefill") == ("no prefill run of this kind was measured",)
