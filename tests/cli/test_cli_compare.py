"""``compare`` on the command line: the same record as the function, and one sentence for what is wrong."""

from __future__ import annotations

import json

import planner
from planner.compare import compare
from planner.compare.records import Comparison
from tests.compare.compare_cases import BASE, MANY


def test_same_figures_as_the_function(run, tmp_path):
    paths = []
    for name, scenario in (("now", BASE), ("then", MANY)):
        path = tmp_path / f"{name}.json"
        path.write_text(scenario.canonical_json(), encoding="utf-8")
        paths.append(str(path))
    answer = run("compare", *paths, "--json")
    assert answer.code == 0
    found = Comparison.model_validate(json.loads(answer.out))
    quick = compare([BASE, MANY], ["now", "then"], planned=lambda s: planner.plan(s, with_ranges=False))
    assert (found.pairs, found.differing) == (quick.pairs, quick.differing)
    assert [side.figures for side in found.sides] == [side.figures for side in quick.sides]
    assert found.sides[0].intervals.keys() >= {"tpot_s", "usd_per_month"}
    text = run("compare", *paths, "--metric", "tpot_s").out
    assert "From now to then" in text and "All together" in text and "Batch, sequences" in text


def test_refusals_are_one_sentence(run, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(BASE.canonical_json(), encoding="utf-8")
    for arguments, said in (
        (["compare"], "two to four"),
        (["compare", str(path)], "1 scenario files are given"),
        (["compare", *[str(path)] * 5], "two to four"),
        (["compare", str(path), str(path), "--metric", "tpot"], "--metric is 'tpot'"),
        (["compare", str(path), str(tmp_path / "b.json")], "There is no scenario file"),
    ):
        answer = run(*arguments)
        assert answer.code == 2
        assert said in answer.err
        assert answer.out == ""
