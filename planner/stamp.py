"""What a result rests on besides its scenario, without the engine: a library stamps what it keeps with it."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

import hardware

_HERE = Path(__file__).parent
_ROOTS = (_HERE.parent / "models" / "catalog", _HERE / "data", _HERE / "routing")


@lru_cache(maxsize=1)
def catalog_digest() -> str:
    """SHA-256 over all data that a result rests on: model and hardware catalogs, presets, traces, loss surrogates."""
    digest = hashlib.sha256(hardware.catalog_digest().encode())
    for root in _ROOTS:
        for path in sorted(p for p in root.rglob("*") if p.suffix in {".json", ".npz", ".csv"}):
            digest.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
