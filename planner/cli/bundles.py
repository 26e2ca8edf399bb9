"""``export`` writes a scenario or a project as one file; ``import`` checks such a file and adds it to the library."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.output import check_out, json_text
from planner.cli.parsing import CommandParser, UsageError
from planner.fields.sentences import nearest, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from db import Store
    from planner.bundle import Bundle

EXPORT = "export"


def run(command: str, arguments: list[str]) -> str:
    """What was written or added. Raises PlanError with a sentence."""
    return _export(command, arguments) if command == EXPORT else _import(command, arguments)


def _export(command: str, arguments: list[str]) -> str:
    parser = CommandParser(
        command,
        "Writes one JSON file with a scenario or a project of the library: all versions and comments, and every loss "
        "table, time table, calibration and measured machine that they refer to.",
    )
    parser.add_argument(
        "what",
        metavar="WHAT",
        help="id of a saved scenario (it stands in its address), name or id of a project, or a file with a scenario",
    )
    parser.add_argument("--out", metavar="FILE", required=True, help="file to write")
    parser.add_argument("--name", metavar="NAME", help="name of a scenario that comes from a file")
    options = parser.read(arguments)

    check_out(options.out)
    from planner.bundle import write
    from planner.files import write_whole

    content = _from_file(options.what, options.name) if _is_file(options.what) else _from_library(options.what)
    data = write(content)
    write_whole(options.out, data)
    if options.json:
        return json_text({"file": options.out, "bytes": len(data), **_counts(content), "missing": content.missing})
    lines = [f"Wrote {_told(content)} to {options.out} ({len(data) / 1e6:.2f} MB).\n"]
    return "".join(lines + [f"Not in the file: {sentence}\n" for sentence in content.missing])


def _import(command: str, arguments: list[str]) -> str:
    parser = CommandParser(
        command, "Checks a file that export wrote and adds everything in it to the library, or nothing of it."
    )
    parser.add_argument("file", metavar="FILE", help="file that export wrote")
    parser.add_argument("--project", metavar="NAME", help="name or id of the project to add to; empty = the file's own")
    options = parser.read(arguments)

    from planner.bundle import read_file

    content = read_file(options.file)
    with _library() as store:
        into = None if options.project is None else _project(store, options.project)
        added = store.import_bundle(content, into)
    if options.json:
        found = [{"id": row.id, "name": row.name, "versions": row.version} for row in added]
        return json_text({**_counts(content), "added": found})
    return f"Added {_told(content)}.\n" + "".join(f"{row.id}  {row.name}\n" for row in added)


@contextmanager
def _library() -> Iterator[Store]:
    """The store that the environment names; its errors as those of a command."""
    from db import StoreError, open_store

    try:
        store = open_store()
        yield store
    except StoreError as error:
        raise UsageError(str(error)) from None
    store.close()


def _is_file(what: str) -> bool:
    return what == "-" or what.endswith(".json") or Path(what).is_file()


def _from_file(what: str, name: str | None) -> Bundle:
    from db import StoreError
    from db.text import NAME_CHARS, clean_name, visible
    from planner.bundle import of_scenario
    from planner.cli.configs import read_limited
    from planner.fields import scenario_from_json

    scenario = scenario_from_json(read_limited(what, "scenario"))
    stem = visible(Path(what).stem)[:NAME_CHARS]
    try:
        # A name that no library takes would make a file that none imports.
        return of_scenario(scenario, clean_name(stem if name is None and stem.strip() else name or ""))
    except StoreError as error:
        raise UsageError(f"--name cannot be used: {error}") from None


def _from_library(what: str) -> Bundle:
    from db.sessions import key_of

    with _library() as store:
        if key_of(what) is not None and store.get_project(what) is None:
            return store.export_scenario(what)
        return store.export_project(_project(store, what))


def _project(store: Store, what: str) -> str:
    projects = store.projects()
    found = [project.id for project in projects if what in (project.id, project.name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{len(found)} projects are called {shown(what)}; name one by its id: {', '.join(found)}.")
    close = nearest(what, [project.name for project in projects])
    near = f"; the nearest is {shown(close[0])}" if close else ""
    raise UsageError(f"There is no scenario and no project {shown(what)} in the library{near}.")


def _counts(content: Bundle) -> dict[str, int]:
    return {
        "scenarios": len(content.scenarios),
        "versions": content.versions,
        "comments": sum(len(each.comments) for each in content.scenarios),
        "attachments": len(content.attachments),
    }


def _told(content: Bundle) -> str:
    counts = _counts(content)
    words = [f"{count} {name[:-1] if count == 1 else name}" for name, count in counts.items() if count]
    whole = f"project {shown(content.project.name)}: " if content.project is not None else ""
    return whole + ", ".join(words)
