"""The Claims page: all rows, a verdict at a time, choices and contradictions in tables of their own."""

from __future__ import annotations

import re

import pytest
from streamlit.testing.v1 import AppTest

from tests.ui.conftest import html, texts
from validation.published import VERDICTS, counts, snapshot
from validation.published.claims import claims, contradictions
from validation.published.table import summary

ROWS = snapshot().rows


@pytest.fixture
def page() -> AppTest:
    def script() -> None:
        from ui.app import main

        main("claims")

    at = AppTest.from_function(script, default_timeout=60).run()
    assert not at.exception
    return at


def table(at: AppTest, caption: str) -> str:
    """The table with this caption; empty where the page has none."""
    found = re.search(rf"<caption>{caption}</caption>.*?</table>", html(at), re.DOTALL)
    return found.group() if found else ""


def ids(text: str) -> list[str]:
    return re.findall(r"<span>([A-Z]\d\d) ", text)


def test_page_shows_every_row_with_what_decides_and_unfolds_the_rest(page: AppTest) -> None:
    shown = table(page, "Published claims")
    assert ids(shown) == [row.id for row in ROWS]
    assert shown.count("<details") == len(ROWS)
    assert summary(ROWS) in texts(page)
    for claim in claims():
        assert claim.short.split("'")[0] in shown, claim.id


@pytest.mark.parametrize("verdict", list(VERDICTS))
def test_a_verdict_shows_its_rows_and_no_others(page: AppTest, verdict: str) -> None:
    at = page.segmented_control(key="verdict").set_value(verdict).run()
    assert not at.exception
    wanted = [row.id for row in ROWS if row.verdict == verdict]
    assert len(wanted) == counts(ROWS)[verdict]
    assert ids(table(at, "Published claims")) == wanted
    assert VERDICTS[verdict] in texts(at)
    assert set(ids(table(at, "Claims under other choices"))) <= set(wanted)


def test_choices_are_a_table_with_every_alternative(page: AppTest) -> None:
    shown = table(page, "Claims under other choices")
    alternatives = sum(len(row.alternatives) for row in ROWS)
    claimed = sum(bool(row.alternatives) for row in ROWS)
    assert shown.count('scope="row"') == alternatives + claimed


def test_equal_tokens_in_flight_stand_beside_the_published_ratio(page: AppTest) -> None:
    shown = table(page, "Equal tokens in flight")
    of = [row for row in ROWS if any("equal tokens" in a.setting for a in row.alternatives)]
    assert ids(shown) == [row.id for row in of]
    assert "2,048 for both" in shown
    assert "512 for both" in shown


def test_contradictions_are_shown_where_they_matter(page: AppTest) -> None:
    shown = table(page, "Contradictions")
    assert shown.count('scope="row"') == len(contradictions())
    assert html(page).count("Contradiction: ") == sum(len(row.contradictions) for row in ROWS)
