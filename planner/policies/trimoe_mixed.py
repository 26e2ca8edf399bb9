"""Warm experts of TriMoE in a format of their own, while hot and cold ones keep the scenario's.

What TriMoE (arXiv 2603.01058) names as future work. The CPU reads fewer or more bytes and computes at the rate that
its units have for the format: AMX multiplies BF16 and INT8, so FP8 is expanded and computed at the BF16 rate (half the
bytes, the same compute). What FP8 does to the answers of a model is not measured here.
"""

from __future__ import annotations

import numpy as np

from models import formats
from planner.context import Context, Width
from planner.errors import PlanError
from planner.physics.experts import Stored
from planner.policies.base import Option

AS_STORED = "as-stored"
WARM = Option(
    "warm_format",
    "choice",
    AS_STORED,
    "format of warm experts, those striped for the CPU: as-stored (like the cold ones), bf16 or fp8-block",
    choices=(AS_STORED, "bf16", "fp8-block"),
)


def warm_width(ctx: Context) -> Width | None:
    """Form of warm experts; None = like the others."""
    chosen = str(ctx.option(WARM.name, AS_STORED))
    return None if chosen == AS_STORED else ctx.width(chosen)


def check(ctx: Context) -> None:
    width, cpu = warm_width(ctx), ctx.machine.cpu
    if width is None or cpu is None:
        return
    if formats.compute_path(width.format, cpu.device_class or "").how == "no":
        raise PlanError(
            f"policy.options.warm_format is {width.format!r}, which this CPU cannot compute; take as-stored."
        )


def warm_stored(ctx: Context, stored: Stored, index: int) -> Stored | None:
    """All experts in the warm form, which is number ``index`` of the widths; None = they keep their own."""
    width = warm_width(ctx)
    if width is None:
        return None
    shape = stored.bytes.shape
    return Stored(np.full(shape, width.expert_bytes), np.full(shape, width.bits), np.full(shape, index, np.int8))


def where_warm(stored: Stored, warm: Stored | None, striped: np.ndarray) -> Stored:
    """Striped experts in the warm form, the others in theirs."""
    if warm is None:
        return stored
    return Stored(
        np.where(striped, warm.bytes, stored.bytes),
        np.where(striped, warm.bits, stored.bits),
        np.where(striped, warm.format, stored.format).astype(np.int8),
    )


def prefill_format(ctx: Context, widths: tuple[Width, ...]) -> str:
    """Format at whose rate the GPU is taken to compute streamed experts of several forms: the slowest of them."""
    gpu = ctx.machine.gpu
    assert gpu is not None
    if warm_width(ctx) is None:
        return widths[0].format
    return min((w.format for w in widths), key=lambda fmt: gpu.flop_per_s(ctx.gpu_rate(fmt)))
