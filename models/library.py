"""The catalog of models: configs as published, with notes on what they leave out, and siblings that share a config."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from models.architecture import Architecture
from models.counts import parameters
from models.errors import ModelError, nearest, quoted
from models.notes import read_note
from models.reader import build

CATALOG = Path(__file__).parent / "catalog"
NOTES_FILE = "notes.json"
_SUFFIX = ".inference-format"
INFERENCE = "(inference format)"


@dataclass(frozen=True)
class CatalogEntry:
    """One model of the picker: ``group`` is the vendor, ``sentence`` says what it is in one line."""

    id: str
    name: str
    group: str
    sentence: str
    plannable: bool
    why_not: str | None


@cache
def _notes() -> dict[str, Any]:
    return json.loads((CATALOG / NOTES_FILE).read_text(encoding="utf-8"))


@cache
def _files() -> dict[str, Path]:
    """Model id to config file."""
    found = {}
    for path in sorted(CATALOG.glob("*__*.json")):
        stem = path.stem
        label = stem.removesuffix(_SUFFIX).replace("__", "/", 1)
        found[label if stem == path.stem.removesuffix(_SUFFIX) else f"{label} {INFERENCE}"] = path
    return found


def model_ids() -> tuple[str, ...]:
    """All ids that :func:`load` knows, siblings included."""
    return (*_files(), *_notes()["siblings"])


@lru_cache(maxsize=256)
def load(model_id: str) -> Architecture:
    """Architecture of a catalog model by its Hugging Face id; :class:`ModelError` names the nearest ids otherwise."""
    if not isinstance(model_id, str) or model_id not in model_ids():
        raise ModelError(
            f"model {quoted(model_id, 100)} is not in the catalog; the nearest: "
            f"{', '.join(nearest(str(model_id), model_ids()))}."
        )
    note = read_note(_notes()["checkpoints"].get(model_id, {}))
    return build(published_config(model_id), model_id, model_id.split("/", 1)[-1], note)


def published_config(model_id: str) -> dict[str, Any]:
    """The config.json of a catalog model as a fresh dictionary, siblings with their changes."""
    sibling = _notes()["siblings"].get(model_id, {})
    path = _files()[sibling.get("config_of", model_id)]
    config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if sibling:
        config = {**config, **sibling.get("changes", {}), "_source": sibling["source"], "_note": ""}
        config = {key: value for key, value in config.items() if key not in sibling.get("without", ())}
    return config


def _count(parameters: int) -> str:
    for scale, unit in ((1e12, "T"), (1e9, "B"), (1e6, "M")):
        if parameters >= scale:
            return f"{float(f'{parameters / scale:.3g}'):g} {unit}"
    return str(parameters)


def sentence(arch: Architecture) -> str:
    """One line for people: sizes, layers, experts."""
    counts = parameters(arch)
    shared = f" + {arch.shared_experts} shared" if arch.shared_experts else ""
    return (
        f"{_count(counts.main)} parameters, {_count(counts.active)} active per token; "
        f"{len(arch.moe_layers)} MoE layers x {arch.experts} experts{shared}, top-{arch.top_k}"
    )


@cache
def catalog() -> tuple[CatalogEntry, ...]:
    """All models of the catalog by vendor and name; the vendor's inference formats come last in their group."""
    groups = _notes()["groups"]
    entries = []
    for model_id in model_ids():
        arch = load(model_id)
        group = groups.get(model_id.split("/", 1)[0], model_id.split("/", 1)[0])
        entries.append(CatalogEntry(model_id, arch.name, group, sentence(arch), arch.plannable, arch.why_not))
    return tuple(
        sorted(entries, key=lambda e: (e.group.lower(), e.name.endswith("(inference format)"), e.name.lower()))
    )
