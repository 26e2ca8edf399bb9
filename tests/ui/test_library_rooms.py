"""Projects, the room of a scenario, share links, and two people at one scenario, without a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from db import LINK_TO_NOTHING, Saved, Store, open_store
from planner.bundle import write
from planner.scenario import Scenario, Workload
from tests.ui.conftest import html, invented, markdown, texts
from ui import library
from ui.shelf import apart, exchange

Open = Callable[..., AppTest]
HOSTILE = "<img src=x onerror=alert(1)> **b** $a$ \u202e🚀 [l](http://h) :material/home:"


def scenario(batch: int) -> Scenario:
    return Scenario(workload=Workload(batch=batch))


@pytest.fixture
def store() -> Store:
    return open_store()


@pytest.fixture
def saved(store: Store) -> Saved:
    """Three versions: 2 and 3 from the same start."""
    first = store.save(scenario(1), "plan", "why", invented(scenario(1)), author="Ann", tags=("board",))
    store.update(first.id, scenario=scenario(2), author="Ben", result=invented(scenario(2)), expected_version=1)
    return store.update(first.id, scenario=scenario(3), author="Cleo", expected_version=1)


def enter(shelf: AppTest, saved: Saved) -> AppTest:
    shelf.run()
    shelf.button(key=f"room-{saved.id}").click().run()
    assert not shelf.exception
    return shelf


def test_a_line_names_authors_tags_versions_and_what_changed(shelf: AppTest, saved: Saved) -> None:
    shelf.run()
    page = html(shelf)
    assert "version 3 by <bdi>Cleo</bdi>" in page
    assert "first saved by <bdi>Ann</bdi>" in page
    assert "changed: Batch" in page
    assert "<bdi>board</bdi>" in page
    assert shelf.button(key=f"room-{saved.id}").label == "History, 3 versions"
    shelf.text_input(key="library-search").set_value("board cleo").run()
    assert "1 scenario found" in html(shelf)


def test_history_says_who_when_engine_and_siblings(shelf: AppTest, saved: Saved) -> None:
    page = html(enter(shelf, saved))
    for number, author in ((1, "Ann"), (2, "Ben"), (3, "Cleo")):
        assert f"<b>Version {number}</b>" in page
        assert f"saved by <bdi>{author}</bdi>" in page
    assert "started from version 1" in page
    assert page.count("from the same start") == 2
    assert "engine 0." in page
    shelf.button(key="room-leave").click().run()
    assert "1 scenario, last changed first" in html(shelf)


def test_restore_fork_and_open_an_old_version(shelf: AppTest, saved: Saved, store: Store) -> None:
    enter(shelf, saved).button(key="version-restore-1").click().run()
    assert not shelf.exception
    newest = store.get(saved.id)
    assert newest is not None
    assert (newest.version, newest.scenario) == (4, scenario(1))
    assert "brings version 1 back" in html(shelf)
    shelf.button(key="version-fork-2").click().run()
    assert {row.name for row in store.list()} == {"plan", "plan (copy)"}
    shelf.button(key="version-open-2").click().run()
    assert shelf.session_state["scenario"] == scenario(2)
    assert shelf.query_params["saved"] == f"{saved.id}.2"


def test_comments_show_as_typed_and_too_long_ones_are_kept_in_the_field(
    shelf: AppTest, saved: Saved, store: Store
) -> None:
    enter(shelf, saved)
    shelf.text_area(key="comment-text-0").set_value("x" * 10_001)
    shelf.button(key="comment-add").click().run()
    assert any("10,001 characters" in error.value for error in shelf.error)
    assert shelf.text_area(key="comment-text-0").value == "x" * 10_001
    shelf.text_area(key="comment-text-0").set_value(HOSTILE)
    shelf.text_input(key="comment-author").set_value(HOSTILE)
    shelf.selectbox(key="comment-about").set_value(2)
    shelf.button(key="comment-add").click().run()
    assert not shelf.exception
    (comment,) = store.comments(saved.id)
    assert (comment.text, comment.author, comment.number) == (HOSTILE, HOSTILE, 2)
    assert "<img" not in html(shelf)
    assert "&lt;img src=x onerror=alert(1)&gt; **b** $a$" in html(shelf)
    assert "on version 2" in html(shelf)
    assert shelf.session_state["author"] == HOSTILE  # asked once


def test_difference_of_versions_and_of_scenarios(shelf: AppTest, saved: Saved, store: Store) -> None:
    other = store.save(scenario(64), "other")
    enter(shelf, saved)
    shelf.selectbox(key="difference-after").set_value((saved.id, 2)).run()
    assert not shelf.exception
    page = html(shelf)
    assert "Inputs that differ" in page
    assert "after / before" in page
    assert "\u00d71" in page  # the invented figures are the same for every batch
    shelf.selectbox(key="difference-after").set_value((other.id, 0)).run()
    assert not shelf.exception
    shelf.button(key="difference-compute-after").click().run()
    assert not shelf.exception
    assert store.latest_result(scenario(64)) is not None
    shelf.selectbox(key="difference-after").set_value((saved.id, 1)).run()
    assert "All inputs are the same" in html(shelf)


def test_links_are_made_and_closed(app: Open, shelf: AppTest, saved: Saved, store: Store) -> None:
    enter(shelf, saved)
    shelf.button(key="link-fixed").click().run()
    shelf.button(key="link-latest").click().run()
    latest, fixed = store.links(saved.id)
    assert (fixed.number, latest.number) == (3, None)
    assert [
        f"?scenario={link.token}" in code.value for link, code in zip((latest, fixed), shelf.code, strict=True)
    ] == [
        True,
        True,
    ]
    assert "this is no access control" in html(shelf)
    shelf.button(key=f"revoke-{fixed.id}").click().run()
    assert len(shelf.code) == 1
    closed, never = app(scenario=fixed.token), app(scenario="A" * 32)
    assert [warning.value for warning in closed.warning] == [warning.value for warning in never.warning]
    assert LINK_TO_NOTHING.split(":")[0] in markdown(closed)
    assert closed.session_state["scenario"] == Scenario()


def test_a_page_opened_by_a_link_offers_only_a_fork(app: Open, saved: Saved, store: Store) -> None:
    link = store.create_link(saved.id, 2)
    at = app(scenario=link.token)
    assert not at.exception
    assert at.session_state["scenario"] == scenario(2)
    assert "Opened by a link, to read and to copy." in html(at)
    assert "version 2 of 3, always" in html(at)
    assert "this is no access control" in html(at)
    keys = {button.key for button in at.button}
    assert "fork" in keys
    assert not {"save", "history"} & keys
    assert not [field for field in at.text_input if str(field.key).startswith("in.")]
    at.button(key="fork").click().run()
    assert not at.exception
    fork = next(row for row in store.list() if row.id != saved.id)
    assert at.query_params["saved"] == fork.id
    assert "Opened by a link" not in html(at)
    at.text_input(key="in.workload.batch").set_value("77").run()
    at.button(key="save").click().run()
    at.button(key="save-update").click().run()
    assert store.get(fork.id).scenario == scenario(77)  # type: ignore[union-attr]
    assert store.get(saved.id) == saved  # what was linked is as it was


def test_an_open_page_closes_soon_after_its_link(app: Open, saved: Saved, store: Store) -> None:
    link = store.create_link(saved.id)
    at = app(scenario=link.token)
    store.revoke_link(link.id)
    at.run()  # what the page does by itself every few seconds
    at.run()
    assert not at.exception
    assert at.session_state["scenario"] == Scenario()
    assert "leads to nothing here" in markdown(at)


def test_a_stale_save_is_a_sibling_and_both_are_told(app: Open, store: Store) -> None:
    first = store.save(scenario(1), "shared")
    ann, ben = app(saved=first.id), app(saved=first.id)
    for at, batch, name in ((ann, "2", "Ann"), (ben, "3", "Ben")):
        at.text_input(key="in.workload.batch").set_value(batch).run()
        at.button(key="save").click().run()
        at.text_input(key="save-author").set_value(name)
        at.button(key="save-update").click().run()
        assert not at.exception
    toasts = " ".join(toast.value for toast in ben.toast)
    assert "version 3" in toasts
    assert "Ann" in toasts
    assert [(v.number, v.parent_number, v.author) for v in store.history(first.id)] == [
        (3, 1, "Ben"),
        (2, 1, "Ann"),
        (1, None, ""),
    ]
    ann.run()
    assert "Ben saved version 3 from version 1, beside your version 2" in html(ann)
    again = app(saved=f"{first.id}.2")
    again.button(key="difference-theirs").click().run()
    assert not again.exception
    assert again.session_state["library_room"] == first.id
    ann.button(key="open-theirs").click().run()
    ann.run()
    assert ann.session_state["scenario"] == scenario(3)


def test_projects_are_made_chosen_archived_and_brought_back(shelf: AppTest, saved: Saved, store: Store) -> None:
    shelf.run()
    shelf.text_input(key="project-name").set_value(HOSTILE)
    shelf.button(key="project-new").click().run()
    assert not shelf.exception
    board = store.projects()[1]
    assert shelf.selectbox(key="library-project").value == board.id
    assert "Nothing is saved yet" in shelf.info[0].value
    enter_from_all = shelf.selectbox(key="library-project").set_value("").run()
    enter_from_all.button(key=f"room-{saved.id}").click().run()
    shelf.selectbox(key="room-project").set_value(board.id).run()
    assert store.get(saved.id).project_id == board.id  # type: ignore[union-attr]
    shelf.button(key="room-leave").click().run()
    shelf.selectbox(key="library-project").set_value(board.id).run()
    shelf.button(key="project-archive").click().run()
    assert store.list() == []
    shelf.toggle(key="library-archived").set_value(True).run()
    assert not shelf.exception
    shelf.button(key=f"project-back-{board.id}").click().run()
    assert [row.id for row in store.list()] == [saved.id]
    assert "<img" not in texts(shelf)


def test_export_and_import_from_the_page(
    shelf: AppTest, saved: Saved, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    enter(shelf, saved)
    shelf.button(key=f"export-scenario-{saved.id}").click().run()
    assert not shelf.exception
    (ready,) = (each for each in shelf.get("download_button") if "Save the file" in each.proto.label)
    assert ready.proto.url
    data = write(store.export_scenario(saved.id))

    class File:
        def __init__(self, content: bytes) -> None:
            self.content = content

        def getvalue(self) -> bytes:
            return self.content

    state: dict[str, object] = {}
    monkeypatch.setattr("streamlit.session_state", state)
    for content, words in ((data, None), (data[:-40], "damaged or cut off"), (b"{}", "not an export of Tierline")):
        state |= {"file": File(content), "import_round": 0}
        state.pop("library_fault", None)
        exchange._uploaded("file", None)
        if words is None:
            text, undo, arguments = state["library_undo"]  # type: ignore[misc]
            assert text == "Imported 1 scenario; what is new leads the list."
        assert (state.get("library_fault") is None) == (words is None)
        assert words is None or words in str(state["library_fault"])
        assert state["import_round"] == 1
    assert store.count() == 2
    assert len({row.name for row in store.list()}) == 1
    assert write(store.export_scenario(saved.id)).isascii()
    assert state[library.PROJECT] == saved.project_id
    undo(*arguments)
    assert [row.id for row in store.list()] == [saved.id]
    board = store.create_project("Board")
    store.move(saved.id, board.id)
    state["file"] = File(write(store.export_project(board.id)))
    exchange._uploaded("file", None)
    assert [project.name for project in store.projects()] == ["My scenarios", "Board", "Board"]
    _, undo, arguments = state["library_undo"]  # type: ignore[misc]
    undo(*arguments)
    assert [project.id for project in store.projects()] == [store.projects()[0].id, board.id]
    assert [row.id for row in store.list()] == [saved.id]


def test_projects_and_scenarios_of_one_name_are_told_apart(shelf: AppTest, app: Open, store: Store) -> None:
    """Streamlit chooses by the label, and of equal labels the last: what is chosen must be what is taken."""
    boards = [store.create_project("Board") for _ in range(3)]
    twins = [store.save(scenario(batch), "twin", project_id=boards[0].id) for batch in (5, 6, 7)]
    enter(shelf, twins[2])
    for key in ("room-project", "difference-before", "difference-after"):
        labels = shelf.selectbox(key=key).options
        assert len(set(labels)) == len(labels)
    shelf.selectbox(key="room-project").set_value(boards[1].id).run()
    assert store.get(twins[2].id).project_id == boards[1].id  # type: ignore[union-attr]
    shelf.selectbox(key="difference-before").set_value((twins[0].id, 0)).run()
    assert shelf.session_state["difference-before"] == (twins[0].id, 0)
    at = app()
    at.button(key="save").click().run()
    at.selectbox(key="save-project").set_value(boards[0].id).run()
    store.archive_project(boards[0].id)  # by somebody else, while the dialog is open
    at.button(key="save-new").click().run()
    assert any("was archived" in error.value for error in at.error)
    assert {row.project_id for row in store.list()} == {boards[1].id}


def test_a_large_library_is_searched_for_the_other_side(
    shelf: AppTest, saved: Saved, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart, "MOST_OTHERS", 2)
    hidden = store.save(scenario(9), "needle")
    for number in range(3):
        store.save(scenario(20 + number), f"other {number}")
    enter(shelf, saved)
    assert "needle, newest" not in shelf.selectbox(key="difference-after").options
    shelf.text_input(key="difference-find").set_value("needle").run()
    shelf.selectbox(key="difference-after").set_value((hidden.id, 0)).run()
    shelf.text_input(key="difference-find").set_value("other").run()
    assert not shelf.exception
    assert shelf.session_state["difference-after"] == (hidden.id, 0)  # what is chosen stays


@pytest.mark.parametrize("whole", [False, True])
def test_work_on_what_was_archived_meanwhile_is_kept_as_new(app: Open, store: Store, whole: bool) -> None:
    board = store.create_project("Board")
    first = store.save(scenario(1), "plan", project_id=board.id)
    at = app(saved=first.id)
    at.text_input(key="in.workload.batch").set_value("2").run()
    if whole:
        store.archive_project(board.id)
    else:
        store.archive(first.id)
    at.button(key="save").click().run()
    at.button(key="save-update").click().run()
    assert not at.exception
    assert any("was archived meanwhile" in error.value for error in at.error)
    at.button(key="save-new").click().run()
    assert not at.exception
    assert not at.error
    (kept,) = store.list()
    assert store.get(kept.id).scenario == scenario(2)  # type: ignore[union-attr]
    assert at.query_params["saved"] == kept.id


def test_a_dialog_closes_when_another_scenario_is_opened_behind_it(app: Open, saved: Saved, store: Store) -> None:
    """Its fields were filled for the first one; saving would give the other one that name and note."""
    other = store.save(scenario(9), "other", "its note")
    link = store.create_link(saved.id)
    for address in ({"saved": other.id}, {"scenario": link.token}):
        at = app(saved=saved.id)
        at.button(key="save").click().run()
        assert at.text_input(key="save-name").value == "plan"
        at.session_state["address_written_at"] = 0.0  # the last change of the address is long ago
        at.query_params.clear()
        for name, value in address.items():
            at.query_params[name] = value
        at.run()
        assert not at.exception
        keys = {button.key for button in at.button}
        assert not {"save-update", "save-new"} & keys
        assert at.session_state["opened"].id == (other.id if "saved" in address else saved.id)


@pytest.mark.parametrize("field", ["save-name", "save-note", "save-tags"])
def test_what_is_too_long_is_a_sentence_and_stays_in_the_field(app: Open, store: Store, field: str) -> None:
    at = app()
    at.button(key="save").click().run()
    text = "x" * 10_001
    box = at.text_area if field == "save-note" else at.text_input
    box(key=field).set_value(text)
    at.button(key="save-new").click().run()
    assert not at.exception
    assert any("10,001 characters; up to" in error.value for error in at.error)
    assert box(key=field).value == text
    assert store.list() == []
