"""Results are keyed by scenario, engine and catalog."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from db import InputError, Store
from planner.scenario import Scenario, Workload
from tests.db.builders import result_of

ASKED = Scenario(workload=Workload(batch=7))


def test_a_result_comes_back_exactly(store: Store) -> None:
    result = result_of(ASKED, layers=58, experts=256)
    store.put_result(result)
    assert store.result_for(ASKED, "1.0", "digest-a") == result


def test_the_key_is_scenario_engine_and_catalog(store: Store) -> None:
    store.put_result(result_of(ASKED))
    assert store.result_for(ASKED, "1.1", "digest-a") is None
    assert store.result_for(ASKED, "1.0", "digest-b") is None
    assert store.result_for(Scenario(), "1.0", "digest-a") is None


def test_an_older_result_is_found_with_what_computed_it(store: Store) -> None:
    assert store.latest_result(ASKED) is None
    store.put_result(result_of(ASKED, 0.03))
    store.put_result(result_of(ASKED, 0.02, engine_version="1.1", catalog_digest="digest-b"))
    found = store.latest_result(ASKED)
    assert found is not None
    result, engine_version, catalog_digest = found
    assert (result.headline.tpot_s, engine_version, catalog_digest) == (0.02, "1.1", "digest-b")


def test_a_second_computation_replaces_the_first(store: Store) -> None:
    store.put_result(result_of(ASKED, 0.03))
    store.put_result(result_of(ASKED, 0.02))
    found = store.result_for(ASKED, "1.0", "digest-a")
    assert found is not None
    assert found.headline.tpot_s == 0.02


def test_a_plan_that_does_not_fit_is_saved_like_any_other(store: Store) -> None:
    result = result_of(ASKED, tpot_s=None)
    saved = store.save(ASKED, "too small", result=result)
    read = store.result_for(saved.scenario, "1.0", "digest-a")
    assert read == result
    (row,) = store.list()
    assert row.headline is not None
    assert not row.headline.fits
    assert row.headline.reasons == result.headline.reasons
    assert row.headline.tpot_s is None


def test_the_list_shows_the_newest_headline_and_who_computed_it(store: Store) -> None:
    saved = store.save(ASKED, "mine", result=result_of(ASKED, 0.03))
    store.update(saved.id, result=result_of(ASKED, 0.02, engine_version="1.1"), expected_version=1)
    store.save(Scenario(), "never computed")
    rows = {row.name: row for row in store.list()}
    assert rows["mine"].headline is not None
    assert rows["mine"].headline.tpot_s == 0.02
    assert (rows["mine"].headline_engine_version, rows["mine"].headline_catalog_digest) == ("1.1", "digest-a")
    assert rows["never computed"].headline is None


def test_the_preset_is_for_display_and_is_kept_apart(store: Store) -> None:
    chat = ASKED.model_copy(update={"workload": ASKED.workload.model_copy(update={"preset": "chat"})})
    assert chat.content_hash() == ASKED.content_hash()
    store.put_result(result_of(ASKED))
    found = store.result_for(chat, "1.0", "digest-a")
    assert found is not None
    assert found.scenario == chat


def test_a_result_of_another_scenario_is_refused(store: Store) -> None:
    wrong = result_of(Scenario())
    with pytest.raises(InputError, match="belongs to another scenario"):
        store.save(ASKED, "mine", result=wrong)
    assert store.list() == []
    saved = store.save(ASKED, "mine")
    with pytest.raises(InputError, match="belongs to another scenario"):
        store.update(saved.id, result=wrong, expected_version=1)
    with pytest.raises(InputError, match="belongs to another scenario"):
        store.put_result(wrong.model_copy(update={"scenario": ASKED}))
    assert store.get(saved.id) == saved


@pytest.mark.parametrize("body", [b"", b"not zlib", b"x\x9c\x03\x00\x00\x00\x00\x01", b"x\x9c\xabV*"])
def test_a_damaged_or_foreign_result_is_as_if_it_were_not_there(store: Store, body: bytes) -> None:
    saved = store.save(ASKED, "mine", result=result_of(ASKED, 0.03))
    store.put_result(result_of(ASKED, 0.02, engine_version="1.1"))
    with store.engine.begin() as connection:
        update = text("UPDATE results SET body = :body, headline = 'no json' WHERE engine_version = '1.1'")
        connection.execute(update, {"body": body})
    assert store.result_for(ASKED, "1.1", "digest-a") is None
    found = store.latest_result(saved)
    assert found is not None
    assert found[1] == "1.0"
    assert store.list()[0].headline is None
    store.put_result(result_of(ASKED, 0.01, engine_version="1.1"))
    again = store.result_for(ASKED, "1.1", "digest-a")
    assert again is not None
    assert again.headline.tpot_s == 0.01


def test_a_saved_scenario_finds_results_under_the_hash_of_its_time(store: Store) -> None:
    """A later schema may add fields and so change the hash of the same question."""
    saved = store.save(ASKED, "mine", result=result_of(ASKED))
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE results SET scenario_hash = 'of old'"))
        connection.execute(text("UPDATE scenarios SET scenario_hash = 'of old'"))
        connection.execute(text("UPDATE versions SET scenario_hash = 'of old'"))
    read = store.get(saved.id)
    assert read is not None
    assert store.latest_result(read.scenario) is None
    assert store.latest_result(read) is not None
    assert store.list()[0].headline is not None
