"""Files of a person: read up to a limit, written whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from planner.errors import PlanError
from planner.fields.sentences import shown


def read_limited(path: str | Path, most: int, what: str = "file", error: type[PlanError] = PlanError) -> bytes:
    """The bytes of a file, one more than ``most`` at the most: whoever parses them refuses what is too large.

    Raises ``error`` with one sentence when there is no such file or it cannot be read.
    """
    name = Path(path).name or str(path)
    try:
        with open(path, "rb") as file:
            return file.read(most + 1)
    except FileNotFoundError:
        raise error(f"There is no {what} {shown(name)}.") from None
    except (OSError, ValueError) as trouble:
        raise error(f"The {what} {shown(name)} cannot be read: {_reason(trouble)}.") from None


def write_whole(path: str | Path, data: bytes, error: type[PlanError] = PlanError) -> None:
    """Write beside the file, to the disk, then rename: a reader finds the old file or the new one.

    A device or a pipe is written to as it is, and a link keeps pointing where it points. Raises ``error`` with one
    sentence, and leaves nothing behind, when the file cannot be written.
    """
    target = Path(path)
    try:
        if target.is_symlink():
            target = target.resolve()
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_bytes(data)
            return
    except (OSError, ValueError) as trouble:
        raise error(f"The file {shown(target.name)} cannot be written: {_reason(trouble)}.") from None
    temporary = target.with_name(f".{target.name[:40]}.{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except (OSError, ValueError) as trouble:
        raise error(f"The file {shown(target.name)} cannot be written: {_reason(trouble)}.") from None
    finally:
        with suppress(OSError, ValueError):
            temporary.unlink(missing_ok=True)


def _reason(trouble: OSError | ValueError) -> str:
    return getattr(trouble, "strerror", None) or "its name is not valid"
