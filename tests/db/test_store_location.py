"""Where the store is: arguments, environment, default; and addresses that name no database."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from db import LocationError, open_store
from db.__main__ import main
from db.location import FILE_NAME, locate
from planner.scenario import Scenario

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIERLINE_DATABASE_URL", raising=False)
    monkeypatch.delenv("TIERLINE_DATA", raising=False)


def test_the_default_is_the_users_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    path = locate().path
    assert path is not None
    assert path.is_relative_to(tmp_path)
    assert (path.parent.name, path.name) == ("tierline", FILE_NAME)


def test_what_is_nearer_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "data"))
    assert locate().path == tmp_path / "data" / FILE_NAME
    monkeypatch.setenv("TIERLINE_DATABASE_URL", "  ")
    assert locate().path == tmp_path / "data" / FILE_NAME
    monkeypatch.setenv("TIERLINE_DATABASE_URL", "postgresql://u:p@h/d")
    assert locate().kind == "postgresql"
    assert locate(data_dir=tmp_path).path == tmp_path / FILE_NAME
    assert locate("sqlite:////x/y.db", tmp_path).path == Path("/x/y.db")


def test_home_and_relative_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert locate(data_dir="~/plans").path == tmp_path / "plans" / FILE_NAME
    assert locate(data_dir="plans").path == tmp_path / "plans" / FILE_NAME


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+psycopg2"])
def test_all_spellings_of_postgresql(scheme: str) -> None:
    location = locate(f"{scheme}://user:s3cret@db.example:5433/plans?sslmode=require")
    assert location.url.drivername == "postgresql+psycopg"
    assert location.url.query == {"sslmode": "require"}
    assert location.label == 'the PostgreSQL store "plans" of user@db.example:5433'


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://u:s3cret@h/d", '"mysql"'),
        ("s3cret", "is not a database address"),
        ("postgresql://u:s3cret@h:port/d", "is not a database address"),
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
    ],
)
def test_an_address_that_names_no_database(monkeypatch: pytest.MonkeyPatch, url: str, says: str) -> None:
    monkeypatch.setenv("TIERLINE_DATABASE_URL", url)
    with pytest.raises(LocationError, match=says) as error:
        open_store()
    assert str(error.value).startswith("TIERLINE_DATABASE_URL ")
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("directory", ["~no-such-user-here/x", "a\0b"])
def test_a_directory_that_cannot_be(directory: str) -> None:
    with pytest.raises(LocationError, match="The directory"):
        open_store(data_dir=directory)


def test_any_name_of_a_directory_works(tmp_path: Path) -> None:
    for name in ("with space", "50%25 off?mode=ro#x", "Größe 日本", "a'b\"c;d"):
        store = open_store(data_dir=tmp_path / name)
        saved = store.save(Scenario(), "x")
        store.close()
        assert (tmp_path / name / FILE_NAME).exists()
        assert open_store(data_dir=tmp_path / name).list() == [saved.summary]


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TIERLINE_DATA": str(directory)}
    return subprocess.run(
        [sys.executable, "-m", "db", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "data"))
    assert main(["migrate"]) == 0
    assert main(["examples"]) == 0
    assert main(["examples"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("holds 0 scenarios and 0 results.")
    assert lines[1:] == ["2 example scenarios added.", "0 example scenarios added."]
    done = run(tmp_path / "data", "health")
    assert (done.returncode, done.stderr) == (0, "")
    assert "holds 2 scenarios" in done.stdout


def test_the_command_refuses_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run(tmp_path / "file", "migrate")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("Could not open the store: ")
    assert done.stderr.count("\n") == 1
