"""Versions, forks, restored versions, links and comments: nothing is ever overwritten."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import text

from db import InputError, NotFoundError, Store
from planner.scenario import Scenario, SystemChoice, Workload
from tests.db.builders import result_of


def scenario(batch: int = 8, **parts: object) -> Scenario:
    return Scenario(workload=Workload(batch=batch), **parts)


def test_every_save_is_a_version_with_what_it_changed(store: Store) -> None:
    saved = store.save(scenario(8), "plan", "note", author="Ann", tags=("a", "b"))
    second = store.update(
        saved.id,
        scenario=scenario(9, system=SystemChoice(overrides={"gpu.power_limit_w": 500.0})),
        result=result_of(scenario(9, system=SystemChoice(overrides={"gpu.power_limit_w": 500.0}))),
        author="Ben",
        expected_version=1,
    )
    third = store.update(saved.id, name="renamed", tags=("b",), author="Cleo", expected_version=2)
    assert (second.version, third.version, third.newest) == (2, 3, 3)
    assert third.scenario == second.scenario
    newest, middle, first = store.history(saved.id)
    assert [v.author for v in (first, middle, newest)] == ["Ann", "Ben", "Cleo"]
    assert [v.parent_number for v in (first, middle, newest)] == [None, 1, 2]
    assert [v.changed for v in (first, middle, newest)] == [
        (),
        ("system.overrides.gpu.power_limit_w", "workload.batch"),
        (),
    ]
    assert (first.name, newest.name, first.tags, newest.tags) == ("plan", "renamed", ("a", "b"), ("b",))
    assert (middle.engine_version, middle.catalog_digest) == ("1.0", "digest-a")  # the result's
    assert middle.headline is not None
    assert first.engine_version
    assert len(first.catalog_digest) == 64
    line = store.list()[0]
    assert (line.author, line.changed_by, line.version, line.changed) == ("Ann", "Cleo", 3, ())
    assert store.list("ann cleo renamed") == [line]
    assert store.get_version(saved.id, 1) is not None
    assert store.get_version(saved.id, 1).scenario == scenario(8)  # type: ignore[union-attr]
    assert store.get_version(saved.id, 4) is None
    assert store.get_version("nothing", 1) is None


def test_the_second_save_from_one_start_is_a_sibling(store: Store) -> None:
    saved = store.save(scenario(1), "shared", author="Ann")
    theirs = store.update(saved.id, scenario=scenario(2), name="theirs", author="Ben", expected_version=1)
    assert theirs.beside == ()
    mine = store.update(saved.id, scenario=scenario(3), author="Cleo", expected_version=1)
    assert (mine.version, mine.name, mine.changed) == (3, "shared", ("workload.batch",))
    assert [(v.number, v.author, v.name) for v in mine.beside] == [(2, "Ben", "theirs")]
    assert [(v.number, v.parent_number) for v in store.history(saved.id)] == [(3, 1), (2, 1), (1, None)]
    assert [(v.number, v.author) for v in store.newer_than(saved.id, 2)] == [(3, "Cleo")]  # Ben's page is told
    assert store.newer_than(saved.id, 3) == store.newer_than("nothing", 0) == ()
    assert store.get(saved.id) == mine
    with pytest.raises(NotFoundError, match="has no version 9; it has 3"):
        store.update(saved.id, name="x", expected_version=9)


def test_restore_is_a_new_version(store: Store) -> None:
    saved = store.save(scenario(1), "first")
    store.update(saved.id, scenario=scenario(2), name="second", expected_version=1)
    back = store.restore(saved.id, 1, author="Ann")
    assert (back.version, back.name, back.scenario, back.changed) == (3, "first", scenario(1), ("workload.batch",))
    newest = store.history(saved.id)[0]
    assert (newest.restored, newest.parent_number, newest.author) == (1, 2, "Ann")
    assert store.count() == 1
    with pytest.raises(NotFoundError, match="no version 7"):
        store.restore(saved.id, 7)


def test_fork_starts_from_a_version_and_leaves_it_alone(store: Store) -> None:
    saved = store.save(scenario(1), "n" * 200, "note", tags=("t",))
    store.update(saved.id, scenario=scenario(2), expected_version=1)
    fork = store.fork(saved.id, 1, author="Ben")
    assert fork.name == "n" * 193 + " (copy)"
    assert (fork.note, fork.tags, fork.scenario, fork.version, fork.author) == ("note", ("t",), scenario(1), 1, "Ben")
    (first,) = store.history(fork.id)
    assert (first.parent_scenario_id, first.parent_number) == (saved.id, 1)
    edited = store.fork(saved.id, name="edited", scenario=scenario(5))
    assert (edited.name, edited.scenario, edited.changed) == ("edited", scenario(5), ("workload.batch",))
    assert store.history(edited.id)[0].parent_number == 2
    assert store.get(saved.id).version == 2  # type: ignore[union-attr]
    assert store.links(fork.id) == ()
    store.archive(saved.id)
    with pytest.raises(NotFoundError):
        store.fork(saved.id)
    assert store.history(edited.id)[0].parent_scenario_id == saved.id


def test_links_are_unguessable_fixed_or_latest(store: Store) -> None:
    saved = store.save(scenario(1), "shared")
    fixed, latest = store.create_link(saved.id, 1, author="Ann"), store.create_link(saved.id)
    changed = store.update(saved.id, scenario=scenario(2), expected_version=1)
    for link in (fixed, latest):
        assert re.fullmatch(r"[A-Za-z0-9_-]{32}", link.token)  # 192 bits
        assert store.get(link.token) is None
    opened = store.open_link(fixed.token)
    assert opened is not None
    assert (opened[0].version, opened[0].newest, opened[0].scenario) == (1, 2, scenario(1))
    assert opened[1] == fixed
    assert store.open_link(latest.token) == (changed, latest)
    assert store.links(saved.id) == (latest, fixed)
    assert store.open_link(saved.id) is None
    with pytest.raises(NotFoundError, match="no version 3"):
        store.create_link(saved.id, 3)
    with pytest.raises(NotFoundError):
        store.create_link("nothing")


@pytest.mark.parametrize("token", ["", "x", "A" * 32, "A" * 5000, "' OR 1=1 --", "a\x00b" * 8, "日本" * 12, None, 7])
def test_a_link_to_nothing_is_none(store: Store, token: object) -> None:
    store.create_link(store.save(scenario(), "one").id)
    assert store.open_link(token) is None  # type: ignore[arg-type]
    assert not store.link_is_open(token)  # type: ignore[arg-type]
    assert store.get_study_by_token(token) is None  # type: ignore[arg-type]
    assert store.get(token) is None  # type: ignore[arg-type]


def test_a_closed_link_answers_like_one_that_never_existed(store: Store) -> None:
    saved = store.save(scenario(), "shared")
    link, other = store.create_link(saved.id), store.create_link(saved.id)
    asked: list[str] = []
    from sqlalchemy import event

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    closed = store.revoke_link(link.id)
    assert closed.revoked_at is not None
    assert store.revoke_link(link.id) == closed
    event.listen(store.engine, "before_cursor_execute", note)
    try:
        assert store.open_link(link.token) is None
        revoked, asked = asked, []
        assert store.open_link("A" * 32) is None
        unknown = asked
    finally:
        event.remove(store.engine, "before_cursor_execute", note)
    assert revoked == unknown  # the same single statement, so the same class of time
    assert len([each for each in revoked if "SELECT" in each]) == 1
    assert store.open_link(other.token) is not None
    store.archive(saved.id)
    assert store.open_link(other.token) is None
    assert not store.link_is_open(other.token)
    store.unarchive(saved.id)
    assert store.link_is_open(other.token)
    assert not store.link_is_open(link.token)
    with pytest.raises(NotFoundError):
        store.revoke_link("nothing")


def test_comments_are_kept_as_written(store: Store) -> None:
    saved = store.save(scenario(), "plan")
    first = store.comment(saved.id, "<b>why</b> *this*\r\n\u202eGPU 🚀", author="Ann")
    second = store.comment(saved.id, "on the first", author="Ben", number=1)
    assert store.comments(saved.id) == (first, second)
    assert (first.text, first.number, second.number) == ("<b>why</b> *this*\n\u202eGPU 🚀", None, 1)
    for bad, words in (("", "empty"), ("x" * 10_001, "10,001 characters"), ("a\x00b", "U\\+0000")):
        with pytest.raises(InputError, match=f"The comment .*{words}"):
            store.comment(saved.id, bad)
    with pytest.raises(NotFoundError, match="no version 2"):
        store.comment(saved.id, "x", number=2)
    assert len(store.comments(saved.id)) == 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"author": "x" * 201}, "Your name has 201 characters; up to 200"),
        ({"author": "a\x00"}, "Your name holds the control character U\\+0000"),
        ({"tags": ["x" * 41]}, "A tag has 41 characters; up to 40"),
        ({"tags": [str(n) for n in range(21)]}, "There are 21 tags; up to 20"),
        ({"name": "x" * 10_000}, "The name has 10,000 characters; up to 200"),
        ({"note": "x" * 10_001}, "The note has 10,001 characters"),
    ],
)
def test_what_is_too_long_is_one_sentence_and_saves_nothing(store: Store, given: dict, words: str) -> None:
    saved = store.save(scenario(), "plan")
    with pytest.raises(InputError, match=words):
        store.update(saved.id, **given, expected_version=1)
    assert store.get(saved.id) == saved
    assert len(store.history(saved.id)) == 1


def test_tags_and_author_are_one_line_each_once(store: Store) -> None:
    saved = store.save(scenario(), "plan", author=" Ann \n B. ", tags=("  a  b ", "a b", "", "\u200b", "<i>"))
    assert (saved.author, saved.tags) == ("Ann B.", ("a b", "<i>"))
    assert store.update(saved.id, author="\u200b", expected_version=1).changed_by == ""


def test_a_library_line_reads_no_body(store: Store) -> None:
    from sqlalchemy import event

    for number in range(5):
        saved = store.save(scenario(number + 1), f"n{number}", result=result_of(scenario(number + 1)))
        store.update(saved.id, note="again", expected_version=1)
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.lstrip().startswith("SELECT"):
            asked.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    try:
        assert len(store.list()) == 5
        listed, asked = asked, []
        assert len(store.history(saved.id)) == 2
    finally:
        event.remove(store.engine, "before_cursor_execute", note)
    assert len(listed) == len(asked) == 2  # the lines, and the headlines of all of them
    for statement in (*listed, *asked):
        assert "body" not in statement
        assert not re.search(r"\bscenario\b,", statement)


def test_the_newest_version_is_what_the_line_shows(store: Store) -> None:
    saved = store.save(scenario(1), "one")
    store.update(saved.id, scenario=scenario(4), name="two", expected_version=1)
    with store.engine.connect() as connection:
        held = connection.execute(
            text("SELECT s.name, v.name, s.version, v.number FROM scenarios s JOIN versions v ON v.id = s.version_id")
        ).one()
    assert tuple(held) == ("two", "two", 2, 2)
    assert store.list()[0].batch == 4
