"""What the page says of the selector: widths where experts are outside HBM, and that there are none to choose."""

from __future__ import annotations

import pytest

from planner import plan
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from ui.sections.reports import _rows


@pytest.mark.parametrize(
    ("model", "bits", "words"),
    [
        ("openai/gpt-oss-20b", None, "Every expert is in HBM, so there are no widths to select."),
        ("mistralai/Mixtral-8x22B-v0.1", None, "experts 4, 3, 2 and 1 bit"),
        ("mistralai/Mixtral-8x22B-v0.1", 8.0, None),
    ],
)
def test_bit_widths_are_told_where_there_are_any(model: str, bits: float | None, words: str | None) -> None:
    result = plan(
        Scenario(
            model=ModelChoice(id=model),
            system=SystemChoice(id="h100-cxl-ndp"),
            workload=Workload(batch=1, prompt_tokens=64, output_tokens=16),
            policy=PolicyChoice(id="context-aware", weight_bits=bits),
        ),
        with_ranges=False,
        with_marginals=False,
    )
    notes = [row.small for row in _rows(result) if row.name.startswith("Bit widths")]
    assert (words is None and not notes) or (words is not None and words in notes[0])
