"""Expert load from a shipped trace of real routing decisions.

Split of a trace: one request in three (chosen by the seed) is kept apart for offline calibration, which learns from
the first half of each. The others are timed: a batch is made of B of them, a decode pass takes the same-step tokens
of their second halves, and context-aware placement learns from their first halves. Nothing that is learnt from is
timed.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from planner.routing.counter_rng import child
from planner.routing.kept import kept
from planner.routing.state import RoutingError, RoutingState, scale_counts
from planner.scenario import RoutingChoice

FOLDER = Path(__file__).parent / "traces"
CALIBRATION_SHARE = 3
"""One request in this many is kept apart for calibration."""
PASS_TOKENS = 16384
PREFILL_PASSES = 2
GATE_TOKENS = 4096
"""Timed tokens whose router scores are kept, evenly spaced, over all layers in turn."""


@dataclass(frozen=True)
class TraceEntry:
    """One shipped trace, as its card states it."""

    id: str
    name: str
    model_id: str
    tokens: int
    requests: int
    layers: int
    experts: int
    top_k: int
    licence: str
    source: str
    source_commit: str
    changes: str
    phase: str
    split: str
    file: str
    sha256: str


@dataclass(frozen=True)
class Recording:
    """Arrays of a trace: ids uint8 and weights (as recorded), both [layers, tokens, k]; start and length int64
    [requests]; per request, over its first half, counts and scores float64 [requests, layers, experts] (each token's
    k scores sum to 1)."""

    ids: np.ndarray
    weights: np.ndarray
    start: np.ndarray
    length: np.ndarray
    early_counts: np.ndarray
    early_scores: np.ndarray


@lru_cache(maxsize=1)
def traces() -> tuple[TraceEntry, ...]:
    """All shipped traces, sorted by id."""
    return tuple(TraceEntry(**json.loads(path.read_text("utf-8"))) for path in sorted(FOLDER.glob("*.json")))


def find_trace(trace_id: str) -> TraceEntry:
    """The trace of that id; raises RoutingError naming the nearest one."""
    for entry in traces():
        if entry.id == trace_id:
            return entry
    names = [entry.id for entry in traces()]
    near = difflib.get_close_matches(trace_id, names, 1, 0.3)
    hint = f"the nearest is '{near[0]}'" if near else f"there are {', '.join(names)}"
    raise RoutingError(f"routing.trace is '{trace_id}', which is not a shipped trace; {hint}.")


@lru_cache(maxsize=2)
def load(trace_id: str) -> Recording:
    """Read a trace from disk (no unpickling)."""
    entry = find_trace(trace_id)
    with np.load(FOLDER / entry.file, allow_pickle=False) as data:
        ids, weights, length = data["ids"], data["weights"], data["lengths"].astype(np.int64)
    start = np.concatenate(([0], np.cumsum(length)[:-1]))
    share = _normalised(weights)
    counts = np.zeros((length.size, entry.layers, entry.experts))
    scores = np.zeros_like(counts)
    for request in range(length.size):
        rows = slice(start[request], start[request] + length[request] // 2)
        for layer in range(entry.layers):
            chosen = ids[layer, rows].ravel()
            counts[request, layer] = np.bincount(chosen, minlength=entry.experts)
            scores[request, layer] = np.bincount(chosen, share[layer, rows].ravel(), entry.experts)
    return Recording(ids, weights, start, length, counts, scores)


def _normalised(weights: np.ndarray) -> np.ndarray:
    """Each token's k scores over their sum, float64; equal shares where all are recorded as zero."""
    share = weights.astype(np.float64)
    whole = share.sum(axis=-1, keepdims=True)
    return np.where(whole > 0, share / np.where(whole > 0, whole, 1.0), 1.0 / weights.shape[-1])


def entry_for(trace_id: str, model_id: str, layers: int, experts: int, top_k: int) -> TraceEntry:
    """The trace of that id, if it belongs to this model and shape; else raises RoutingError."""
    entry = find_trace(trace_id)
    if entry.model_id != model_id:
        others = [other.id for other in traces() if other.model_id == model_id]
        hint = f"for this model there are {', '.join(others)}" if others else "there is no trace of this model"
        raise RoutingError(f"Trace '{entry.id}' was recorded on {entry.model_id}, not on {model_id}; {hint}.")
    if (entry.layers, entry.experts, entry.top_k) != (layers, experts, top_k):
        raise RoutingError(
            f"Trace '{entry.id}' has {entry.layers} MoE layers of {entry.experts} experts with top-{entry.top_k}; "
            f"this config of {model_id} has {layers} of {experts} with top-{top_k}."
        )
    return entry


