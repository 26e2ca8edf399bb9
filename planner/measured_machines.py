"""The measured machines that are kept here, found by their content, as loss tables are (:mod:`planner.loss_tables`)."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from planner.data_folder import folder
from planner.errors import PlanError
from planner.fields.sentences import shown
from planner.loss_table_io import write_whole
from planner.measured_machine import LARGEST_BYTES, MeasuredMachine, parse

FOLDER, SUFFIX = "machines", ".json"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def directory() -> Path:
    """Where machines are kept; made when the first one is."""
    return folder(FOLDER)


def register(machine: MeasuredMachine) -> str:
    """Keep a machine and return its digest; keeping it again does nothing. Raises PlanError."""
    data = machine.text().encode()
    parse(data, "The measured machine")
    path = directory() / f"{machine.digest}{SUFFIX}"
    if not path.is_file():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = error.strerror or error
            raise PlanError(f"The folder for machines, {shown(str(path.parent))}, cannot be made: {reason}.") from None
        write_whole(path, data)
    return machine.digest


def get(digest: str) -> MeasuredMachine:
    """The kept machine of this digest. Raises PlanError when it is not one, not here, or changed on disk."""
    if not _DIGEST.fullmatch(digest):
        raise PlanError(
            f"system.measured is {shown(digest)}; it takes the 64 hexadecimal digits of a kept machine's digest, which "
            "import-machine prints, or nothing for the catalog's figures."
        )
    path = directory() / f"{digest}{SUFFIX}"
    try:
        stamp = path.stat()
    except OSError:
        raise PlanError(
            f"system.measured {digest[:12]}... is not on this machine; import the file that it came from "
            "(import-machine)."
        ) from None
    return _kept(path, digest, stamp.st_mtime_ns)


def known() -> dict[str, MeasuredMachine]:
    """Kept machines by digest; damaged ones are left out."""
    found = {}
    try:
        names = sorted(p.name.removesuffix(SUFFIX) for p in directory().iterdir() if p.suffix == SUFFIX)
    except OSError:
        return {}
    for name in names:
        if _DIGEST.fullmatch(name):
            try:
                found[name] = get(name)
            except PlanError:
                continue
    return found


@lru_cache(maxsize=32)
def _kept(path: Path, digest: str, stamp: int) -> MeasuredMachine:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise PlanError(f"system.measured {digest[:12]}... cannot be read: {error.strerror or error}.") from None
    found = parse(data, f"The machine {digest[:12]}...")
    if found.digest != digest:
        raise PlanError(f"system.measured {digest[:12]}... was changed on disk; import it again (import-machine).")
    return found
