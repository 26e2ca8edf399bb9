"""Hundreds of decode steps in order: popularity drifts, requests end and others take their place.

:func:`routing_sequence` is for what depends on history (load prediction, migration, caches); a plan whose policy keeps
nothing from step to step is timed on the independent steps of :func:`planner.routing.routing_state`. Generated requests
are the same ones as there (numbers 0 to batch - 1), begun at random points of their output; each next one is new.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from planner.routing import generator, trace
from planner.routing.counter_rng import child, lognormal_table
from planner.routing.drift import DRIFT_SHARE, STEP_CORRELATION, drifting_weights
from planner.routing.popularity import latent
from planner.routing.sequence_sampler import sample_steps
from planner.routing.state import RoutingError, scale_counts
from planner.scenario import RoutingChoice

MAX_STEPS = 4096
PASS_TOKENS = 1024
"""Tokens of one step that are drawn at most; beyond, requests are sampled and counts scaled, with a warning."""
STREAM = 6  # of the tokens of a request, beside those in planner.routing.generator
BEGUN = np.uint64(0x626567756E)


@dataclass(frozen=True)
class Sequence:
    """Load of every expert in consecutive decode steps; arrays are read-only."""

    counts: np.ndarray
    """int32 [steps, layers, experts]: tokens per expert in each step of ``tokens_per_pass`` tokens"""
    begun: np.ndarray
    """int32 [steps]: requests that begin in the step, in the place of ended ones"""
    tokens_per_pass: int
    source: str
    """what the steps are, in words"""
    drift_share: float | None
    step_correlation: float | None
    locality: float | None
    """the three are None for a trace, which drifts as it was recorded"""
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.counts.flags.writeable = False
        self.begun.flags.writeable = False

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + self.begun.nbytes


def step_similarity(counts: np.ndarray) -> tuple[float, float]:
    """How alike consecutive steps are: cosine of the loads and Jaccard index of the sets of hit experts.

    counts: int [steps >= 2, layers, experts]. Means over steps and layers.
    """
    before, after = counts[:-1].astype(float), counts[1:].astype(float)
    length = np.sqrt((before**2).sum(axis=-1) * (after**2).sum(axis=-1))
    cosine = (before * after).sum(axis=-1) / length
    both, either = ((before > 0) & (after > 0)).sum(axis=-1), ((before > 0) | (after > 0)).sum(axis=-1)
    return float(cosine.mean()), float((both / either).mean())


def routing_sequence(
    choice: RoutingChoice,
    model_id: str,
    layers: int,
    experts: int,
    top_k: int,
    batch: int,
    tokens_per_request: int,
    steps: int,
    drift_share: float = DRIFT_SHARE,
    step_correlation: float = STEP_CORRELATION,
    locality: float = 0.0,
    request_steps: int = 256,
) -> Sequence:
    """Ordered decode steps of a workload on a model; sizes as in :func:`planner.routing.routing_state`.

    drift_share: share q of the variance of ln(load) that drifts. step_correlation: rho of that part from step to step.
    locality: probability that a choice is copied from an earlier token of its request. request_steps: decode steps
    after which a generated request has ended and another takes its place. A trace ignores these four: it has its own
    order and lengths. The result follows from the arguments alone; the last two results are kept. Raises RoutingError.
    """
    for name, size, most in (
        ("layers", layers, None), ("experts", experts, 32767), ("top_k", top_k, experts), ("batch", batch, None),
        ("tokens_per_request", tokens_per_request, None), ("steps", steps, MAX_STEPS),
        ("request_steps", request_steps, None),
    ):  # fmt: skip
        if size < 1 or (most is not None and size > most):
            limit = "of at least 1" if most is None else f"from 1 to {most:,}"
            raise RoutingError(f"{name} is {size}; a sequence of decode steps needs a whole number {limit}.")
    for name, share in (("drift_share", drift_share), ("step_correlation", step_correlation), ("locality", locality)):
        if not 0.0 <= share <= 1.0:
            raise RoutingError(f"{name} is {share:g}; it is a share from 0 to 1.")
    model = model_id if choice.source == "trace" else ""
    return _kept(
        choice, model, layers, experts, top_k, batch, tokens_per_request, steps, float(drift_share),
        float(step_correlation), float(locality), request_steps,
    )  # fmt: skip


def ordered_steps(
    choice: RoutingChoice,
    model_id: str,
    layers: int,
    experts: int,
    top_k: int,
    batch: int,
    tokens: int,
    steps: int,
    drift_share: float,
    step_correlation: float,
    locality: float,
    request_steps: int,
) -> Sequence:
    """:func:`routing_sequence` without checks, nothing kept."""
    slots = min(batch, max(1, PASS_TOKENS // tokens))
    warnings: tuple[str, ...] = ()
    if slots < batch:
        warnings = (
            f"Expert loads of a step are drawn for {slots:,} of the {batch:,} sequences and scaled up, so they vary "
            "more from step to step than those of the whole batch.",
        )
    if choice.source == "trace":
        return _recorded(choice, model_id, layers, experts, top_k, batch, tokens, steps, slots, warnings)
    number, position, begun = _schedule(choice.seed, slots, tokens, steps, request_steps)
    root = child(generator.ROOT, choice.seed)
    key_weights, key = np.uint64(child(root, generator.POPULARITY)), np.uint64(child(root, generator.TOKENS))
    uniform = choice.source == "uniform"
    sigma = 0.0 if uniform else choice.sigma
    z = latent(key_weights, layers, experts, sigma, choice.domain_share, 0.0 if uniform else choice.sigma_phase)
    factors = lognormal_table(choice.sigma_request) if choice.sigma_request > 0 and not uniform else np.empty(0)
    counts = np.empty((steps, layers, experts), np.int32)
    for layer in range(layers):
        weights = drifting_weights(
            key_weights, layer, z.decode[layer], float(z.sigma[layer]), choice.distribution, steps, drift_share,
            step_correlation,
        )  # fmt: skip
        key_layer = np.uint64(child(key, layer))
        counts[:, layer] = sample_steps(weights, factors, key_layer, STREAM, number, position, tokens, top_k, locality)
    still = uniform or drift_share == 0.0
    drift = (
        "The popularity of the experts does not drift."
        if still
        else f"{drift_share:.0%} of the variance of ln(load) drifts, correlated {step_correlation:g} from step to step."
    )
    return Sequence(
        counts=scale_counts(counts, slots * tokens, batch * tokens),
        begun=begun,
        tokens_per_pass=batch * tokens,
        source=f"{steps:,} generated decode steps in order; a request ends after {request_steps:,} steps. {drift}",
        drift_share=0.0 if still else drift_share,
        step_correlation=step_correlation,
        locality=locality,
        warnings=warnings,
    )


_kept = lru_cache(maxsize=2)(ordered_steps)


def _schedule(
    seed: int, slots: int, tokens: int, steps: int, request_steps: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number of the request in each slot, index of its first token, both [steps, slots], and requests begun [steps]."""
    age = child(child(BEGUN, seed), np.arange(slots)).astype(np.int64) % request_steps
    passed = age + np.arange(steps)[:, None]
    turn, step_of = passed // request_steps, passed % request_steps
    # A later request of slot s gets the number s + turn * slots, which no other has.
    number = np.arange(slots) + turn * slots
    begun = np.concatenate(([0], (np.diff(turn, axis=0) > 0).sum(axis=1))).astype(np.int32)
    return number.astype(np.uint64), step_of * tokens, begun


