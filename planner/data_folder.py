"""Where a person's own tables, calibrations and measured machines are kept: a folder of the data directory each."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def folder(name: str) -> Path:
    """``name`` in the data directory: ``TIERLINE_DATA``, else the user's own. It is made when something is kept."""
    chosen = os.environ.get("TIERLINE_DATA", "").strip()
    base = Path(chosen).expanduser() if chosen else platformdirs.user_data_path("tierline", appauthor=False)
    return base.absolute() / name
