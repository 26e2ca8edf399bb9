"""What a person keeps for scenarios, found by its content: loss tables, time tables, calibrations, measured machines.

A scenario is small and must give the same figures wherever it is opened, so it names such a thing by the digest of its
content. The thing itself lies as one file under that name in a folder of the data directory (``TIERLINE_DATA``, else
the user's own), and one that was changed on disk is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Generic, TypeVar

from planner.data_folder import folder
from planner.errors import PlanError
from planner.fields.sentences import shown
from planner.files import write_whole

DIGEST = re.compile(r"[0-9a-f]{64}")
Kept = TypeVar("Kept")


@dataclass(frozen=True, eq=False)
class Keeper(Generic[Kept]):
    """One folder of things of one kind. Every refusal is ``error`` with one sentence."""

    folder: str
    suffix: str
    plural: str  # "loss tables"
    subject: str  # how a sentence about one begins, before its digest: "The loss table", "system.measured"
    option: str  # path of the scenario that names one
    accepted: str  # what that field takes
    again: str  # what to do for one that is not here: "import the file that it came from (import-losses)"
    largest_bytes: int
    read: Callable[[bytes], Kept]  # raises PlanError, or another ValueError for what is no such file at all
    write: Callable[[Kept], bytes]
    digest: Callable[[Kept], str]
    error: type[PlanError] = PlanError
    open_at_once: int = 32
    _opened: Callable[[Path, str, tuple[int, int]], Kept] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_opened", lru_cache(maxsize=self.open_at_once)(self._open))

    def directory(self) -> Path:
        """Where they are kept; made when the first one is."""
        return folder(self.folder)

    def register(self, item: Kept) -> str:
        """Keep one and return its digest; keeping it again does nothing."""
        data, name = self.write(item), self.digest(item)
        self.read(data)  # what cannot be opened is not kept
        path = self._path(name)
        if not path.is_file():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as trouble:
                raise self.error(
                    f"The folder for {self.plural}, {shown(str(path.parent))}, cannot be made: "
                    f"{trouble.strerror or trouble}."
                ) from None
            write_whole(path, data, self.error)
        return name

    def known(self) -> tuple[str, ...]:
        """Digests of those that this machine has, in order."""
        try:
            names = [path.name.removesuffix(self.suffix) for path in self.directory().iterdir()]
        except OSError:
            return ()
        return tuple(sorted(name for name in names if DIGEST.fullmatch(name) and self._path(name).is_file()))

    def sound(self) -> dict[str, Kept]:
        """Those that this machine has, by digest; damaged ones are left out."""
        found = {}
        for name in self.known():
            try:
                found[name] = self.get(name)
            except PlanError:
                continue
        return found

    def get(self, name: str) -> Kept:
        """The one with this digest. Refuses what is no digest, not on this machine, or changed on disk."""
        path = self._path(self.named(name))
        try:
            stamp = path.stat()
        except OSError:
            raise self.error(f"{self._subject(name)} is not on this machine; {self.again}.") from None
        return self._opened(path, name, (stamp.st_mtime_ns, stamp.st_size))

    def named(self, name: str) -> str:
        """A name that is a digest, and so no path."""
        if not isinstance(name, str) or not DIGEST.fullmatch(name):
            raise self.error(f"{self.option} is {shown(name)}; accepted is {self.accepted}.")
        return name

    def _path(self, name: str) -> Path:
        return self.directory() / f"{name}{self.suffix}"

    def _subject(self, name: str) -> str:
        return f"{self.subject} {name[:12]}..."

    def _open(self, path: Path, name: str, _stamp: tuple[int, int]) -> Kept:
        """Read a file; its stamp makes a changed one be read anew."""
        try:
            with path.open("rb") as file:
                data = file.read(self.largest_bytes + 1)
            if len(data) > self.largest_bytes:
                raise ValueError("too large")
            found = self.read(data)
        except PlanError as trouble:
            raise self.error(f"{self._subject(name)} cannot be used: {trouble}") from None
        except (OSError, ValueError):
            raise self.error(f"{self._subject(name)} is damaged on disk; {self.again}.") from None
        if self.digest(found) != name:
            raise self.error(f"{self._subject(name)} was changed on disk; {self.again}.")
        return found
