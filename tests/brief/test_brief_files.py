"""Every file of a brief, opened with the library that reads it; hostile names in each."""

from __future__ import annotations

import base64
import io
import json
import os
import stat
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import openpyxl
import pandas as pd
import pypdf
import pytest

from planner.brief import Brief, export
from planner.brief import pdf as pdf_module
from planner.brief.html import body, html
from planner.brief.turns import PENDING
from planner.errors import PlanError
from planner.words.names import HEADLINE
from tests.brief import brief_cases as cases
from tests.browser import chromium


class Reader(HTMLParser):
    """Tags, what they point to, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def read(brief: Brief) -> Reader:
    reader = Reader()
    reader.feed(html(brief))
    return reader


@pytest.mark.parametrize("make", [cases.hostile, cases.rented, cases.unfit])
def test_html_is_one_file_without_script_or_request(make) -> None:
    brief = make()
    found = read(brief)
    assert not {"script", "img", "iframe", "link", "object", "embed", "base", "form"} & set(found.tags)
    pointing = [(n, v) for n, v in found.attributes if n in ("src", "href", "srcset", "data", "action", "xlink:href")]
    assert pointing == ([("href", cases.LINK)] if brief.link else [])
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    text = html(brief)
    assert "url(" not in text and "@import" not in text
    assert found.tags.count("h1") == 1
    assert brief.title in found.text and brief.decision in found.text and brief.command in found.text
    for row in (*brief.assumptions, *brief.inputs):
        assert row.path in found.text or row.label.lower() in found.text.lower()
    for target in brief.targets:
        assert target.sentence in found.text


def test_chart_is_an_image_of_its_own_where_a_page_takes_no_svg() -> None:
    inks = dict.fromkeys(("ink", "muted", "line", "ground", "accent", "mark", "meets"), "#123456")
    reader = Reader()
    reader.feed(body(cases.hostile(), inks))
    assert "svg" not in reader.tags and reader.tags.count("img") == 1
    source = dict(reader.attributes)["src"]
    drawn = ElementTree.fromstring(base64.b64decode(source.partition("base64,")[2]))
    assert sum(one.tag.endswith("circle") for one in drawn.iter()) == len(cases.hostile().frontier.points)


def test_hostile_link_is_no_link() -> None:
    found = read(cases.hostile().model_copy(update={"link": "javascript:alert(1)"}))
    assert "href" not in dict(found.attributes)
    assert "javascript:alert(1)" in found.text


def test_pdf_has_the_decision_on_its_first_page() -> None:
    brief = cases.hostile()
    pages = [" ".join(p.extract_text().split()) for p in pypdf.PdfReader(io.BytesIO(export(brief, "pdf"))).pages]
    assert "What would change the decision" in pages[0] and "What the answer hangs on most" in pages[0]
    assert "Reproduce" in pages[0] and brief.scenario_hash[:12] in pages[0]
    assert pages[1].startswith("What this rests on")
    assert "<script>alert(1)</script>" in pages[0]
    assert "economics.pue" in " ".join(pages[1:])


def test_pdf_without_a_browser_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("TIERLINE_CHROMIUM", raising=False)
    monkeypatch.setattr(pdf_module, "PLACES", ())
    with pytest.raises(PlanError, match=r"apt install chromium.*HTML file prints the same"):
        export(cases.rented(), "pdf")
    assert export(cases.rented(), "html").startswith(b"<!doctype html>")


@pytest.mark.parametrize(("script", "said"), [("exit 3", "printed nothing"), ("exec sleep 30", "within 1 s")])
def test_pdf_of_a_broken_browser_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, said: str
) -> None:
    fake = tmp_path / "chromium"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("TIERLINE_CHROMIUM", str(fake))
    with pytest.raises(PlanError, match=said):
        pdf_module.printed("<p>x</p>", timeout_s=1)


def test_sandbox_is_left_out_for_root_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    fake = tmp_path / "chromium"
    fake.write_text(f'#!/bin/sh\necho "$@" > {seen}\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("TIERLINE_CHROMIUM", str(fake))
    for user in (0, 1000):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        with pytest.raises(PlanError):
            pdf_module.printed("<p>x</p>")
        assert ("--no-sandbox" in seen.read_text()) is (user == 0)


def test_workbook_holds_all_tables_and_no_formula_from_text() -> None:
    brief = cases.hostile()
    book = openpyxl.load_workbook(io.BytesIO(export(brief, "xlsx")))
    assert book.sheetnames == ["Inputs", "Results", "Economics", "Options", "Option inputs", "Frontier", "Assumptions"]
    cells = {row[0].value: row[2].value for row in book["Inputs"].iter_rows(min_row=2)}
    assert cases.HOSTILE in cells["title"] and cells["author"] == cases.AUTHOR
    assert cells["workload.batch"] == brief.scenario.workload.batch
    assert cells["command"] == brief.command
    for name in set(book.sheetnames) - {"Economics"}:
        assert all(cell.data_type != "f" and cell.hyperlink is None for row in book[name].iter_rows() for cell in row)
    results = {row[0].value: row[2].value for row in book["Results"].iter_rows(min_row=2)}
    for key in HEADLINE:
        assert results[key] == pytest.approx(getattr(brief.headline, key), rel=1e-14)
    assert len(list(book["Assumptions"].iter_rows(min_row=2))) == len(brief.assumptions)


@pytest.mark.parametrize("make", [cases.hostile, cases.rented, cases.unfit])
def test_csv_holds_figures_and_all_inputs(make) -> None:
    brief = make()
    table = pd.read_csv(io.BytesIO(export(brief, "csv")), dtype=str, keep_default_na=False)
    assert list(table.columns) == ["table", "row", "column", "value"]
    wide = table[table["table"] == "Inputs"].pivot(index="row", columns="column", values="value")
    assert {row.path for row in brief.inputs} <= set(wide["path"])
    assert not table["value"].str.match(r"^[=+@\t]").any()
    figures = table[table["table"] == "Results"].pivot(index="row", columns="column", values="value").set_index("key")
    if brief.headline.tpot_s is not None:
        assert float(figures.loc["tpot_s", "value"]) == brief.headline.tpot_s
    whole = {"Options", "Frontier", "Assumptions"} if brief.headline.tpot_s is not None else set()
    assert {"Inputs", "Results", *whole} <= set(table["table"])


def test_a_copy_without_flip_points_says_so_in_every_form() -> None:
    early, whole = cases.rented(), cases.rented().model_copy(update={"turns_complete": True})
    assert not early.turns_complete
    for brief, there in ((early, True), (whole, False)):
        assert (PENDING in read(brief).text) is there
        assert (PENDING in export(brief, "csv").decode()) is there
        book = openpyxl.load_workbook(io.BytesIO(export(brief, "xlsx")))
        assert (PENDING in [row[2].value for row in book["Results"].iter_rows()]) is there
        assert all(turn in read(brief).text for turn in brief.turns)


def test_json_is_the_record() -> None:
    brief = cases.hostile()
    assert Brief.model_validate(json.loads(export(brief, "json"))) == brief
    with pytest.raises(PlanError, match="it takes html, pdf, xlsx, csv, json"):
        export(brief, "docx")


def test_the_tests_print_with_a_real_browser() -> None:
    assert chromium.find() is not None, chromium.NONE_FOUND
