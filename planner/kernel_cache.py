"""Where compiled kernels are kept: one folder per state of the kernels' sources.

Numba looks at the file of the kernel that is called, not at the files of the kernels that it imports: after a change in
an imported one it would run the old machine code. A folder named by a digest of all of them cannot.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

KEPT = 4
"""Folders of other states that `warm` leaves: other checkouts, or the branch of an hour ago."""


def digest(root: Path) -> str:
    """Digest of every source under ``root`` that has to do with Numba, 16 hexadecimal digits; reading takes 10 ms."""
    found = hashlib.sha256(sys.version.encode())
    for path in sorted(root.rglob("*.py")):
        content = path.read_bytes()
        if b"numba" in content:
            found.update(path.relative_to(root).as_posix().encode() + b"\0" + content + b"\0")
    return found.hexdigest()[:16]


def folder(root: Path) -> Path:
    """Where the kernels of this state go: the user's cache, or a temporary folder if that cannot be written."""
    from platformdirs import user_cache_path

    name = digest(root)
    own = user_cache_path("tierline") / "kernels" / name
    try:
        own.mkdir(parents=True, exist_ok=True)
    except OSError:
        writable = False
    else:
        writable = os.access(own, os.W_OK)
    if writable:
        return own
    user = getattr(os, "getuid", int)()
    return Path(tempfile.gettempdir()) / f"tierline-kernels-{user}" / name


def choose(root: Path) -> None:
    """Tell Numba, unless the environment says where. Call it before Numba is imported."""
    if "NUMBA_CACHE_DIR" not in os.environ:
        os.environ["NUMBA_CACHE_DIR"] = str(folder(root))


def forget_old(kept: int = KEPT) -> int:
    """Remove the folders of older states beside the one in use, all but the newest ``kept``; how many were removed."""
    here = Path(os.environ.get("NUMBA_CACHE_DIR", ""))
    if here.parent.name != "kernels" and not here.parent.name.startswith("tierline-kernels-"):
        return 0
    others = [p for p in here.parent.iterdir() if p.is_dir() and p != here and len(p.name) == len(here.name)]
    old = sorted(others, key=lambda p: p.stat().st_mtime, reverse=True)[kept:]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return len(old)
