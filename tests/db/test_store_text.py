"""Names and notes are data: cleaned, bounded, never markup."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db import InputError, Store
from db.text import clean_name, clean_note, fold, search_terms
from planner.scenario import ModelChoice, Scenario

NAMES = ("<b>x</b>", "'; DROP TABLE scenarios; --", "%_\\", "日本語 🚀", "שלום \u200f", "x" * 200, "NULL", "{{ a }}")


def test_any_text_is_kept_as_it_is(store: Store) -> None:
    for name in NAMES:
        saved = store.save(Scenario(), name, name)
        read = store.get(saved.id)
        assert read is not None
        assert (read.name, read.note) == (name.strip(), name.strip())
        assert [row.id for row in store.list(name)] == [saved.id]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "is empty"),
        (" \n\t ", "is empty"),
        ("\u200b\u200f\u00a0", "is empty"),
        ("x" * 201, "201 characters; up to 200"),
        ("a\x00b", r"U\+0000 at position 2"),
        ("a\x1b[31m", r"U\+001B"),
        ("a\ud800", r"U\+D800"),
        (None, "must be text"),
        (7, "must be text"),
    ],
)
def test_a_bad_name_is_refused_before_anything_is_written(store: Store, name: object, says: str) -> None:
    with pytest.raises(InputError, match=says):
        store.save(Scenario(), name)  # type: ignore[arg-type]
    saved = store.save(Scenario(), "good")
    if name is not None:  # which means "leave it"
        with pytest.raises(InputError, match=says):
            store.update(saved.id, name=name, expected_version=1)  # type: ignore[arg-type]
    assert store.list() == [saved.summary]


@pytest.mark.parametrize(
    ("note", "says"),
    [("x" * 10_001, "10,001 characters; up to 10,000"), ("a\n\x07", r"U\+0007 at position 3"), ("\ud800", r"U\+D800")],
)
def test_a_bad_note_is_refused(store: Store, note: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        store.save(Scenario(), "name", note)
    assert store.count() == 0


def test_a_note_of_ten_thousand_characters_fits(store: Store) -> None:
    note = "ß\n" * 4999 + "ßx"
    assert store.save(Scenario(), "name", note).note == note


def test_a_model_name_that_no_column_holds_is_still_saved(store: Store) -> None:
    asked = Scenario(model=ModelChoice(id="my\x00model", config={"a": 1}))
    saved = store.save(asked, "pasted")
    assert saved.scenario == asked
    assert store.list()[0].model_id == "my\ufffdmodel"


@pytest.mark.parametrize("config", [{"a": "x" * 5_000_000}, {"a": 10**5000}])
def test_a_scenario_that_no_store_should_hold_is_refused(store: Store, config: dict[str, object]) -> None:
    with pytest.raises(InputError, match="The scenario"):
        store.save(Scenario(model=ModelChoice(id="m", config=config)), "huge")


def test_a_config_nested_too_deep_is_refused(store: Store) -> None:
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(InputError, match="cannot be stored"):
        store.save(Scenario(model=ModelChoice(id="m", config=deep)), "deep")


@given(st.text(max_size=60))
def test_cleaning_and_folding_settle(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert all(term in fold(text) for term in search_terms(text))
    for clean in (clean_name, clean_note):
        try:
            once = clean(text)
        except InputError:
            continue
        assert clean(once) == once
