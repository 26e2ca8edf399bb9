"""Save, list, search, open, duplicate, delete with undo."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from db import NotFoundError, Store, UnreadableError, open_store
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from tests.db.builders import result_of

ROOT = Path(__file__).resolve().parents[2]


def scenario(batch: int = 8, **parts: object) -> Scenario:
    return Scenario(workload=Workload(batch=batch), **parts)


def test_what_is_saved_comes_back_the_same(store: Store) -> None:
    config = {
        "nul": "a\x00b",
        "big": 10**40,
        "float": 1e-7,
        "list": [1, 2.0, None, True],
        "ü": "日本",
    }
    asked = Scenario(
        model=ModelChoice(id="my/model", config=config),
        system=SystemChoice(overrides={"gpu.power_limit_w": 0.1 + 0.2}),
        policy=PolicyChoice(options={"a": True, "b": 1, "c": 1.0, "d": "1"}),
    )
    before = datetime.now(UTC)
    saved = store.save(asked, "  First\n plan ", "two\r\nlines")
    read = store.get(saved.id)
    assert read == saved
    assert read is not None
    assert read.scenario == asked
    assert read.scenario.canonical_json() == asked.canonical_json()
    assert (read.name, read.note, read.version) == ("First plan", "two\nlines", 1)
    assert read.scenario_hash == asked.content_hash()
    assert read.created_at.utcoffset() == timedelta(0)
    assert before <= read.created_at == read.updated_at <= datetime.now(UTC)


def test_it_survives_a_restart(store_url: str) -> None:
    first = open_store(store_url)
    saved = first.save(scenario(), "kept")
    first.close()
    again = open_store(store_url)
    assert again.get(saved.id) == saved
    again.close()


def test_list_is_newest_first_and_pages(store: Store) -> None:
    ids = [store.save(scenario(batch=i + 1), f"n{i}").id for i in range(5)]
    assert [row.id for row in store.list()] == ids[::-1]
    store.update(ids[1], note="touched", expected_version=1)
    newest_first = [ids[1], ids[4], ids[3], ids[2], ids[0]]
    assert [row.id for row in store.list()] == newest_first
    assert [row.id for row in store.list(limit=2, offset=1)] == newest_first[1:3]
    assert store.list(limit=0) == store.list(limit=-3) == store.list(offset=99) == []
    assert store.count() == 5


SEARCHES: list[tuple[str, set[str]]] = [
    ("", {"Größe 100%", "plain", "under_score"}),
    ("GRÖSSE", {"Größe 100%"}),
    ("gro\u0308ße", {"Größe 100%"}),
    ("100%", {"Größe 100%"}),
    ("%", {"Größe 100%"}),
    ("_", {"under_score", "Größe 100%"}),  # the note of the first has one
    ("r_s", {"under_score"}),
    ("\\", set()),
    ("MIXTRAL", {"plain"}),
    ("trimoe-server", {"under_score"}),
    ("trimoe moe", {"under_score"}),
    ("ПРИВЕТ", {"plain"}),
    ("привет mixtral", {"plain"}),
    ("plain nothing", set()),
    ("<script>", {"under_score"}),
    ("'; DROP TABLE scenarios; --", set()),
    ("a\x00\ud800b", set()),
    ("x" * 100_000, set()),
]


def test_search(store: Store) -> None:
    store.save(Scenario(model=ModelChoice(id="a/b")), "Größe 100%", "a_b")
    store.save(Scenario(model=ModelChoice(id="mistralai/Mixtral-8x7B-v0.1")), "plain", "Привет")
    other = Scenario(
        model=ModelChoice(id="deepseek-ai/DeepSeek-V2"),
        system=SystemChoice(id="trimoe-server"),
        policy=PolicyChoice(id="trimoe"),
    )
    store.save(other, "under_score", "<script>alert(1)</script>")
    for search, found in SEARCHES:
        assert {row.name for row in store.list(search)} == found, search[:50]
        assert store.count(search) == len(found)


def test_search_follows_a_change(store: Store) -> None:
    saved = store.save(scenario(), "before")
    store.update(saved.id, name="after", scenario=Scenario(system=SystemChoice(id="gh200")), expected_version=1)
    assert [row.name for row in store.list("after gh200")] == ["after"]
    assert store.list("before") == store.list("2x-h100") == []


def test_update_changes_what_is_given_only(store: Store) -> None:
    saved = store.save(scenario(8), "name", "note")
    renamed = store.update(saved.id, name="new", expected_version=1)
    assert (renamed.name, renamed.note, renamed.scenario, renamed.version) == ("new", "note", saved.scenario, 2)
    changed = store.update(saved.id, scenario=scenario(9), note="", expected_version=2)
    assert (changed.name, changed.note, changed.scenario, changed.version) == ("new", "", scenario(9), 3)
    assert (changed.id, changed.created_at) == (saved.id, saved.created_at)
    assert changed.updated_at > saved.updated_at
    assert store.get(saved.id) == changed


def test_a_save_over_an_archived_one_is_refused(store: Store) -> None:
    saved = store.save(scenario(), "gone")
    store.archive(saved.id)
    with pytest.raises(NotFoundError, match='"gone" was archived meanwhile'):
        store.update(saved.id, name="x", expected_version=1)
    with pytest.raises(NotFoundError, match="not in the store any more"):
        store.update("00000000-0000-0000-0000-000000000000", name="x", expected_version=None)


def test_archive_takes_out_of_the_library_and_undo_brings_all_back(store: Store) -> None:
    older, saved = store.save(scenario(1), "older"), store.save(scenario(2), "mine")
    store.save(scenario(3), "newer")
    store.archive(saved.id)
    store.archive(saved.id)  # a second click
    assert store.get(saved.id) is None
    assert store.get_version(saved.id, 1) is None
    assert [row.name for row in store.list()] == ["newer", "older"]
    (archived,) = store.list(archived=True)
    assert archived.id == saved.id
    assert archived.archived_at is not None
    assert store.count(archived=True) == 1
    assert store.unarchive(saved.id) == saved.summary
    assert store.unarchive(saved.id) == saved.summary
    assert [row.name for row in store.list()] == ["newer", "mine", "older"]
    assert store.get(older.id) == older
    with pytest.raises(NotFoundError):
        store.archive("nothing")
    with pytest.raises(NotFoundError):
        store.unarchive("nothing")


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        ('{"schema_version": 99, "plans": []}', "newer Tierline"),
        ('{"workload": {"batch": 0}}', "workload.batch"),
        ('{"workload": {"bathc": 1}}', "bathc"),
        ("[1, 2]", "."),
        ('{"schema_version":', "damaged"),
        ("[" * 100_000, "damaged"),
    ],
)
def test_a_scenario_that_cannot_be_read_leaves_the_library_usable(store: Store, stored: str, reason: str) -> None:
    good, bad = store.save(scenario(), "good"), store.save(scenario(), "bad one")
    link = store.create_link(bad.id)
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE versions SET scenario = :text WHERE name = 'bad one'"), {"text": stored})
    assert {row.name for row in store.list()} == {"good", "bad one"}
    assert [version.name for version in store.history(bad.id)] == ["bad one"]
    for read in (
        lambda: store.get(bad.id),
        lambda: store.get_version(bad.id, 1),
        lambda: store.open_link(link.token),
        lambda: store.fork(bad.id),
    ):
        with pytest.raises(UnreadableError, match=f'"bad one" cannot be opened: .*{re.escape(reason)}'):
            read()
    store.archive(bad.id)
    assert [row.name for row in store.list()] == ["good"]
    assert store.unarchive(bad.id).name == "bad one"
    assert store.get(good.id) == good
    repaired = store.update(bad.id, scenario=scenario(5), expected_version=None)
    assert repaired.scenario == scenario(5)


def test_health_is_one_sentence(store: Store) -> None:
    asked = scenario()
    store.save(asked, "a", result=result_of(asked))
    store.archive(store.save(asked, "b").id)
    assert store.health().endswith(" holds 1 scenarios and 1 results.")
    assert "tierline-test" not in store.health()  # the password


def test_a_save_needs_no_engine(tmp_path: Path) -> None:
    """Compiling and importing the engine takes seconds, which nobody waits for who saves, lists or comments."""
    code = (
        "import sys; from db import open_store; from planner.scenario import Scenario; s = open_store(); "
        "x = s.save(Scenario(), 'a'); s.update(x.id, name='b', expected_version=1); s.comment(x.id, 'c'); s.list(); "
        "print(sorted({'numba', 'streamlit', 'planner.evaluate'} & set(sys.modules)))"
    )
    env = {**os.environ, "TIERLINE_DATA": str(tmp_path)}
    env.pop("TIERLINE_DATABASE_URL", None)
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
