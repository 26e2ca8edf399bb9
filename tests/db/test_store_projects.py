"""Projects and studies."""

from __future__ import annotations

import pytest

from db import DEFAULT_PROJECT_ID, InputError, NotFoundError, Store, studies
from planner.scenario import Scenario


def test_a_store_begins_with_one_project_that_stays(store: Store) -> None:
    (first,) = store.projects()
    assert (first.id, first.name, first.scenarios) == (DEFAULT_PROJECT_ID, "My scenarios", 0)
    assert store.save(Scenario(), "plan").project_id == first.id
    assert store.projects()[0].scenarios == 1
    with pytest.raises(InputError, match="The first project stays"):
        store.archive_project(first.id)
    assert store.update_project(first.id, name="Team").name == "Team"


def test_scenarios_are_listed_by_project_and_move(store: Store) -> None:
    board = store.create_project(" Board \n2027 ", "for May", author="Ann")
    assert (board.name, board.note, board.author) == ("Board 2027", "for May", "Ann")
    one, other = store.save(Scenario(), "one", project_id=board.id), store.save(Scenario(), "other")
    assert [row.name for row in store.list(project_id=board.id)] == ["one"]
    assert store.count(project_id=board.id) == store.count(project_id=DEFAULT_PROJECT_ID) == 1
    assert store.count() == 2
    assert store.list(project_id="nothing") == []
    store.move(other.id, board.id)
    assert store.count(project_id=board.id) == 2
    assert store.get(other.id).version == 1  # type: ignore[union-attr]
    assert store.fork(one.id).project_id == board.id
    with pytest.raises(NotFoundError, match="project is not in the store"):
        store.save(Scenario(), "x", project_id="00000000-0000-0000-0000-00000000000a")
    with pytest.raises(InputError, match="give the project a name"):
        store.create_project(" ")


def test_an_archived_project_is_out_of_sight_with_its_links_until_undone(store: Store) -> None:
    board = store.create_project("Board")
    saved = store.save(Scenario(), "one", project_id=board.id)
    link = store.create_link(saved.id)
    study = store.save_study(board.id, "sweep", "s", "Ann", {}, b"x")
    shared = store.create_study_link(study.id)
    store.archive_project(board.id)
    assert [project.name for project in store.projects()] == ["My scenarios"]
    assert [project.name for project in store.projects(archived=True)] == ["Board"]
    assert store.list() == []
    assert store.list_studies() == ()
    assert store.open_link(link.token) is None
    assert not store.link_is_open(link.token)
    assert store.get_study_by_token(shared.token) is None
    with pytest.raises(NotFoundError, match="was archived"):
        store.save(Scenario(), "x", project_id=board.id)
    # A page that has a scenario of it open saves nothing where nobody would find it, and is told why.
    with pytest.raises(NotFoundError, match='The project "Board" of "one" was archived meanwhile; bring it back'):
        store.update(saved.id, name="two", expected_version=1)
    assert store.get(saved.id) is None
    assert store.get_version(saved.id, 1) is None
    for refused in (
        lambda: store.restore(saved.id, 1),
        lambda: store.fork(saved.id),
        lambda: store.comment(saved.id, "x"),
        lambda: store.create_link(saved.id),
        lambda: store.export_scenario(saved.id),
    ):
        with pytest.raises(NotFoundError):
            refused()
    store.unarchive_project(board.id)
    assert [row.name for row in store.list()] == ["one"]
    assert store.open_link(link.token) == (saved, link)
    assert store.get_study_by_token(shared.token) == study


def test_many_are_archived_at_once(store: Store) -> None:
    ids = [store.save(Scenario(), str(number)).id for number in range(3)]
    store.archive(ids[0])
    assert store.archive_all([*ids[:2], "nothing", ids[1]]) == 1
    assert [row.id for row in store.list()] == [ids[2]]
    assert store.unarchive(ids[1]).name == "1"
    assert store.archive_all([]) == 0


def test_studies_come_back_as_saved(store: Store) -> None:
    body = bytes(range(256)) * 500
    spec = {"fields": ["workload.batch"], "values": [1, 2.5, None, "ü\x00"], "over": {"z": 1, "a": [True]}}
    study = store.save_study(None, "sweep", "Batch", "Ann", spec, body)
    other = store.save_study(None, "compare", "Two", "", {}, b"")
    assert store.get_study(study.id) == study
    assert (study.spec, study.body, study.kind, study.name, study.author) == (spec, body, "sweep", "Batch", "Ann")
    assert study.engine_version and len(study.catalog_digest) == 64
    listed = store.list_studies()
    assert [row.id for row in listed] == [other.id, study.id]
    assert not hasattr(listed[0], "body")
    assert listed[1].body_bytes == study.body_bytes < len(body)
    assert [row.id for row in store.list_studies(kind="sweep")] == [study.id]
    assert store.list_studies("nothing") == ()
    link = store.create_study_link(study.id, author="Ann")
    assert store.get_study_by_token(link.token) == study
    assert store.open_link(link.token) is None  # a study is no scenario
    assert store.links(study_id=study.id) == (link,)
    store.archive_study(study.id)
    assert store.get_study(study.id) is None
    assert store.get_study_by_token(link.token) is None
    store.unarchive_study(study.id)
    store.revoke_link(link.id)
    assert store.get_study(study.id) == study
    assert store.get_study_by_token(link.token) is None


def test_what_is_no_study_is_one_sentence(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "BODY_BYTES", 1_000_000)
    for kind, spec, body, words in (
        ("other", {}, b"", "a sweep or a compare"),
        ("sweep", {"x": float("nan")}, b"", "cannot be stored"),
        ("sweep", {"x": {1, 2}}, b"", "cannot be stored"),
        ("sweep", {"x": "y" * 4_100_000}, b"", "4.1 MB; up to 4 MB"),
        ("sweep", {}, b"x" * 3_000_000, "3 MB; up to 1 MB"),
    ):
        with pytest.raises(InputError, match=words):
            store.save_study(None, kind, "n", "", spec, body)
    assert store.list_studies() == ()
