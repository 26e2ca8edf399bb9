"""The model of a measured run: its catalog entry, or one that stands in for it, and the format of its weights."""

from __future__ import annotations

from typing import Any

import models
from planner.fields.sentences import nearest
from validation.measured import formats
from validation.measured.machine import UnmappableError
from validation.measured.runs import Run

STAND_INS: dict[str, tuple[str, dict[str, Any], str]] = {
    "qwen3.6-35b-a3b": ("Qwen/Qwen3.5-35B-A3B", {}, "Qwen3.5-35B-A3B stands in: same dimensions, not verified"),
    "qwen3.8-flash-next": (
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        {"hidden_size": 2560, "moe_intermediate_size": 640},
        "no config is published: Qwen3-Next with hidden size 2560 and experts of 640, from 63 GiB of NVFP4 experts",
    ),
}
"""Models without a published config: catalog model, changes to its config, what is assumed."""


def _stand_in(run: Run) -> tuple[str, dict[str, Any], str] | None:
    name = run.model.casefold()
    return next((found for start, found in STAND_INS.items() if name.startswith(start)), None)


def model_id(run: Run) -> str:
    """The catalog id that the run's model means. Raises UnmappableError, naming the nearest."""
    known = models.model_ids()
    instead = _stand_in(run)
    if instead:
        return instead[0]
    if run.model in known:
        return run.model
    short = {name.split("/")[-1].casefold(): name for name in known}
    text = run.model.split("/")[-1].casefold()
    if text in short:
        return short[text]
    close = nearest(text, short, cutoff=0.6)
    hint = f"; the nearest is {short[close[0]]!r}" if close else ""
    raise UnmappableError(f"model {run.model[:80]!r} is not in the catalog{hint}")


def model_fields(run: Run, assumed: list[str]) -> dict[str, Any]:
    """The model of a scenario; what had to be assumed for it is added to ``assumed``. Raises UnmappableError."""
    ident = model_id(run)
    gpu_part = formats.whole_model(run.weight_bits, run.weight_bits_note)
    if run.system_family in ("ik_llama.cpp", "llama.cpp") and "-ot exps=CPU" in run.resident_part:
        gpu_part = "gguf-q8_0"  # recipes keep what is not a routed expert near eight bits
    fields: dict[str, Any] = {"id": ident, "weight_format": gpu_part}
    if run.top_k_used and run.top_k_used != models.load(ident).top_k:
        config = models.published_config(ident)
        key = next((k for k in ("num_experts_per_tok", "moe_topk", "num_experts_per_token") if k in config), None)
        if key is None:
            raise UnmappableError(f"{run.top_k_used} experts per token cannot be set in the config of {ident}")
        fields["config"] = {**config, key: int(run.top_k_used)}
    instead = _stand_in(run)
    if instead:
        assumed.append(instead[2])
        if instead[1]:
            fields["config"] = {**models.published_config(ident), **instead[1]}
    return fields
