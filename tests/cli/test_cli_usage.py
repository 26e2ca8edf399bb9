"""The command line as such: commands, options, help, exit codes, pipes, and what it does not import."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import planner
from planner.cli.main import COMMANDS
from planner.errors import PlanError

ROOT = Path(planner.__path__[0]).parent
LISTS = ["models", "hardware", "systems", "policies", "traces", "presets", "fields"]


def shell(*arguments: str, code: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """``python -m planner``, or ``python -c code``, in a process of its own."""
    command = [sys.executable, *(["-c", code] if code else ["-m", "planner"]), *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"], *([name, "--help"] for name in COMMANDS)])
def test_help_is_an_answer(run, arguments):
    ran = run(*arguments)
    assert (ran.code, ran.err) == (0, "")
    assert "usage: python -m planner" in ran.out


def test_help_names_every_command_and_every_flag_of_the_contract(run):
    text = run("--help").out
    assert all(f"  {command} " in text for command in COMMANDS)
    text = run("plan", "--help").out
    for flag in (
        "model",
        "system",
        "policy",
        "batch",
        "prompt-tokens",
        "output-tokens",
        "weight-bits",
        "trace",
        "seed",
    ):
        assert f"--{flag} " in text
    assert "--set PATH=VALUE" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "No command is given; use one of plan, best"),
        (["plann"], 'no command "plann"; the nearest is plan.'),
        (["hardwre", "--json"], "the nearest is hardware."),
        (["xyzzy"], "the commands are plan, best"),
        (["--json"], "option before a command"),
        ([""], "no command"),
        (["plan", "--bath", "3"], 'no option "--bath" for plan; the nearest is --batch.'),
        (["plan", "--bath=3"], 'no option "--bath" for plan; the nearest is --batch.'),
        (["plan", "--prompt", "3"], "the nearest is --prompt-tokens."),
        (["plan", "-x"], 'no option "-x" for plan'),
        (["plan", "--batch"], "--batch needs a value"),
        (["plan", "--batch", "--json"], "--batch needs a value"),
        (["plan", "--json=1"], "--json takes no value"),
        (["plan", "a.json", "b.json"], '"b.json" is one argument too many for plan'),
        (["plan", "--set", "workload.batch"], '--set is "workload.batch"; it takes PATH=VALUE'),
        (["plan", "--set", "=4"], "it takes PATH=VALUE"),
        (["plan", "--set"], "--set needs a value"),
        (["plan", "--preset", "cat"], "(the nearest is chat)"),
        (["show"], "MODEL is missing"),
        (["models", "extra"], "one argument too many for models"),
        (["warm", "--fast"], 'no option "--fast" for warm'),
    ],
)
def test_a_mistake_is_one_sentence_with_the_nearest(refused, engine, arguments, words):
    assert words in refused(*arguments)
    assert engine.scenarios == []


@pytest.mark.parametrize("value", ["-1", "-1e5", "-inf", "-x", "--7"])
def test_a_value_that_starts_with_a_dash_is_a_value(refused, value):
    assert refused("plan", "--batch", value).startswith("workload.batch is ")


@pytest.mark.parametrize("command", LISTS)
def test_lists_are_arrays_of_objects_with_id_and_name(run, command):
    ran = run(command, "--json")
    assert (ran.code, ran.err) == (0, "")
    rows = json.loads(ran.out)
    assert rows
    assert all(isinstance(row["id"], str) and isinstance(row["name"], str) for row in rows)
    assert len({row["id"] for row in rows}) == len(rows)
    text = run(command)
    assert text.code == 0
    assert all(row["id"] in text.out for row in rows)
    assert "/" + "work/" not in ran.out


def test_sentences_of_the_engine_are_bad_input(refused, monkeypatch):
    import hardware

    for error in (PlanError("system.id is odd;\nit takes an id."), hardware.HardwareError("No such system")):

        def plan(scenario, error=error):
            raise error

        monkeypatch.setattr(planner, "plan", plan, raising=False)
        assert refused("plan") == " ".join(str(error).split()).rstrip(".") + "."


@pytest.mark.parametrize("error", [RuntimeError("odd"), ValueError("odd"), KeyError("odd"), RecursionError("odd")])
def test_a_fault_of_the_program_is_one_sentence_and_where_to_report(run, monkeypatch, error):
    def plan(scenario):
        raise error

    monkeypatch.setattr(planner, "plan", plan, raising=False)
    monkeypatch.delenv("TIERLINE_DEBUG", raising=False)
    ran = run("plan", "--json")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.count("\n") == 1
    assert type(error).__name__ in ran.err
    assert "report" in ran.err
    monkeypatch.setenv("TIERLINE_DEBUG", "1")
    assert "Traceback" in run("plan", "--json").err


def test_an_interrupt_is_quiet(run, monkeypatch):
    def plan(scenario):
        raise KeyboardInterrupt

    monkeypatch.setattr(planner, "plan", plan, raising=False)
    assert run("plan") == (130, "", "")


def test_a_terminal_without_unicode_gets_an_answer(monkeypatch, engine):
    from planner.cli.main import main

    for encoding in ("ascii", "cp1252"):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["plan"]) == 0
        assert stream.buffer.getvalue().startswith(b"Fits.")


# --- in processes of their own -------------------------------------------------------------------------------------

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ImportError(name + " must not be imported here")

sys.meta_path.insert(0, Blocked())
from planner.cli.main import main
sys.exit(max(main(arguments) for arguments in {lines!r}))
"""
UI = {"streamlit", "plotly", "sqlalchemy", "alembic", "pandas"}


def run_blocked(blocked: set[str], lines: list[list[str]]) -> subprocess.CompletedProcess[str]:
    return shell(code=BLOCKED.format(blocked=blocked, lines=lines), PYTHONPATH=str(ROOT))


def test_nothing_needs_the_page():
    lines = [["--help"], *([name, "--json"] for name in LISTS), ["schema"], ["plan", "--help"]]
    lines += [["plan", "--json"], ["show", "mistralai/Mixtral-8x7B-v0.1", "--json"]]
    ran = run_blocked(UI, lines)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_help_and_the_lists_of_catalogs_need_no_compiler():
    lists = [name for name in LISTS if name not in ("policies", "traces")]  # these two come with their code
    lines = [["--help"], ["plan", "--help"], *([name, "--json"] for name in lists), ["schema"]]
    lines += [["show", "mistralai/Mixtral-8x7B-v0.1", "--json"]]
    ran = run_blocked(UI | {"numba", "llvmlite", "scipy"}, lines)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_exit_codes_of_the_process():
    good, bad = shell("--help"), shell("plan", "--batch", "0")
    assert (good.returncode, good.stderr) == (0, "")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr == "workload.batch is 0; it takes a whole number from 1 to 65,536.\n"


def test_a_reader_that_stops_early_is_no_error():
    process = subprocess.Popen(
        [sys.executable, "-m", "planner", "schema"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()  # before it can have written anything
    assert process.stderr is not None
    with process.stderr as errors:
        assert errors.read() == b""
    assert process.wait(60) == 0


def test_an_answer_that_cannot_be_written_is_said():
    command = [sys.executable, "-m", "planner", "schema"]
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"The answer could not be written: ")
    assert ran.stderr.count(b"\n") == 1
