"""The time tables of this machine, kept by their content; a scenario names one in ``policy.options["time_table"]``."""

from __future__ import annotations

from planner.keeper import Keeper
from planner.time_table import TimeTable, TimeTableError
from planner.time_table_io import KIND, digest, parse_table, table_bytes

PHYSICS = "physics"
"""what the option says where no table is chosen: the formulas of the planner"""

_TABLES = Keeper[TimeTable](
    folder="time_tables",
    suffix=".csv",
    plural="time tables",
    subject="The time table",
    option="policy.options.time_table",
    accepted=f"{PHYSICS}, or the 64 hexadecimal digits of a time table's digest, which import-times prints",
    again="import the file that it came from (import-times)",
    largest_bytes=KIND.most_bytes,
    read=lambda data: parse_table(data, "the kept file"),
    write=table_bytes,
    digest=digest,
    error=TimeTableError,
    open_at_once=8,
)
directory, register, known = _TABLES.directory, _TABLES.register, _TABLES.known


def chosen(text: str) -> TimeTable | None:
    """The table that an option names, None for ``physics``. Raises TimeTableError when this machine has none such."""
    word = text.strip()
    return None if word == PHYSICS else _TABLES.get(word)
