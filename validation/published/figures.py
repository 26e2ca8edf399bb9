"""The named figures that claims are made of, each read from one evaluation of the engine.

Nothing is computed here that the engine has a formula for: rates, energy, cost and shares are taken as they are;
what is left is picking, dividing and counting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from models import expert_bytes
from planner import quality
from planner.evaluate import Evaluation
from planner.physics import experts
from planner.placement import placement_record
from planner.result import StepPart
from planner.step import Timing

Reader = Callable[..., float]
FIGURES: dict[str, Reader] = {}


def figure(reader: Reader) -> Reader:
    """Register a figure under the name of its function."""
    FIGURES[reader.__name__] = reader
    return reader


def _decode(found: Evaluation) -> Timing:
    assert found.decode is not None
    return found.decode


def _parts(found: Evaluation, **wanted: str) -> list[StepPart]:
    return [p for p in _decode(found).step.parts if all(getattr(p, k) == v for k, v in wanted.items())]


# --- speed ------------------------------------------------------------------------------------------------------------
@figure
def tokens_per_s(found: Evaluation) -> float:
    """Output tokens per second of the system, decode only."""
    assert found.serving is not None
    return found.serving.tokens_per_s_system


@figure
def tokens_per_s_end_to_end(found: Evaluation) -> float:
    assert found.serving is not None
    return found.serving.tokens_per_s_end_to_end


@figure
def routed_ndp_s(found: Evaluation) -> float:
    """Seconds of a step in which near-data units compute experts (the busiest unit of each layer)."""
    return sum(p.busy_s for p in _parts(found, part="routed_ndp"))


@figure
def link_share(found: Evaluation) -> float:
    """Share of a decode step that waits for the link to the GPU."""
    return _decode(found).step.bound_shares.get("link", 0.0)


@figure
def layer_ms(found: Evaluation) -> float:
    """Milliseconds of a decode step for each MoE layer."""
    return _decode(found).step.total_s / found.ctx.moe_layers * 1e3


# --- use of the parts -------------------------------------------------------------------------------------------------
@figure
def busy_share(found: Evaluation, domain: str) -> float:
    """Share of a step in which a domain is busy; the GPU's waits for experts that cross PCIe are its own."""
    return next(d.busy_share for d in _decode(found).step.domains if d.id == domain)


@figure
def flop_share(found: Evaluation, domain: str) -> float:
    """FLOP done over FLOP possible at peak in a step."""
    share = next(d.flop_share for d in _decode(found).step.domains if d.id == domain)
    assert share is not None
    return share


@figure
def mean_busy_share(found: Evaluation) -> float:
    """Mean over GPU, CPU and near-data units (the busiest of each layer) of their busy shares."""
    return float(np.mean([busy_share(found, domain) for domain in ("gpu", "cpu", "ndp")]))


# --- load -------------------------------------------------------------------------------------------------------------
def _load(found: Evaluation) -> np.ndarray:
    """Mean tokens of each expert in a decode pass, sorted within each layer, most loaded first."""
    assert found.routing is not None
    return -np.sort(-found.routing.counts.mean(axis=0), axis=1)


@figure
def tokens_of_hottest(found: Evaluation, share: float, beyond: float = 0.0) -> float:
    """Share of tokens of the hottest ``share`` of a layer's experts, without the first ``beyond`` of them."""
    load = _load(found)
    first, last = round(beyond * load.shape[1]), round((beyond + share) * load.shape[1])
    return float(load[:, first:last].sum() / load.sum())


@figure
def tokens_of_coldest(found: Evaluation, share: float) -> float:
    return 1.0 - tokens_of_hottest(found, 1.0 - share)


@figure
def tokens_of_tier(found: Evaluation, tier: str) -> float:
    """Share of tokens of the experts that live in a tier: "gpu", "host" (striped, for the CPU) or "dimm_ndp"."""
    placement = placement_record(found)
    assert placement is not None
    return sum(c.token_share for c in placement.classes if c.tier == tier)


