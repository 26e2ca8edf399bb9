"""What differs between scenarios and between their headline figures."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.difference import changed_paths, difference, differing_fields, figures, flat
from planner.result import Headline
from planner.scenario import Economics, ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from tests.db.scenarios import scenarios


def test_fields_have_label_unit_and_one_value_for_each() -> None:
    base = Scenario()
    other = Scenario(
        system=SystemChoice(overrides={"gpu.power_limit_w": 500.0}),
        workload=Workload(batch=64),
        policy=PolicyChoice(options={"alpha": 1}),
        economics=Economics(pue=1.1),
    )
    rows = differing_fields((base, other, base))
    assert [row.path for row in rows] == [
        "system.overrides.gpu.power_limit_w",
        "workload.batch",
        "policy.options.alpha",
        "economics.pue",
    ]
    assert [row.values for row in rows] == [(None, 500.0, None), (32, 64, 32), (None, 1, None), (1.25, 1.1, 1.25)]
    assert [(row.label, row.unit) for row in rows[1:3]] == [("Batch", "sequences"), ("alpha", "")]
    assert rows[0].unit == "W"
    assert rows[0].label != rows[0].path


def test_one_true_and_one_point_nought_are_three_inputs() -> None:
    values = [Scenario(policy=PolicyChoice(options={"x": value})) for value in (1, True, 1.0)]
    assert len(differing_fields(values)) == 1
    assert all(changed_paths(a, b) for a in values for b in values if a is not b)


def test_a_pasted_config_is_compared_entry_by_entry_and_a_preset_is_display_only() -> None:
    one = Scenario(model=ModelChoice(config={"num_experts": 8, "same": [1, 2]}))
    two = Scenario(model=ModelChoice(config={"num_experts": 16, "same": [1, 2]}), workload=Workload(preset="chat"))
    assert changed_paths(one, two) == ("model.config.num_experts",)


@given(scenarios(), scenarios())
def test_no_row_exactly_when_the_hash_is_equal(one: Scenario, two: Scenario) -> None:
    assert differing_fields((one, one)) == ()
    rows = differing_fields((one, two))
    assert rows or flat(one) == flat(two)
    if one.content_hash() == two.content_hash():
        assert rows == ()
    assert tuple(row.path for row in rows) == tuple(row.path for row in differing_fields((two, one)))
    for row in rows:
        assert row.label


@given(st.lists(st.none() | st.floats(0, 1e12), min_size=1, max_size=4))
def test_a_missing_figure_stays_missing(values: list[float | None]) -> None:
    heads = [Headline(fits=value is not None, tpot_s=value) for value in values]
    rows = {row.name: row for row in figures(heads)}
    assert set(rows) == ({"tpot_s"} if any(value is not None for value in values) else set())
    for row in rows.values():
        assert row.values == tuple(values)
        for value, ratio in zip(row.values, row.ratios, strict=True):
            known = value is not None and bool(row.values[0])
            assert (ratio is not None) == known
            if known:
                assert ratio == value / row.values[0]  # type: ignore[operator]


def test_figures_carry_ranges_units_and_which_way_is_better() -> None:
    heads = (
        Headline(fits=True, tpot_s=0.02, tokens_per_s_user=50.0, intervals={"tpot_s": (0.01, 0.03)}),
        Headline(fits=True, tpot_s=0.01, tokens_per_s_user=100.0),
        None,
    )
    tpot, user = difference((Scenario(), Scenario(), Scenario()), heads).figures
    assert (tpot.ratios, tpot.intervals, tpot.unit) == ((1.0, 0.5, None), ((0.01, 0.03), None, None), "s")
    assert (tpot.more_is_better, user.more_is_better, user.differs) == (False, True, True)
