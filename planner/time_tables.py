"""The time tables of this machine, found by their content, as loss tables are (:mod:`planner.loss_tables`).

A scenario names a table by digest (``policy.options["time_table"]``); the table lies as CSV in ``time_tables/`` of the
data directory, and one that was changed on disk is refused.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from planner.data_folder import folder
from planner.fields.sentences import shown
from planner.loss_table_io import write_whole
from planner.time_table import TimeTable, TimeTableError
from planner.time_table_io import digest, parse_table, table_bytes

PHYSICS = "physics"
"""what the option says where no table is chosen: the formulas of the planner"""
FOLDER, SUFFIX = "time_tables", ".csv"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def directory() -> Path:
    """Where tables are kept; made when the first one is."""
    return folder(FOLDER)


def register(table: TimeTable) -> str:
    """Keep a table and return its digest; keeping it again does nothing."""
    name, home = digest(table), directory()
    path = home / f"{name}{SUFFIX}"
    if not path.is_file():
        try:
            home.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise TimeTableError(f"The folder for time tables, {shown(str(home))}, cannot be made: {reason}.") from None
        write_whole(path, table_bytes(table))
    return name


def known() -> tuple[str, ...]:
    """Digests of the tables that this machine has, in order."""
    try:
        names = [path.name.removesuffix(SUFFIX) for path in directory().iterdir() if path.suffix == SUFFIX]
    except OSError:
        return ()
    return tuple(sorted(name for name in names if _DIGEST.fullmatch(name)))


def chosen(text: str) -> TimeTable | None:
    """The table that an option names, None for ``physics``. Raises TimeTableError when this machine has none such."""
    word = text.strip()
    if word == PHYSICS:
        return None
    if not _DIGEST.fullmatch(word):
        raise TimeTableError(
            f"policy.options.time_table is {shown(text)}; accepted is {PHYSICS}, or the 64 hexadecimal digits of a "
            "time table's digest, which import-times prints."
        )
    return _get(directory() / f"{word}{SUFFIX}", word)


@lru_cache(maxsize=8)
def _get(path: Path, name: str) -> TimeTable:
    try:
        data = path.read_bytes()
    except OSError:
        raise TimeTableError(
            f"The time table {name[:12]}... is not on this machine; import the file that it came from (import-times)."
        ) from None
    if hashlib.sha256(data).hexdigest() != name:
        raise TimeTableError(f"The time table {name[:12]}... was changed on disk; import it again.")
    return parse_table(data, f"{name[:12]}{SUFFIX}")
