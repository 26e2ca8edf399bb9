"""The runs that all are asked about: a spread of the silicon table's cases, with what a peer needs to know of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.context import resolve
from validation.silicon.fit import Sample, samples
from validation.silicon.mapping import Case

BITS = {"fp8": "fp8", "fp4": "int4", "int4": "int4", "bf16": "bf16"}
"""Weight bits in the words of peers that know three."""


def chosen(cases: Sequence[Case], count: int) -> list[Sample]:
    """``count`` distinct unsaturated cases, taken in turn from every model, engine, GPU and prompt length."""
    groups: dict[tuple[str, ...], list[Sample]] = {}
    for sample in sorted(samples(cases), key=lambda s: (s.case.clients.count, s.case.key)):
        row = sample.case.row
        groups.setdefault(
            (sample.case.architecture, row.backend, row.system, str(row.prompt_tokens > 4000)), []
        ).append(sample)
    found: list[Sample] = []
    turn = 0
    while len(found) < count and any(groups.values()):
        for key in sorted(groups):
            if groups[key] and len(found) < count:
                found.append(groups[key].pop((turn * 7) % len(groups[key])))
        turn += 1
    return found


def question(case: Case, ident: str) -> dict[str, Any]:
    """What a peer is told of a case; nothing that was measured."""
    ctx, row = resolve(case.scenario), case.row
    gpu, arch = ctx.machine.gpu, ctx.arch
    assert gpu is not None
    layer = arch.layers[arch.moe_layers[0]]
    rate = ctx.gpu_rate(ctx.gpu_width.format)
    link = ctx.machine.scaleup
    return {
        "id": ident,
        "model": row.model,
        "backend": row.backend,
        "system": row.system,
        "gpus": case.layout.gpus,
        "expert": case.layout.expert,
        "attention_data": case.layout.gpus if case.layout.attention_data else 1,
        "clients": case.clients.count,
        "prompt_tokens": row.prompt_tokens,
        "output_tokens": row.output_tokens,
        "bits": BITS.get(row.precision, "bf16"),
        "gpu": {
            "name": row.system.removesuffix("_sxm").upper(),
            "flop_per_s": gpu.flop_per_s(rate),
            "bytes_per_s": gpu.peak_bandwidth_bytes_per_s,
            "bytes": gpu.capacity_bytes,
            "link_bytes_per_s": link.peak_bytes_per_s if link else 0.0,
        },
        "architecture": {
            "attention": layer.mixer.kind,
            "hidden": arch.hidden_size,
            "layers": arch.num_layers,
            "vocabulary": arch.vocab_size,
            "heads": layer.mixer.heads,
            "kv_heads": layer.mixer.kv_heads,
            "head_dim": layer.mixer.qk_dim,
            "experts": arch.experts,
            "top_k": arch.top_k,
            "expert_hidden": round(arch.expert_parameters / 3 / arch.hidden_size),
        },
    }
