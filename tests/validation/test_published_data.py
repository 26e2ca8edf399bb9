"""The claims as data: complete, and every word of them known to the code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from validation.published.calibrations import calibration, identifiers
from validation.published.claims import claims, contradictions
from validation.published.figures import FIGURES
from validation.published.records import VERDICTS
from validation.published.scenarios import table

IDS = (
    *(f"C{i:02d}" for i in range(1, 23)),
    *(f"T{i:02d}" for i in range(1, 36)),
    *(f"M{i:02d}" for i in range(1, 5)),
    "H01",
)


def leaves(expression: Any) -> Iterator[dict[str, Any]]:
    if isinstance(expression, dict):
        if "of" in expression:
            yield expression
        for value in expression.values():
            yield from leaves(value)
    elif isinstance(expression, list):
        for item in expression:
            yield from leaves(item)


def test_all_claims_are_there_in_order():
    assert tuple(c.id for c in claims()) == IDS


@pytest.mark.parametrize("claim", claims(), ids=lambda c: c.id)
def test_a_claim_is_complete(claim):
    assert claim.text and claim.unit and claim.source and claim.certainty
    assert claim.verdict is None or claim.verdict in VERDICTS
    if claim.verdict == "not_modelled":
        assert claim.main.expression is None and claim.arithmetic
    else:
        assert claim.main.expression is not None and claim.main.setting
    if claim.published is None:
        assert claim.id == "T34"
    if isinstance(claim.published, tuple):
        assert claim.published[0] < claim.published[1]


def test_every_expression_names_figures_and_scenarios_that_exist():
    known, seen = table(), set()
    for claim in claims():
        for prediction in (claim.main, *claim.alternatives):
            assert prediction.setting or prediction.expression is None
            for leaf in leaves(prediction.expression):
                name = leaf["of"] if isinstance(leaf["of"], str) else leaf["of"]["plan"]
                assert name.format("glm") in known, (claim.id, name)
                if "figure" in leaf:
                    assert leaf["figure"] in FIGURES
                    seen.add(leaf["figure"])
                else:
                    assert "simulated" in leaf or "ablated" in leaf
    assert seen | {"resident_hits", "layer_ms"} >= set(FIGURES), "a figure that nothing uses"


def test_the_contradictions_are_attached():
    assert len(contradictions()) == 13
    for contradiction in contradictions():
        assert contradiction.claims and set(contradiction.claims) <= set(IDS)


def test_calibrations_name_what_they_were_fitted_on():
    assert identifiers() == ("P1", "R1")
    for name in identifiers():
        found = calibration(name)
        assert found.selected and found.sentence
        assert found.fitted_on() <= {*IDS, *found.data}
    assert calibration("P1").fitted_on() == {"C02", "C03", "residency"}


def test_tokens_in_flight_stand_beside_every_ratio_to_klotski():
    for claim in claims():
        if claim.id in {"T03", "T04", "T05"}:
            assert sum("equal tokens in flight" in a.setting for a in claim.alternatives) == 2
            assert any("blocks the whole DIMM" in a.setting for a in claim.alternatives)
