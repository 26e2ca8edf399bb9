"""Numbers and sentences for people: digits, units, and what is said of plans that fit and that do not."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import words
from planner.result import Change
from planner.words import findings, formats, names, places
from planner.words.verdict import change_sentence
from tests.ui import fixture_result
from ui import typed

T = "\u202f"  # thin space between thousands and before %
N = "\u00a0"  # no-break space between number and unit


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.72, "0.720"),
        (3.1, "3.10"),
        (880, "880"),
        (1043, f"1{T}040"),
        (0.582, "0.582"),
        (9.996, "10.0"),
        (999.6, f"1{T}000"),
        (123456, f"123{T}000"),
        (0, "0.00"),
        (-0.5, "\u22120.500"),
        (0.00123, "0.00123"),
        (1.5e-5, f"1.50{N}\u00d7{N}10\u207b\u2075"),
        (math.nan, "\u2014"),
        (math.inf, "\u2014"),
    ],
)
def test_three_significant_digits(value: float, text: str) -> None:
    assert formats.significant(value) == text


@given(st.floats(1e-4, 1e12))
def test_significant_digits_are_close_and_read_back(value: float) -> None:
    shown = typed.number(formats.significant(value))
    assert shown is not None
    assert abs(shown - value) <= 0.0051 * value


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.582, f"0.582{N}s"),
        (0.0146, f"14.6{N}ms"),
        (9.3e-5, f"93.0{N}\u00b5s"),
        (2e-8, f"20.0{N}ns"),
        (1500, f"25.0{N}min"),
        (72000, f"20.0{N}h"),
    ],
)
def test_times_in_the_unit_they_read_best_in(seconds: float, text: str) -> None:
    assert str(formats.seconds(seconds)) == text


@pytest.mark.parametrize(
    ("usd", "text"),
    [
        (1.19, "$1.19"),
        (0.357, "$0.36"),
        (0.043, "$0.043"),
        (1660, f"$1{T}660"),
        (0, "$0"),
        (-3e12, f"\u2212$3.00{N}T"),
        (2.5e6, f"$2.50{N}M"),
        (2.36e11, f"$236{N}B"),
    ],
)
def test_prices(usd: float, text: str) -> None:
    assert formats.dollars(usd) == text


def test_ranges_have_the_digits_of_their_value() -> None:
    assert formats.range_text(2.6, 3.9, 3.1) == f"2.60{N}\u2013{N}3.90"
    assert formats.range_text(731, 1040, 880) == f"731{N}\u2013{N}1{T}040"
    assert formats.plain_range(0.7, 0.7) == "exact"
    assert formats.plain_range(None, 1.0) == ""


def test_gigabytes_have_one_decimal_and_whole_numbers_from_a_hundred_up() -> None:
    assert [formats.gb(v) for v in (17.94e9, 99.97e9, 2200e9, 0, 2e7)] == ["17.9", "100", f"2{T}200", "0", f"<{N}0.1"]


def test_shares_never_round_to_nothing() -> None:
    assert formats.share(0.36) == f"36{T}%"
    assert formats.share(0.001) == f"<{N}1{T}%"
    assert formats.share(0) == f"0{T}%"


def test_signed_percent() -> None:
    assert [formats.signed_percent(v) for v in (0.14, -0.092, 0.0001, -0.051)] == ["+14", "\u22129.2", "0", "\u22125.1"]


def test_bounds_tiers_and_parts_have_names_for_people() -> None:
    from typing import get_args

    from planner.result import TIERS, Bound, Lane, PartId

    assert all(names.bound(bound) == names.BOUNDS[bound] for bound in get_args(Bound))
    assert all(names.tier(tier) == names.TIER_NAMES[tier] for tier in TIERS)
    assert all(part in names.PARTS for part in get_args(PartId))
    assert all(lane in names.LANES for lane in get_args(Lane))
    assert names.tier(0) == "GPU HBM"


def test_every_field_has_a_label_and_every_label_a_field() -> None:
    from planner.fields import fields
    from planner.words import labels

    plain = {path for path, spec in fields().items() if spec.kind not in ("numbers", "options", "object", "version")}
    assert plain == set(labels.LABELS)
    for path, choices in labels.CHOICES.items():
        assert set(choices) == set(fields()[path].choices)


def test_sentences_name_fields_as_people_know_them() -> None:
    from planner.words import labels

    sentence = labels.in_words("workload.batch is 0; it takes a whole number from 1 to 65,536, or null.")
    assert sentence == "Batch is 0; it takes a whole number from 1 to 65,536, or nothing."


def test_verdict_of_a_plan_that_fits() -> None:
    assert words.verdict(fixture_result.large()) == (
        f"Fits. 880{N}output tok/s per system, 1.72{N}tok/s per user, bound by host DRAM bandwidth; "
        "$1.19 per million output tokens."
    )


def test_verdict_of_a_plan_that_does_not_fit() -> None:
    assert words.verdict(fixture_result.unfit()) == (
        f"Does not fit: GPU HBM is 6.0{N}GB short, because the KV cache takes 75.2{N}GB. "
        "Batch 58 instead of 64 is the smallest change that fits."
    )


def test_verdict_of_a_policy_that_lacks_its_parts() -> None:
    assert words.verdict(fixture_result.lacking()) == (
        "Does not fit: TriMoE needs NDP on the DIMMs, which 2 \u00d7 H100 SXM does not have."
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Batch 1,024 instead of 2,048", f"Batch 1{T}024 instead of 2{T}048 is the smallest change that fits."),
        ("16x H100 SXM in two nodes instead", "It fits on 16x H100 SXM in two nodes."),
        ("Policy: Experts on the CPU", "It fits under the policy Experts on the CPU."),
    ],
)
def test_changes_as_sentences(text: str, sentence: str) -> None:
    assert change_sentence(Change(text=text, set={}, fits=True)) == sentence


def test_several_devices_name_the_fullest_one() -> None:
    unfit = fixture_result.unfit()
    tier = unfit.memory.tiers[0].model_copy(
        update={"devices": 4, "fullest_device_bytes": 90e9, "device_capacity_bytes": 85e9}
    )
    memory = unfit.memory.model_copy(update={"tiers": (tier,)})
    assert f"5.0{N}GB short on the fullest of 4 devices" in words.verdict(unfit.model_copy(update={"memory": memory}))


def test_findings_of_a_plan_that_fits() -> None:
    result = fixture_result.large()
    assert places.map_finding(result).startswith(f"472 of 9{T}440 experts sit in GPU HBM and take 25{T}% of the tokens")
    assert findings.step_finding(result.decode) == (
        f"The CPU sets the pace: its experts are exposed for 513 of 582{N}ms. "
        "GPU, NDP and link work hides behind it (outlined)."
    )
    assert findings.memory_finding(result) == (
        f"GPU HBM is the tight tier, 5.3{N}GB free: the batch can grow to 611, or the context to 917 tokens."
    )
    assert findings.money_finding(result) == f"The GPU leads both: 36{T}% of the energy, 47{T}% of the cost."
    assert "the host DRAM" in findings.assumptions_finding(result)
    assert f"+14 to \u22129{T}%" in findings.assumptions_finding(result)


def test_findings_of_a_plan_that_does_not_fit() -> None:
    result = fixture_result.unfit()
    assert "what is short is GPU HBM, not expert memory" in places.map_finding(result)
    assert findings.memory_finding(result) == (f"GPU HBM would need 91.9 of 85.9{N}GB; CXL-NDP has 461{N}GB to spare.")


def test_assumptions_are_ordered_by_edit_then_by_effect() -> None:
    ranked = findings.ordered(fixture_result.large().assumptions)
    assert ranked[0].edited
    moves = [findings.movement(a) for a in ranked[1:]]
    assert moves == sorted(moves, reverse=True)


def test_a_cell_in_words_names_everything_about_the_expert() -> None:
    place = fixture_result.large().placement
    busiest = max(range(160), key=place.load[3].__getitem__)
    text = places.cell(place, 3, busiest)
    assert f"Expert {busiest} of MoE layer 4" in text
    assert "rank 1 of 160" in text
    assert "16\u00a0bit (bf16)" in text
    assert "Among the busiest experts" in text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,024", 1024),
        ("1 024", 1024),
        (f"1{T}024", 1024),
        ("0,7", 0.7),
        ("4k", 4000),
        ("128Ki", 131072),
        ("70 %", 0.7),
        ("1e3", 1000),
        ("\u22123", -3),
        ("$1.5", 1.5),
        ("1,0240", 1.024),
        ("abc", None),
        ("nan", None),
        ("inf", None),
        ("1e400", None),
        ("1,2,3", None),
        ("", None),
        ("0x10", None),
    ],
)
def test_typed_numbers(text: str, value: float | None) -> None:
    assert typed.number(text) == (pytest.approx(value) if value is not None else None)


@given(st.one_of(st.integers(-(10**14), 10**14), st.floats(-1e12, 1e12, allow_nan=False)))
def test_a_value_in_a_field_reads_back(value: float) -> None:
    read = typed.number(typed.plain(value))
    assert read is not None
    assert math.isclose(read, value, rel_tol=1e-11, abs_tol=1e-300)


@given(st.text(max_size=40))
def test_any_text_is_a_number_or_none(text: str) -> None:
    value = typed.number(text)
    assert value is None or math.isfinite(value)
