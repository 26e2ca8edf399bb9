"""Export and import: everything comes back, and what is old, foreign, damaged or too large leaves the store alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from db import InputError, NotFoundError, Store
from planner import bundle as bundles
from planner import loss_tables, time_tables
from planner.bundle import Bundle, BundleError, read, read_file, write
from planner.cli.main import main
from planner.errors import PlanError
from planner.loss_table import LossTable, Provenance
from planner.scenario import ModelChoice, PolicyChoice, RoutingChoice, Scenario, Workload
from planner.time_table_io import parse_table
from tests.db.builders import result_of

HOSTILE = "<b>=1+1 \u202e🚀 [x](http://y)"


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "data"))


def filled(store: Store) -> tuple[str, str]:
    """A project with a scenario of three versions, a fork of it, comments, tables, and a link."""
    losses = LossTable((1, 2), np.tile([4.0, 3.0, 2.0, 1.0], (2, 3, 1)), False, Provenance(source="a test"))
    times = parse_table(b"device,tokens,seconds\ngpu,1,0.001\ngpu,8,0.002\ncpu,1,0.01\ncpu,8,0.05\n", "t.csv")
    options = {"loss_table": loss_tables.register(losses), "time_table": time_tables.register(times)}
    project = store.create_project("Board", "for May", author="Ann")
    asked = Scenario(policy=PolicyChoice(id="trimoe", options=options))
    saved = store.save(asked, HOSTILE, HOSTILE, author="Ann", tags=("a", "ü"), project_id=project.id)
    changed = asked.model_copy(update={"workload": Workload(batch=9)})
    store.update(saved.id, scenario=changed, author="Ben", result=result_of(changed), expected_version=1)
    store.update(saved.id, name="sibling", author="Cleo", expected_version=1)
    traced = Scenario(routing=RoutingChoice(source="trace", trace="gpt-oss-20b-decode"))
    store.fork(saved.id, 2, name="fork", scenario=traced)
    store.comment(saved.id, HOSTILE, author="Ann", number=2)
    store.create_link(saved.id)
    return project.id, saved.id


def history(store: Store, id: str) -> list[tuple[Any, ...]]:
    return [
        (v.number, v.parent_number, v.author, v.created_at, v.name, v.note, v.tags, v.changed, v.scenario_hash)
        for v in store.history(id)
    ]


def test_a_project_comes_back_whole_on_another_machine(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project_id, id = filled(store)
    data = write(store.export_project(project_id))
    assert data.isascii()
    tokens = [link.token for link in store.links(id)]
    assert not any(token.encode() in data for token in tokens)
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "other machine"))
    content = read(data)
    assert (len(content.scenarios), content.versions, len(content.attachments), content.missing) == (2, 4, 2, ())
    first, fork = store.import_bundle(content)
    assert [project.name for project in store.projects()] == ["My scenarios", "Board", "Board"]
    assert first.id != id
    assert history(store, first.id) == history(store, id)
    assert {v.parent_scenario_id for v in store.history(fork.id)} == {first.id}  # the fork is of the imported one
    assert [(c.text, c.author, c.number) for c in store.comments(first.id)] == [(HOSTILE, "Ann", 2)]
    assert store.links(first.id) == ()
    assert store.get(first.id).scenario == store.get(id).scenario  # type: ignore[union-attr]
    options = store.get(first.id).scenario.policy.options  # type: ignore[union-attr]
    assert loss_tables.known() == (options["loss_table"],)
    assert loss_tables.get(str(options["loss_table"])).provenance.source == "a test"
    assert time_tables.known() == (options["time_table"],)
    assert write(content) == data


def test_a_scenario_goes_into_the_project_that_is_chosen(store: Store) -> None:
    _, id = filled(store)
    other = store.create_project("Other")
    (added,) = store.import_bundle(read(write(store.export_scenario(id))), other.id)
    assert added.project_id == other.id
    assert store.list()[0].id == added.id  # what was just imported leads the list
    with pytest.raises(NotFoundError):
        store.export_scenario("nothing")
    with pytest.raises(InputError, match="holds no scenario"):
        store.export_project(store.create_project("Empty").id)


def changed(data: bytes, change: Any, sign: bool = True) -> bytes:
    found = json.loads(data)
    change(found)
    if sign:
        found.pop("digest", None)
        found["digest"] = bundles._digest(found)
    return json.dumps(found).encode()


def no_change(_: dict[str, Any]) -> None:
    pass


def put(path: str, value: Any) -> Any:
    def change(found: Any) -> None:
        *way, last = path.split("/")
        for name in way:
            found = found[int(name) if name.isdigit() else name]
        found[int(last) if last.isdigit() else last] = value

    return change


def swap_digests(found: dict[str, Any]) -> None:
    tables = found["attachments"]["loss_tables"]
    for digest in list(tables):
        tables["0" * 64] = tables.pop(digest)


BAD: list[tuple[Any, bool, str]] = [
    (put("format", "other"), True, "is not an export of Tierline"),
    (put("schema_version", 2), True, "newer Tierline \\(format 2"),
    (put("schema_version", 0), True, "schema_version"),
    (put("scenarios/0/versions/0/name", "other"), False, "was changed or cut off"),
    (put("scenarios/0/versions/0/scenario/workload/batch", 0), True, "batch"),
    (put("scenarios/0/versions/0/scenario/schema_version", 9), True, "newer Tierline"),
    (put("scenarios/0/versions/0/surprise", 1), True, "surprise"),
    (put("scenarios/0/versions/0/number", 2), True, "not numbered from 1 up"),
    (put("scenarios/0/versions/1/key", "x"), True, "^$"),
    (put("scenarios/0/comments/0/number", 7), True, "a version that it lacks"),
    (put("scenarios/0/versions/0/created_at", "2026-01-01T00:00:00"), True, "timezone"),
    (put("scenarios/0/versions/0/created_at", "0001-01-01T00:00:00+23:59"), True, "outside the years 1970 to 2999"),
    (put("scenarios/0/created_at", "9999-12-31T23:59:59-23:59"), True, "outside the years"),
    (put("scenarios/0/versions/0/restored", 1), True, "brings back version 1, which is none before it"),
    (put("scenarios/0/versions/0/\x1b[31m\n\u202e", 1), True, r"0\.\\u001b\[31m\\n\\u202e: Extra inputs"),
    (put("schema_version", 10**4000), True, "format a whole number of about 40"),
    (put("scenarios/0/versions/0/name", "x" * 10_000), True, "at most 200"),
    (put("scenarios", []), True, "scenarios"),
    (put("attachments/time_tables", {"../../etc/passwd": "x"}), True, "attachments"),
    (put("attachments/time_tables", {"0" * 64: "x"}), True, "time table 000000000000"),
    (put("attachments/calibrations", {"0" * 64: "{}"}), True, "calibration 000000000000"),
    (put("attachments/machines", {"0" * 64: "[]"}), True, "machine 000000000000"),
    (put("attachments/traces", {"mine": "0"}), True, "is not shipped"),
    (put("attachments/traces", {"gpt-oss-20b-decode": "0"}), True, "has another content"),
    (swap_digests, True, "not what its digest says"),
]


def test_what_was_changed_is_one_sentence_and_nothing_is_imported(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project_id, _ = filled(store)
    data = write(store.export_project(project_id))
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "other machine"))
    before = store.count()
    assert read(changed(data, no_change)).versions == 4  # so that every refusal below is of its one change
    for change, sign, words in BAD:
        if words == "^$":  # a parent that is not in the file is a version without one
            assert read(changed(data, change, sign)).versions == 4
            continue
        with pytest.raises(PlanError, match=words) as caught:
            read(changed(data, change, sign))
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500
    assert store.count() == before
    assert loss_tables.known() == time_tables.known() == ()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "damaged or cut off"),
        (b"{", "damaged or cut off"),
        (b"[]", "not an export"),
        (b'{"format": NaN}', "damaged"),
        (b'{"format": "tierline-bundle", "a": 1e999}', "damaged"),
        (b'{"format": "other", "format": "tierline-bundle"}', "given twice"),
        (b"\xff\xfe\x00", "not text"),
        (b"PK\x03\x04" + b"\x00" * 40, "damaged|not text"),
        (b"[" * 200_000, "damaged|nested too deep"),
        (b'{"format": "tierline-bundle", "n": ' + b"9" * 10_000 + b"}", "damaged|digest"),
    ],
)
def test_a_foreign_file_is_one_sentence(data: bytes, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        read(data)


def test_a_file_of_500_mb_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(500_000_000)

    def never(_: bytes) -> Bundle:
        raise AssertionError("read")

    monkeypatch.setattr(bundles, "read", never)
    with pytest.raises(BundleError, match=r"The file has 500 MB; .* up to 64 MB, and nothing of it was read"):
        read_file(large)
    with pytest.raises(BundleError, match="cannot be read: No such file"):
        read_file(tmp_path / "none.json")


def test_an_import_that_fails_in_the_middle_leaves_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project_id, _ = filled(store)
    content = store.export_project(project_id)
    last = content.scenarios[1]
    bad = last.versions[0].model_copy(update={"name": "a\x00b"})
    broken = content.model_copy(
        update={"scenarios": (content.scenarios[0], last.model_copy(update={"versions": (bad,)}))}
    )
    before = (store.count(), len(store.projects()))
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "other machine"))
    with pytest.raises(InputError, match=r'version 1 of "a\\u0000b": The name holds the control character U\+0000'):
        store.import_bundle(broken)
    with pytest.raises(NotFoundError):
        store.import_bundle(content, "00000000-0000-0000-0000-00000000000a")
    assert (store.count(), len(store.projects())) == before
    assert loss_tables.known() == time_tables.known() == ()


def nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {"end": 1}
    for _ in range(levels):
        found = {"a": found}
    return found


def test_what_can_be_saved_can_be_exported_and_imported(store: Store) -> None:
    """A config as deep as one may be comes back; half a character is refused before it is kept or written."""
    deepest = 0
    for levels in range(50, 70):
        asked = Scenario(model=ModelChoice(id="mine", config=nested(levels)))
        try:
            saved = store.save(asked, "deep")
        except InputError:
            break
        (added,) = store.import_bundle(read(write(store.export_scenario(saved.id))))
        assert store.get(added.id).scenario == asked  # type: ignore[union-attr]
        deepest = levels
    with pytest.raises(InputError, match="nested too deep"):
        store.save(asked, "deep")
    assert 55 < deepest < 69
    for half in (
        Scenario(model=ModelChoice(id="mine", config={"a": "\ud800"})),
        Scenario(policy=PolicyChoice(options={"a": "\udc00"})),
    ):
        with pytest.raises(InputError, match="half a character"):
            store.save(half, "half")
        with pytest.raises(BundleError, match="half a character"):
            write(bundles.of_scenario(half, "half"))


def test_a_table_that_is_not_here_is_named_and_the_rest_is_exported(store: Store) -> None:
    saved = store.save(Scenario(policy=PolicyChoice(options={"loss_table": "a" * 64})), "x")
    content = store.export_scenario(saved.id)
    assert len(content.missing) == 1
    assert "aaaaaaaaaaaa... is not on this machine" in content.missing[0]
    assert len(read(write(content)).attachments) == 0


def test_the_commands_write_and_add_the_same(
    store_url: str, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIERLINE_DATABASE_URL", store_url)
    _, id = filled(store)
    out, single = str(tmp_path / "board.json"), str(tmp_path / "one.json")
    assert main(["export", "Board", "--out", out, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["scenarios"], told["versions"], told["comments"], told["attachments"]) == (2, 4, 1, 2)
    assert main(["export", id, "--out", single]) == 0
    assert "1 scenario, 3 versions, 1 comment, 2 attachments" in capsys.readouterr().out
    assert main(["import", out, "--json"]) == 0
    added = json.loads(capsys.readouterr().out)["added"]
    assert [each["versions"] for each in added] == [3, 1]
    assert history(store, added[0]["id"]) == history(store, id)
    assert main(["import", single, "--project", "My scenarios"]) == 0
    assert capsys.readouterr().out.startswith("Added 1 scenario, 3 versions")
    for wrong, words in (
        (["export", "Bord", "--out", out], "the nearest is"),
        (["import", out, "--project", "Board"], "2 projects are called"),
        (["import", str(tmp_path / "none")], "cannot be read"),
        (["export", "00000000-0000-0000-0000-00000000000a", "--out", out], "not in the store"),
    ):
        assert main(wrong) == 2
        assert words in capsys.readouterr().err
    asked = tmp_path / "mine.json"
    asked.write_text(Scenario(workload=Workload(batch=7)).canonical_json())
    assert main(["export", str(asked), "--out", single]) == 0
    (scenario,) = read_file(single).scenarios
    assert (scenario.versions[0].name, scenario.versions[0].scenario.workload.batch) == ("mine", 7)
    assert scenario.created_at <= datetime.now(UTC)
    for name, words in (("  ", "name is empty"), ("x" * 201, "201 characters"), ("a\x1b[31m", "control character")):
        assert main(["export", str(asked), "--out", single, "--name", name]) == 2
        assert words in capsys.readouterr().err
    odd = tmp_path / "a\n\udcff.json"
    odd.write_text(Scenario().canonical_json())
    assert main(["export", str(odd), "--out", single]) == 0
    assert main(["import", single]) == 0
    assert store.list()[0].name == "a\ufffd\ufffd"
