"""Tables that a person brings as CSV: columns in any order, after optional lines that start with ``#``.

One of these lines, ``# KEY: {...}``, says where the table comes from. What is read is hostile until parsed: size, rows,
columns and cells are held against what one kind of table accepts, and every refusal is one sentence.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.errors import PlanError
from planner.fields.sentences import nearest, shown


@dataclass(frozen=True)
class Kind:
    """What one kind of table accepts."""

    what: str  # "loss table"
    columns: tuple[str, ...]
    key: str  # of the line with the provenance
    error: type[PlanError]
    most_bytes: int
    most_rows: int
    longest_header: int  # characters of the provenance
    optional: tuple[str, ...] = ()
    not_text: str = "is not CSV in UTF-8"

    def check_size(self, data: bytes, name: str) -> None:
        if len(data) > self.most_bytes:
            raise self.error(
                f"The {self.what} {shown(name)} is larger than {self.most_bytes / 1e6:.0f} MB, the most that is "
                "accepted."
            )

    def check_rows(self, rows: int, name: str) -> None:
        if rows > self.most_rows:
            raise self.error(f"{shown(name)} has more than {self.most_rows:,} rows, the most that is accepted.")

    def order(self, header: Sequence[str], name: str) -> dict[str, int]:
        """Position of each column."""
        accepted = ", ".join(self.columns)
        if self.optional:
            accepted = f"{accepted} and, if wanted, {', '.join(self.optional)}"
        known = (*self.columns, *self.optional)
        for column in header:
            if column not in known:
                close = nearest(column, known)
                hint = f"; the nearest is {close[0]}" if close else ""
                raise self.error(
                    f"{shown(name)} has the column {shown(column)}; the columns of a {self.what} are {accepted}, "
                    f"separated by commas{hint}."
                )
            if header.count(column) > 1:
                raise self.error(f"{shown(name)} has the column {column} twice.")
        missing = [column for column in self.columns if column not in header]
        if missing:
            raise self.error(
                f"{shown(name)} lacks the column {missing[0]}; the columns of a {self.what} are {accepted}."
            )
        return {column: header.index(column) for column in header}

    def kept(self, text: str) -> dict[str, Any]:
        """The provenance of a file; anything that is not a small JSON object says nothing."""
        if len(text) > self.longest_header:
            return {}
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


@dataclass
class CsvTable:
    """A table in the bytes of a CSV file; ``name`` is only shown. Iterating yields (line number, cells) of each row."""

    kind: Kind
    data: bytes
    name: str
    kept: dict[str, Any] = field(default_factory=dict, init=False)
    order: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        try:
            lines = io.StringIO(self.data.decode("utf-8-sig"), newline="")
        except UnicodeDecodeError:
            raise self.kind.error(f"{shown(self.name)} {self.kind.not_text}.") from None
        self._skipped = start = 0
        for line in lines:
            if line.startswith("#"):
                self.kept = self.kept or self._comment(line)
            elif line.strip():
                break
            start, self._skipped = start + len(line), self._skipped + 1
        lines.seek(start)
        self._reader = csv.reader(lines, strict=True)
        try:
            header = [cell.strip().lower() for cell in next(self._reader, [])]
        except csv.Error as error:
            raise self._not_csv(error) from None
        self.order = self.kind.order(header, self.name)

    def __iter__(self) -> Iterator[tuple[int, list[str]]]:
        reader, found, width = self._reader, 0, len(self.order)
        try:
            for row in reader:
                if not row:
                    continue
                found += 1
                self.kind.check_rows(found, self.name)
                if len(row) != width:
                    raise self.kind.error(
                        f"{self.where(self._skipped + reader.line_num)} has {len(row)} values; the header names "
                        f"{width} columns."
                    )
                yield self._skipped + reader.line_num, row
        except csv.Error as error:
            raise self._not_csv(error) from None

    def where(self, line: int) -> str:
        """How a sentence names a line."""
        return f"Line {line:,} of {shown(self.name)}"

    def _not_csv(self, error: csv.Error) -> PlanError:
        return self.kind.error(f"{self.where(self._skipped + self._reader.line_num)} is not CSV: {error}.")

    def _comment(self, line: str) -> dict[str, Any]:
        """The provenance in a comment line; most comments have none."""
        text = line.lstrip("# ")
        return self.kind.kept(text.removeprefix(f"{self.kind.key}:")) if text.startswith(f"{self.kind.key}:") else {}
