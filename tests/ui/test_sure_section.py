"""How sure a plan is, on the page and in the report: where intervals come from, neighbours, what to measure next."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from planner.cli.report import report as written
from planner.result import AccuracyPart, AccuracyReport, Neighbour, NextMeasurement, Result
from planner.scenario import Scenario
from planner.words import sureness
from tests.ui import conftest, fixture_result
from tests.ui.conftest import html, texts
from ui import cards, engine

Open = Callable[..., AppTest]
TPOT = AccuracyPart(
    key="tpot_s", phase="decode", level="phase", rows=46, groups=11, median_error=0.21, measured=(0.02, 0.05),
    inputs=(0.03, 0.04), dominated_by="measured accuracy",
)  # fmt: skip
ENERGY = TPOT.model_copy(update={"key": "energy_j_per_output_token", "dominated_by": "GPU power limit"})
NEIGHBOURS = tuple(
    Neighbour(
        id=f"M00{n}", label=f"Some model on machine {n}, an engine, batch 1", distance=0.1 * n,
        measured_tokens_per_s=10.0, predicted_tokens_per_s=9.0, per="output tokens/s, request", phase="decode",
    )
    for n in (1, 2, 3)
)  # fmt: skip
MEASURED = AccuracyReport(
    regime="cpu_experts", in_validated_range=False, beyond=("batch 512 (measured: 1 to 37)",), parts=(TPOT, ENERGY),
    neighbours=NEIGHBOURS, sentence="80 % intervals. Decode of this kind was 21 % off in the median.",
    next_measurements=(
        NextMeasurement(what="link rate; per-layer cost", minutes=4.0, half_width_now=0.35, half_width_then=0.12),
    ),
)  # fmt: skip
NO_SILICON = AccuracyReport(
    regime=None, in_validated_range=False, sentence="No silicon measured, coverage unknown: inputs alone.",
    parts=(TPOT.model_copy(update={"level": None, "rows": 0, "groups": 0, "median_error": None, "measured": None,
                                   "dominated_by": "NDP bandwidth"}),),
)  # fmt: skip


ENDS = {"tpot_s": (0.02, 0.05), "energy_j_per_output_token": (0.5, 1.0)}


def _with(accuracy: AccuracyReport | None) -> Callable[[Scenario, bool], Result]:
    def planned(scenario: Scenario, complete: bool = True) -> Result:
        return _ranged(conftest.invented(scenario), accuracy)

    return planned


def _ranged(result: Result, accuracy: AccuracyReport | None) -> Result:
    headline = result.headline.model_copy(update={"intervals": ENDS})
    return result.model_copy(update={"accuracy": accuracy, "headline": headline})


def _result(accuracy: AccuracyReport | None) -> Result:
    return _ranged(fixture_result.small(), accuracy)


def test_plan_says_what_its_intervals_rest_on(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "compute", _with(MEASURED))
    at = app()
    assert not at.exception
    said = texts(at)
    assert MEASURED.sentence in said
    assert "46 decode runs on 11 machines of this kind, engines pooled; 21" in said
    assert "GPU power limit" in said
    assert "outside the validated range: batch 512 (measured: 1 to 37)" in said
    assert "3 measurements within this shape; the closest: Some model on machine 1" in said
    assert "from \u00b135\u202f% to about \u00b112\u202f%" in said
    assert "not a measured accuracy" not in said


def test_without_silicon_the_page_says_that_coverage_is_unknown(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "compute", _with(NO_SILICON))
    said = texts(app())
    assert "No silicon measured, coverage unknown" in said
    assert "NDP bandwidth most of all" in said
    assert "Range, coverage unknown" in said
    assert "80 % interval" not in html(app())


def test_a_stored_plan_without_accuracy_says_that_its_ranges_are_no_accuracy(
    app: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "compute", _with(None))
    at = app()
    assert "they are not a measured accuracy" in texts(at)
    assert "How sure is this" not in [element.value for element in at.subheader]


def test_report_names_interval_and_its_origin() -> None:
    text = written(_result(MEASURED))
    assert "80 % interval" in text
    assert "How sure is this" in text
    assert "Measure next: link rate; per-layer cost, 4 minutes" in " ".join(text.split())
    bare = written(_result(NO_SILICON))
    assert "range of the inputs" in bare
    assert "coverage unknown" in bare
    assert "range of the inputs" in written(_result(None))


def test_card_help_says_where_the_range_comes_from() -> None:
    shown = {card.name: card.help for card in cards.cards(_result(MEASURED))}
    assert "measured accuracy" in shown["Per token, TPOT"]
    assert "GPU power limit" in shown["Energy"]
    assert shown["First token, TTFT"] == cards.HELP["ttft"]


def test_sentences_count_and_compare() -> None:
    alone = MEASURED.model_copy(update={"neighbours": NEIGHBOURS[:1], "in_validated_range": True, "beyond": ()})
    assert sureness.neighbours_sentence(alone).startswith("1 measurement within this shape")
    assert "inside the validated range" in sureness.range_sentence(alone)
    assert sureness.error(NEIGHBOURS[0]) == pytest.approx(-0.1)
    none = MEASURED.model_copy(update={"neighbours": ()})
    assert sureness.neighbours_sentence(none) == "No measurement lies near this shape."
