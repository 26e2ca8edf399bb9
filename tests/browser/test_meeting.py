"""What happens in a meeting: two variants compared, their reasons add up, the brief written and its files opened."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pandas as pd
import pypdf

from planner.brief.options import quick
from planner.compare import compare
from planner.fields import set_paths
from planner.words import comparison as words
from tests.browser.driver import Visit
from tests.compare.compare_cases import BASE
from ui import address

PLAIN = {"\u202f": " ", "\u00a0": " "}


def plain(text: str) -> str:
    return " ".join(text.translate(str.maketrans(PLAIN)).split())


def downloaded(page: Visit, form: str, button: str = "") -> bytes:
    with page.page.expect_download() as waiting:
        page.key(f"brief-{button or form}").get_by_role("button").click()
    assert waiting.value.suggested_filename == f"tierline-brief.{form}"
    return Path(waiting.value.path()).read_bytes()


def test_compare_two_then_write_the_brief(visit: Callable[..., Visit]) -> None:
    other = set_paths(BASE, {"workload.batch": 8, "economics.pue": 1.6, "model.kv_format": "fp8"})
    page = visit("/?s=" + address.encode(BASE))
    page.save("First variant")
    page.goto("/?s=" + address.encode(other))
    page.page.get_by_role("link", name="Compare").click()
    page.settle()
    page.key("compare-sides").locator("input").fill("First variant")
    page.page.get_by_role("option", name="First variant").click()
    page.page.keyboard.press("Escape")
    page.page.locator(".st-key-reasons").wait_for()
    page.settle()
    found = compare([other, BASE], ["Open now", "First variant"], planned=quick)  # ranges change no figure
    delta = next(d for d in found.pairs[0].deltas if d.metric == "tokens_per_s_end_to_end")
    assert delta.delta == sum(part.value for part in delta.parts)
    text = plain(page.text)
    assert plain(words.reasons_sentence(found, found.pairs[0], delta)) in text
    for name, change, share in words.delta_rows(delta):
        assert plain(f"{name} {change} {share}") in text
    assert "3 inputs differ" in text

    page.key("compare-brief").get_by_role("button").click()
    page.page.locator("article.brief").wait_for()
    page.settle()
    decision = plain(page.page.locator("h1").inner_text())
    assert "OLMoE" in decision
    assert "What the options differ in" in page.text
    drawn = page.page.locator("article.brief .b-chart")
    assert drawn.evaluate("image => image.complete && image.naturalWidth > 0")
    html = downloaded(page, "html").decode()
    assert "<script" not in html and plain(decision)[:40] in plain(html)
    page.key("brief-pdf").get_by_role("button").click()
    first = pypdf.PdfReader(io.BytesIO(downloaded(page, "pdf", "pdf-save"))).pages[0].extract_text()
    assert decision[:40] in plain(first)
    book = openpyxl.load_workbook(io.BytesIO(downloaded(page, "xlsx")))
    inputs = {row[0].value: row[2].value for row in book["Inputs"].iter_rows(min_row=2)}
    assert (inputs["workload.batch"], inputs["economics.pue"]) == (8, 1.6)
    table = pd.read_csv(io.BytesIO(downloaded(page, "csv")), dtype=str, keep_default_na=False)
    assert (table["value"] == "workload.batch").any()
