"""Presets are data: every one is a legal workload with a source."""

from __future__ import annotations

import pytest

from planner.presets import preset, presets
from planner.scenario import Workload


def test_the_named_workloads_are_there():
    assert {"chat", "rag", "code-completion", "agentic", "offline-batch"} <= {entry.id for entry in presets()}
    assert len({entry.id for entry in presets()}) == len(presets())


@pytest.mark.parametrize("entry", presets(), ids=lambda entry: entry.id)
def test_a_preset_is_a_legal_workload_and_says_where_it_comes_from(entry):
    workload = entry.apply()
    assert workload.preset == entry.id
    assert (workload.slo_ttft_s, workload.slo_tpot_s) == (entry.slo_ttft_s, entry.slo_tpot_s)
    assert set(entry.workload) >= {"batch", "prompt_tokens", "output_tokens", "prefix_hit_share"}
    assert entry.sentence.endswith(".")
    assert entry.source


def test_applying_keeps_what_a_preset_does_not_state():
    kept = preset("rag").apply(Workload(requests_per_s=5, spare_systems=2, batch=7))
    assert (kept.requests_per_s, kept.spare_systems) == (5, 2)
    assert kept.batch == preset("rag").workload["batch"]


def test_offline_work_has_no_target_even_after_chat():
    assert preset("offline-batch").apply(preset("chat").apply()).slo_ttft_s is None


def test_an_unknown_preset_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="'chat'"):
        preset("chta")


def test_a_preset_cannot_be_changed_by_its_reader():
    with pytest.raises(TypeError):
        preset("chat").workload["batch"] = 1
