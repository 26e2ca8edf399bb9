"""Time of one operation, and the sums of it that a pass is made of.

An operation computes for ``c`` seconds and moves bytes for ``b`` seconds. It takes
``max(c, b) + (1 - o) * min(c, b)``: with o = 1 the two overlap fully (roofline), with o = 0 they add up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from planner.result import Bound, Lane, PartId

Array = NDArray[np.float64]


def operation_s(compute_s: ArrayLike, bytes_s: ArrayLike, overlap: float | Array) -> Array:
    """Seconds of operations that compute ``compute_s`` and move bytes for ``bytes_s`` (same shapes, broadcast)."""
    compute, moved = np.asarray(compute_s, float), np.asarray(bytes_s, float)
    return np.maximum(compute, moved) + (1.0 - overlap) * np.minimum(compute, moved)


READERS = ("cpu", "link", "cxl_link", "ndp")  # lanes whose bytes cross the host channels


@dataclass(frozen=True)
class Piece:
    """Seconds of one kind of work on one lane, ``[contexts, samples, layers]`` or broadcastable to it."""

    lane: Lane
    part: PartId
    resource: Bound
    seconds: Array


def _three(value: ArrayLike) -> Array:
    array = np.asarray(value, float)
    return array.reshape((1,) * (3 - array.ndim) + array.shape)


@dataclass
class Phase:
    """Work whose lanes run side by side; the pieces of one lane run one after another.

    It takes the longest lane, plus ``(1 - overlap)`` of all the other lanes (1 = the others hide completely). The
    host channels (lane "dram") are a limit on the lanes that read through them: never added to those, but in the place
    of the longest of them where they take longer.
    """

    name: str
    overlap: float = 1.0
    pieces: list[Piece] = field(default_factory=list)

    def add(self, lane: Lane, part: PartId, resource: Bound, seconds: ArrayLike) -> None:
        """Add ``seconds`` ([layers], [samples, layers] or [contexts, samples, layers])."""
        self.pieces.append(Piece(lane, part, resource, _three(seconds)))

    def add_operation(
        self,
        lane: Lane,
        part: PartId,
        compute_s: ArrayLike,
        bytes_s: ArrayLike,
        overlap: float,
        compute_resource: Bound,
        byte_resource: Bound,
        *,
        sum_axis: int | None = None,
    ) -> Array:
        """Add operations; each one's whole time is booked on whichever of its two resources it waits for.

        With ``sum_axis`` the operations along that axis (the experts of a layer) run one after another.
        Returns the seconds added.
        """
        compute, moved = np.broadcast_arrays(np.asarray(compute_s, float), np.asarray(bytes_s, float))
        total = operation_s(compute, moved, overlap)
        on_compute = np.where(compute >= moved, total, 0.0)
        on_bytes = total - on_compute
        if sum_axis is not None:
            on_compute, on_bytes = on_compute.sum(axis=sum_axis), on_bytes.sum(axis=sum_axis)
        self.add(lane, part, compute_resource, on_compute)
        self.add(lane, part, byte_resource, on_bytes)
        return np.asarray(on_compute + on_bytes)


@dataclass(frozen=True)
class PhaseTimes:
    total: Array  # [contexts, samples, layers]
    busy: list[tuple[Piece, float]]  # mean over contexts and samples, summed over layers
    exposed: list[tuple[Piece, float]]


def phase_times(phase: Phase) -> PhaseTimes:
    """Total of a phase and, for each piece, its busy and exposed seconds; the exposed ones add up to the total."""
    if not phase.pieces:
        return PhaseTimes(np.zeros((1, 1, 1)), [], [])
    shape = np.broadcast_shapes(*(p.seconds.shape for p in phase.pieces))
    lanes: dict[str, Array] = {}
    for piece in phase.pieces:
        lanes[piece.lane] = lanes.get(piece.lane, np.zeros(shape)) + piece.seconds
    names = list(lanes)
    counted = np.stack([lanes[n] for n in names])
    if "dram" in names:
        # The host channels carry what other lanes read: they stand for the longest of these where they take longer.
        dram = names.index("dram")
        reads = np.array([name in READERS for name in names])[:, None, None, None]
        reader = np.where(reads, counted, -1.0)
        instead = counted[dram] > reader.max(axis=0)
        ids = np.arange(len(names))[:, None, None, None]
        counted = np.where((ids == reader.argmax(axis=0)) & reads & instead, 0.0, counted)
        counted = np.where((ids == dram) & ~instead, 0.0, counted)
    longest = np.argmax(counted, axis=0)
    hidden_share = 1.0 - phase.overlap
    total = counted.max(axis=0) * phase.overlap + hidden_share * counted.sum(axis=0)
    busy, exposed = [], []
    cells = shape[0] * shape[1]
    shares = [np.where(longest == lane, 1.0, hidden_share) * (counted[lane] > 0) for lane in range(len(names))]
    for piece in phase.pieces:
        own, share = piece.seconds, shares[names.index(piece.lane)]
        busy.append((piece, float(own.sum()) * (total.size / own.size) / cells))
        exposed.append((piece, float((own * share).sum()) / cells))
    return PhaseTimes(total, busy, exposed)