def _recorded(
    choice: RoutingChoice,
    model_id: str,
    layers: int,
    experts: int,
    top_k: int,
    batch: int,
    tokens: int,
    steps: int,
    slots: int,
    warnings: tuple[str, ...],
) -> Sequence:
    """The second halves of the timed requests of a trace, one after another in the slots of the batch."""
    entry = trace.entry_for(choice.trace or "", model_id, layers, experts, top_k)
    recording = trace.load(entry.id)
    _, timed = trace.split(recording.length.size, choice.seed)
    half = recording.length[timed] // 2
    first, length = recording.start[timed] + half, recording.length[timed] - half
    current = np.arange(slots) % timed.size
    offset = child(child(BEGUN, choice.seed), np.arange(slots)).astype(np.int64) % length[current]
    following = slots
    rows = np.empty((steps, slots, tokens), np.int64)
    begun = np.zeros(steps, np.int32)
    for step in range(steps):
        ended = np.flatnonzero(offset >= length[current])
        if ended.size:
            current[ended] = (following + np.arange(ended.size)) % timed.size
            offset[ended] = 0
            following += ended.size
            begun[step] = ended.size
        rows[step] = first[current][:, None] + (offset[:, None] + np.arange(tokens)) % length[current][:, None]
        offset += tokens
    counts = trace.count_rows(recording.ids, rows.reshape(steps, -1), experts)
    if following > timed.size:
        warnings = (
            *warnings,
            f"Trace '{entry.id}' has {timed.size} requests to time; {following:,} take part in these steps, so they "
            "are used again, at other positions or one after another.",
        )
    return Sequence(
        counts=scale_counts(counts, slots * tokens, batch * tokens),
        begun=begun,
        tokens_per_pass=batch * tokens,
        source=(
            f"{steps:,} decode steps from the second halves of {timed.size} requests of trace '{entry.id}', each "
            f"followed by the next in its place. In this trace {entry.phase}."
        ),
        drift_share=None,
        step_correlation=None,
        locality=None,
        warnings=warnings,
    )


def forget() -> None:
    """Drop the kept results (benchmarks)."""
    _kept.cache_clear()