def trace_state(
    choice: RoutingChoice,
    model_id: str,
    layers: int,
    experts: int,
    top_k: int,
    batch: int,
    tokens_per_request: int,
    prompt_tokens: int,
    prefill_tokens: int,
    steps: int,
) -> RoutingState:
    """Expert load from a trace; ``prompt_tokens`` has no influence (a trace has its own lengths)."""
    entry = entry_for(choice.trace or "", model_id, layers, experts, top_k)
    recording = load(entry.id)
    calibration, timed = split(recording.length.size, choice.seed)
    sampled = min(batch, max(1, PASS_TOKENS // tokens_per_request))
    sequences = np.resize(timed, sampled)
    later = recording.length[sequences] - recording.length[sequences] // 2
    wanted = min(prefill_tokens, PASS_TOKENS)
    name = ("trace", entry.id, choice.seed)

    def counts() -> np.ndarray:
        rows = _decode_rows(recording, sequences, timed.size, choice.seed, tokens_per_request, steps)
        return count_rows(recording.ids, rows, experts)

    def context() -> tuple[np.ndarray, np.ndarray]:
        uses = np.bincount(sequences, minlength=recording.length.size) * (batch / sampled)
        return (
            np.einsum("r,rle->le", uses, recording.early_counts),
            np.einsum("r,rle->le", uses, recording.early_scores),
        )

    def prefill() -> np.ndarray:
        early = np.concatenate([np.arange(s, s + n // 2) for s, n in _spans(recording, timed)])
        shift = np.arange(PREFILL_PASSES)[:, None] * (early.size // PREFILL_PASSES)
        return count_rows(recording.ids, early[(shift + np.arange(wanted)) % early.size], experts)

    def gates() -> np.ndarray:
        late = np.concatenate([np.arange(s + n // 2, s + n) for s, n in _spans(recording, timed)])
        rows = _every(late, GATE_TOKENS)
        scores = _normalised(recording.weights[np.arange(rows.size) % entry.layers, rows])
        return np.asarray(-np.sort(-scores, axis=1), np.float32)

    learnt = int((recording.length[calibration] // 2).sum())
    distinct = min(sampled, timed.size)
    return RoutingState(
        shape=(layers, experts),
        counts=lambda: scale_counts(
            kept((*name, "counts", sampled, tokens_per_request, steps), counts),
            sampled * tokens_per_request,
            batch * tokens_per_request,
        ),
        profile=lambda: kept((*name, "profile"), lambda: recording.early_counts[calibration].sum(axis=0)),
        context=lambda: kept((*name, "context", sampled, batch), context)[0],
        context_scores=lambda: kept((*name, "context", sampled, batch), context)[1],
        prefill_counts=lambda: scale_counts(kept((*name, "prefill", wanted), prefill), wanted, prefill_tokens),
        tokens_per_pass=batch * tokens_per_request,
        prefill_tokens=prefill_tokens,
        learned_on=(
            f"Offline placement is learnt on the first halves of {calibration.size} other requests of the trace "
            f"({learnt:,} tokens), context-aware placement on the first halves of the batch's own {distinct} requests; "
            f"both are timed on the second halves of these {distinct}. In this trace {entry.phase}."
        ),
        warnings=_warnings(
            entry, batch, sampled, timed.size, steps * tokens_per_request, int(later.min()), wanted, prefill_tokens
        ),
        gate_weights=lambda: kept((*name, "gates"), gates),
    )


def _decode_rows(
    recording: Recording, sequences: np.ndarray, timed: int, seed: int, tokens: int, steps: int
) -> np.ndarray:
    """Rows of the recording that each decode pass takes, int [steps, sequences x tokens], from the second halves."""
    half = recording.length[sequences] // 2
    later = recording.length[sequences] - half
    number = np.arange(sequences.size)
    offset = np.where(number < timed, 0, child(child(_OFFSET, seed), number).astype(np.int64) % later)
    steady = np.arange(steps)[:, None, None] * tokens + np.arange(tokens)
    position = (recording.start[sequences] + half)[:, None] + (offset[:, None] + steady) % later[:, None]
    return position.reshape(steps, -1)


_ORDER, _OFFSET = np.uint64(0x6F72646572), np.uint64(0x6F6666736574)


def split(requests: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the requests for calibration and of those that are timed, in an order drawn from the seed."""
    order = np.argsort(child(child(_ORDER, seed), np.arange(requests)), kind="stable")
    kept = max(1, requests // CALIBRATION_SHARE)
    return order[:kept], order[kept:]


def _spans(recording: Recording, requests: np.ndarray) -> list[tuple[int, int]]:
    return [(int(recording.start[r]), int(recording.length[r])) for r in requests]


def _every(rows: np.ndarray, wanted: int) -> np.ndarray:
    """At most ``wanted`` of the rows, evenly spaced."""
    return rows[np.linspace(0, rows.size - 1, min(wanted, rows.size)).astype(np.int64)]


def count_rows(ids: np.ndarray, rows: np.ndarray, experts: int) -> np.ndarray:
    """Tokens per expert: ids [layers, tokens, k], rows int [passes, n] -> int32 [passes, layers, experts]."""
    passes, layers = rows.shape[0], ids.shape[0]
    counts = np.empty((passes, layers, experts), np.int32)
    base = (np.arange(passes) * experts)[:, None, None]
    for layer in range(layers):
        flat = (ids[layer][rows].astype(np.int64) + base).ravel()
        counts[:, layer] = np.bincount(flat, minlength=passes * experts).reshape(passes, experts)
    return counts


def _warnings(
    entry: TraceEntry, batch: int, sampled: int, timed: int, wanted: int, shortest: int, drawn: int, prefill: int
) -> tuple[str, ...]:
    found = []
    if batch > timed:
        found.append(
            f"Trace '{entry.id}' has {timed} requests to time; a batch of {batch:,} reuses them at other positions."
        )
    if sampled < batch:
        found.append(f"Expert loads of a pass are taken from {sampled:,} of the {batch:,} sequences and scaled up.")
    if wanted > shortest:
        found.append(
            f"The shortest timed part of trace '{entry.id}' has {shortest} tokens; "
            f"the {wanted:,} sampled for each sequence start over at its end."
        )
    if drawn < prefill:
        found.append(f"Expert loads of a prefill pass come from {drawn:,} of its {prefill:,} tokens, scaled up.")
    return tuple(found)