@figure
def resident_hits(found: Evaluation, hits: int) -> float:
    """Probability that exactly ``hits`` of a pass's active experts are in HBM."""
    assert found.routing is not None and found.placed is not None
    there = ((found.routing.counts > 0) & found.placed.resident).sum(axis=2)
    return float((there == hits).mean())


@figure
def prefill_decode_cosine(found: Evaluation) -> float:
    """Cosine between the prefill and the decode load of the same sequences, mean over layers."""
    assert found.routing is not None
    before, after = found.routing.context, found.routing.counts.sum(axis=0).astype(float)
    length = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    return float(((before * after).sum(axis=1) / length).mean())


# --- energy and money -------------------------------------------------------------------------------------------------
@figure
def energy_uj_per_token(found: Evaluation) -> float:
    """Microjoules per output token at the wall."""
    assert found.energy is not None
    return found.energy.j_per_output_token * 1e6


@figure
def tokens_per_usd(found: Evaluation) -> float:
    """Output tokens for a dollar, at the scenario's depreciation, busy share and electricity price."""
    assert found.cost is not None
    return 1e6 / found.cost.usd_per_million_output_tokens


@figure
def capex_usd(found: Evaluation) -> float:
    assert found.cost is not None and found.cost.capex_usd is not None
    return found.cost.capex_usd


# --- single operations and figures of a machine -----------------------------------------------------------------------
@figure
def gpu_share_of_peak(found: Evaluation, tokens: int) -> float:
    """FLOP/s of one expert with ``tokens`` rows from HBM over the GPU's peak."""
    ctx = found.ctx
    assert ctx.machine.gpu is not None
    width = ctx.gpu_width
    work = experts.on_gpu(ctx, np.array([[[tokens]]], np.int32), width.expert_bytes, width.format)
    flop = 2.0 * ctx.expert_parameters * tokens
    return flop / float(work.seconds.sum()) / ctx.machine.gpu.flop_per_s(ctx.gpu_rate(width.format))


@figure
def dimm_link_ms(found: Evaluation, share: float = 1.0) -> float:
    """Milliseconds that ``share`` of an expert takes over one DIMM-Link."""
    size = expert_bytes(found.ctx.arch, found.ctx.scenario.model.weight_format)
    return share * size / found.ctx.machine.figures("dimm_link.bandwidth_bytes_per_s") * 1e3


@figure
def dimm_link_over_host(found: Evaluation) -> float:
    """Rate of a DIMM-Link over that of a copy through the host: read over one channel, then written over another."""
    dram = found.ctx.machine.dram
    assert dram is not None
    link = found.ctx.machine.figures("dimm_link.bandwidth_bytes_per_s")
    return link / (dram.channel_bandwidth_bytes_per_s / 2.0)


@figure
def cpu_matrix_flop_per_s(found: Evaluation, of_peak: bool = False) -> float:
    """Achieved rate of the CPU's matrix unit, or its share of the peak."""
    cpu = found.ctx.machine.cpu
    assert cpu is not None and cpu.matrix_flop_per_s is not None
    return cpu.matrix_flop_per_s / (cpu.peak_flop_per_s if of_peak else 1.0)


@figure
def gpu_gemm_flop_per_s(found: Evaluation, tokens: int) -> float:
    """Achieved rate of a large product with ``tokens`` rows on the GPU, weights in HBM."""
    gpu = found.ctx.machine.gpu
    assert gpu is not None
    return gpu_share_of_peak(found, tokens) * gpu.flop_per_s("bf16")


@figure
def fitted_accuracy(found: Evaluation, setting: str) -> float:
    """Mean accuracy of a published setting as the quality surrogate has it (it was fitted to these very points)."""
    fit = quality.fitted()
    point = next(p for p in fit.points if p.setting == setting)
    return fit.full_precision_percent - fit.drop(point.mean_loss)


def read(name: str, found: Evaluation, options: dict[str, Any]) -> float:
    """The named figure of an evaluation. Raises KeyError for an unknown name."""
    if name not in FIGURES:
        raise KeyError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    return float(FIGURES[name](found, **options))
