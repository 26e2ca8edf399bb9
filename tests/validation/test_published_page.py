"""The stored run, its page and the command."""

from __future__ import annotations

import dataclasses
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from planner import ENGINE_VERSION
from planner.cli.main import main
from validation.published import counts, snapshot
from validation.published.claims import claims
from validation.published.compact import compact_json
from validation.published.table import markdown, number, percent, published, readme_with

PAGE = Path(__file__).parents[2] / "docs" / "published_claims.md"
AGAIN = "write it again: python -m validation.published"


def flat(value):
    return value if isinstance(value, tuple) else (value,)


def test_the_page_is_that_of_the_stored_run():
    found = snapshot()
    assert found.engine_version == ENGINE_VERSION, AGAIN
    assert PAGE.read_text(encoding="utf-8") == markdown(found.rows, ENGINE_VERSION), AGAIN


def test_the_stored_run_is_what_the_engine_says_now(claimed):
    stored = snapshot().rows
    assert [row.id for row in stored] == list(claimed), AGAIN
    for row in stored:
        now = claimed[row.id]
        assert row.verdict == now.verdict, AGAIN
        assert (row.text, row.setting, row.arithmetic, row.contradictions, row.published) == (
            now.text, now.setting, now.arithmetic, now.contradictions, now.published,
        ), AGAIN  # fmt: skip
        pairs = [(row, now), *zip(row.alternatives, now.alternatives, strict=True)]
        for old, new in pairs:
            assert old.setting == new.setting, AGAIN
            if new.predicted is not None:
                assert flat(old.predicted) == pytest.approx(flat(new.predicted), rel=0.01, abs=0.002), (row.id, AGAIN)


def test_the_page_shows_every_claim_and_constant():
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"\n### {row.id}: " in text and f"| {row.id} |" in text for row in snapshot().rows)
    assert "| eta |" in text and "| klotski_batches |" in text and "recorded, K = 2" in text


def test_the_readme_says_what_the_stored_run_says():
    text = (PAGE.parents[1] / "README.md").read_text(encoding="utf-8")
    assert text == readme_with(text, snapshot().rows), AGAIN
    found = counts(snapshot().rows)
    assert f"Of {len(snapshot().rows)} published figures" in text and "(docs/published_claims.md)" in text
    assert f"reproduces {found['reproduced']} within" in " ".join(text.split())


def test_every_claim_says_what_decides_in_one_short_sentence():
    for each in claims():
        assert 10 < len(each.short) <= 110 and each.short.endswith(".") and ". " not in each.short, each.id


def test_figures_as_text():
    assert number((1.0, 2.5)) == "1.00 to 2.50" and number(None) == "-" and number(1234567.0) == "1,230,000"
    assert published(15.321) == "15.321" and published((7.6, 8.7)) == "7.6 to 8.7"
    assert percent(-0.0123) == "-1.2 %" and percent(99.0) == "100 times" and percent(None) == "-"


def test_json_on_few_lines_is_the_same_json():
    value = {"a": [1, 2, {"b": "x" * 130}], "c": [], "d": {"e": None}}
    text = compact_json(value)
    assert json.loads(text) == value and '"d": {"e": null}' in text


def command(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["validate", *arguments])
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr("validation.published.rows", lambda: snapshot().rows)


def test_command_prints_rows_counts_and_version(at_once):
    code, out, err = command("published", "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert answer["engine_version"] == ENGINE_VERSION
    assert answer["counts"] == counts(snapshot().rows) and sum(answer["counts"].values()) == 62
    by_id = {row["id"]: row for row in answer["rows"]}
    assert by_id["C06"]["published"] == [7.6, 8.7] and len(by_id["C06"]["predicted"]) == 2
    assert isinstance(by_id["C01"]["predicted"], float) and isinstance(by_id["C01"]["error"], float)
    wanted = {"id", "published", "predicted", "error", "verdict", "setting", "alternatives"}
    assert all(wanted <= set(row) for row in answer["rows"])
    assert {"setting", "predicted", "error"} <= set(by_id["C01"]["alternatives"][0])
    assert answer["rows"] == json.loads(json.dumps([dataclasses.asdict(row) for row in snapshot().rows]))


def test_command_prints_a_table(at_once):
    code, out, err = command("published")
    assert (code, err) == (0, "")
    assert out.startswith("62 claims: ") and "\nT34 " in out and "not physical" in out


@pytest.mark.parametrize(
    ("given", "said"),
    [((), "nothing is given"), (("nowhere.csv",), "cannot be read"), (("published", "x"), "one argument too many")],
)
def test_command_refuses_with_one_sentence(given, said):
    code, out, err = command(*given)
    assert (code, out) == (2, "") and said in err and err.count("\n") == 1
