"""The documentation of the command line is true: its examples run, its tables name what there is."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

import planner
from planner.cli.main import COMMANDS
from planner.cli.schema import markdown, schema
from planner.fields import fields
from planner.result import Headline, Result
from planner.scenario import Scenario

DOCS = Path(planner.__path__[0]).parent / "docs"
PAGE = (DOCS / "cli.md").read_text(encoding="utf-8")
EXAMPLES = [
    line.partition(" | ")[0].removeprefix("python -m planner ")
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
]


def test_schema_page_is_up_to_date():
    assert (DOCS / "schema.md").read_text(encoding="utf-8") == markdown(), (
        "write it again: python -m planner schema --markdown > docs/schema.md"
    )


def test_schema_page_has_every_field_and_every_figure():
    page = markdown()
    assert all(f"| `{path}` |" in page for path in fields())
    assert all(f"| `{name}` |" in page for name in (*Result.model_fields, *Headline.model_fields))
    assert "any JSON" not in page


def test_json_schema_is_versioned_and_closed(run):
    printed = json.loads(run("schema", "--json").out)
    assert printed == schema()
    assert (printed["scenario_schema_version"], printed["result_schema_version"]) == (1, 1)
    assert printed["scenario"]["properties"]["schema_version"]["const"] == 1
    assert printed["scenario"]["additionalProperties"] is False


def test_every_field_of_the_scenario_is_in_the_table():
    flat = {
        f"{section}.{name}" if isinstance(part, dict) else section
        for section, part in Scenario().model_dump().items()
        for name in (part if isinstance(part, dict) else [section])
    }
    assert set(fields()) == flat
    assert all(spec.description for spec in fields().values())


def test_page_names_every_command_and_every_figure_of_the_contract():
    assert all(f"`{command}" in PAGE for command in COMMANDS)
    assert all(f"`{name}`" in PAGE for name in Headline.model_fields)


def test_page_names_every_flag_of_plan(run):
    flags = set(re.findall(r"^  (--[a-z-]+)", run("plan", "--help").out, re.MULTILINE))
    assert len(flags) > 12
    assert all(f"`{flag}" in PAGE for flag in flags)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_of_the_page_run(run, engine, example: str):
    assert len(EXAMPLES) >= 8
    ran = run(*shlex.split(example))
    assert (ran.code, ran.err) == (0, "")
