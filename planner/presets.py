"""Workload presets as data: typical lengths and the service targets that the field uses for them.

The table is ``planner/data/presets.json``; each entry names its source. A preset fills the workload of a
scenario; whoever plans goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from planner.scenario import Workload

_FILE = Path(__file__).parent / "data" / "presets.json"


@dataclass(frozen=True)
class Preset:
    """One named workload. ``workload`` maps fields of :class:`planner.scenario.Workload` to values."""

    id: str
    name: str
    sentence: str
    workload: Mapping[str, int | float]
    slo_ttft_s: float | None
    slo_tpot_s: float | None
    source: str

    def values(self) -> dict[str, int | float | str | None]:
        """All workload fields that the preset sets, its targets and its own id among them."""
        return {
            "preset": self.id,
            **self.workload,
            "slo_ttft_s": self.slo_ttft_s,
            "slo_tpot_s": self.slo_tpot_s,
        }

    def apply(self, workload: Workload | None = None) -> Workload:
        """The workload with this preset's values; load, utilisation and drafts stay as they are."""
        kept = (workload or Workload()).model_dump()
        return Workload.model_validate({**kept, **self.values()})


@lru_cache(maxsize=1)
def presets() -> tuple[Preset, ...]:
    """All presets, in the order in which they are offered."""
    rows = json.loads(_FILE.read_text(encoding="utf-8"))["presets"]
    return tuple(Preset(**{**row, "workload": MappingProxyType(row["workload"])}) for row in rows)


def preset(preset_id: str) -> Preset:
    """The preset of that id. Raises ValueError with the nearest known id."""
    known = {entry.id: entry for entry in presets()}
    if preset_id in known:
        return known[preset_id]
    near = get_close_matches(preset_id, known, n=1, cutoff=0.0)
    raise ValueError(f"workload.preset is {preset_id!r}; known presets are {', '.join(known)}. Nearest: {near[0]!r}.")
