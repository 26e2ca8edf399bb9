"""Save, share, open, update, duplicate, delete with undo; links that work, are damaged or lead nowhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from db import open_store
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from tests.ui.conftest import html, invented, markdown
from ui import address, engine

Open = Callable[..., AppTest]
HOSTILE = "<img src=x onerror=alert(1)> **b** $a$ and $b$ [l](http://h) :material/home: `c`"


def save(at: AppTest, name: str, note: str = "") -> AppTest:
    at.button(key="save").click().run()
    at.text_input(key="save-name").set_value(name)
    at.text_area(key="save-note").set_value(note)
    at.run()
    at.button(key="save-new").click().run()
    return at


def test_whole_scenario_travels_in_the_address(app: Open) -> None:
    scenario = Scenario(workload=Workload(batch=77, prompt_tokens=333), policy=PolicyChoice(weight_bits=4.0))
    at = app(s=address.encode(scenario))
    assert at.session_state["scenario"] == scenario
    assert at.query_params["s"] == address.encode(scenario)


@pytest.mark.parametrize("damage", ["", "x", "!!!", "AaBMDx542l2N", "A" * 500])
def test_damaged_address_is_one_sentence_and_the_default_stays(app: Open, damage: str) -> None:
    at = app(s=damage)
    assert not at.exception
    assert at.session_state["scenario"] == Scenario()
    assert len(at.warning) == 1
    assert "address" in at.warning[0].value
    assert at.title[0].value.startswith(":material/check_circle: Fits")


@pytest.mark.parametrize("token", ["nothing", "", "A" * 30, "' OR 1=1 --"])
def test_link_to_nothing_is_one_sentence(app: Open, token: str) -> None:
    at = app(scenario=token)
    assert not at.exception
    assert len(at.warning) == 1
    assert at.session_state["scenario"] == Scenario()


def test_saved_scenario_opens_by_its_address_in_another_session(app: Open) -> None:
    scenario = Scenario(workload=Workload(batch=48), policy=PolicyChoice(id="trimoe"))
    at = save(app(s=address.encode(scenario)), "For the board", "see 14 May")
    assert not at.exception
    named = at.query_params["saved"]
    assert "s" not in at.query_params
    other = app(saved=named)
    assert other.session_state["scenario"] == scenario
    assert other.title[0].value == at.title[0].value
    assert other.query_params["saved"] == named


def test_edits_of_a_saved_scenario_travel_with_its_link_and_update_it(app: Open) -> None:
    at = save(app(), "first")
    named = at.query_params["saved"]
    at.text_input(key="in.workload.batch").set_value("9").run()
    assert at.query_params["saved"] == f"{named}.1"  # the version that the edits started from
    assert address.decode(at.query_params["s"]).workload.batch == 9
    other = app(saved=f"{named}.1", s=at.query_params["s"])
    assert other.session_state["scenario"].workload.batch == 9
    at.button(key="save").click().run()
    at.button(key="save-update").click().run()
    assert "s" not in at.query_params
    assert app(saved=named).session_state["scenario"].workload.batch == 9


def test_plan_that_does_not_fit_is_saved_with_its_reasons(app: Open) -> None:
    save(app(s=address.encode(Scenario(policy=PolicyChoice(id="context-aware")))), "too big")
    (row,) = open_store().list()
    assert row.headline is not None
    assert not row.headline.fits
    assert row.headline.reasons


def test_hostile_name_and_note_show_literally(app: Open, shelf: AppTest) -> None:
    at = save(app(), HOSTILE, HOSTILE)
    assert not at.exception
    at.button(key="share").click().run()
    shelf.run()
    assert not shelf.exception
    for page in (at, shelf):
        assert "<img" not in html(page)
        for markup in ("**b**", "$a$", "](http", ":material/home:", "<img "):
            assert markup not in markdown(page).replace("\\<img ", "")
    assert "&lt;img src=x onerror=alert(1)&gt; **b** $a$ and $b$" in html(shelf)


def test_store_that_fails_says_so_and_keeps_what_was_typed(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    at = app()
    at.button(key="save").click().run()
    at.text_input(key="save-name").set_value("   ").run()
    at.button(key="save-new").click().run()
    assert not at.exception
    assert at.error
    assert at.text_input(key="save-name").value == "   "
    assert open_store().list() == []


def test_result_of_an_older_engine_is_shown_and_can_be_recomputed(app: Open) -> None:
    scenario = Scenario(workload=Workload(batch=11))
    old = invented(scenario).model_copy(update={"engine_version": "0.0.1"})
    old = old.model_copy(update={"headline": old.headline.model_copy(update={"tokens_per_s_system": 123.0})})
    saved = open_store().save(scenario, "old one", "", old)
    at = app(saved=saved.id)
    assert not at.exception
    assert "123\u00a0output" in at.title[0].value
    assert any("0\\.0\\.1" in element.value for element in at.info)
    at.button(key="recompute").click().run()
    assert "123\u00a0output" not in at.title[0].value
    assert not at.info


def test_stored_result_of_this_engine_is_used_as_it_is(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Scenario(workload=Workload(batch=12))
    stored = invented(scenario)
    saved = open_store().save(scenario, "mine", "", stored)

    def never(scenario: Scenario, complete: bool) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr(engine, "compute", never)
    at = app(saved=saved.id)
    assert not at.error
    assert at.title[0].value.startswith(":material/check_circle: Fits")


def test_what_is_too_large_for_an_address_says_so_and_offers_save(app: Open) -> None:
    config = {f"key_{i}_{i * 7919}": i * 104729 for i in range(3000)}
    scenario = Scenario(model=ModelChoice(id="big", config=config), system=SystemChoice())
    saved = open_store().save(scenario, "big")
    at = app(saved=saved.id)
    at.text_input(key="in.workload.batch").set_value("5").run()
    assert not at.exception
    assert any("too large" in element.value for element in at.info)
    assert "s" not in at.query_params


def test_share_shows_both_kinds_of_link(app: Open) -> None:
    at = save(app(), "shared")
    at.button(key="share").click().run()
    at.button(key="link-latest").click().run()
    links = [element.value for element in at.code]
    assert len(links) == 2
    assert "?scenario=" in links[0]
    assert "?s=" in links[1]
    assert address.decode(links[1].split("?s=")[1]) == Scenario()


def test_library_lists_searches_and_says_what_each_is(app: Open, shelf: AppTest) -> None:
    store = open_store()
    store.save(Scenario(), "alpha", "for Ann", invented(Scenario()))
    store.save(Scenario(policy=PolicyChoice(id="trimoe")), "beta")
    shelf.run()
    assert not shelf.exception
    page = html(shelf)
    assert "2 scenarios, last changed first" in page
    assert page.index("beta") < page.index("alpha")
    assert "mistralai/Mixtral-8x7B-v0.1" in page
    assert "per million output tokens" in page
    assert "No figures are stored yet" in page
    shelf.text_input(key="library-search").set_value("ann").run()
    assert "1 scenario found" in html(shelf)
    assert "beta" not in html(shelf)
    shelf.text_input(key="library-search").set_value("$nothing$").run()
    assert any("\\$nothing\\$" in element.value for element in shelf.info)


def test_archive_can_be_undone(app: Open, shelf: AppTest) -> None:
    saved = open_store().save(Scenario(), "to go")
    shelf.run()
    shelf.button(key=f"archive-{saved.id}").click().run()
    assert not shelf.exception
    assert "was archived" in html(shelf)
    assert open_store().get(saved.id) is None
    assert app(saved=saved.id).warning
    shelf.button(key="library-undo").click().run()
    assert open_store().get(saved.id) is not None
    assert "was archived" not in html(shelf)


def test_duplicate_and_open_from_the_library(app: Open, shelf: AppTest) -> None:
    saved = open_store().save(Scenario(workload=Workload(batch=21)), "one")
    shelf.run()
    shelf.button(key=f"copy-{saved.id}").click().run()
    assert {row.name for row in open_store().list()} == {"one", "one (copy)"}
    shelf.button(key=f"open-{saved.id}").click().run()
    assert not shelf.exception
    assert shelf.session_state["scenario"].workload.batch == 21
    assert shelf.query_params["saved"] == saved.id


def test_old_result_in_the_library_is_recomputed(shelf: AppTest) -> None:
    scenario = Scenario(workload=Workload(batch=31))
    old = invented(scenario).model_copy(update={"engine_version": "0.0.1"})
    saved = open_store().save(scenario, "old", "", old)
    shelf.run()
    assert "older engine" in html(shelf)
    shelf.button(key=f"recompute-{saved.id}").click().run()
    assert not shelf.exception
    assert "older engine" not in html(shelf)
    assert open_store().result_for(scenario, *engine.stamp()) is not None


def test_empty_library_says_how_to_fill_it(shelf: AppTest) -> None:
    shelf.run()
    assert "Nothing is saved yet" in shelf.info[0].value


def test_library_that_cannot_be_read_is_a_sentence(shelf: AppTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERLINE_DATA", "/proc/nowhere")
    shelf.run()
    assert not shelf.exception
    assert len(shelf.error) == 1
