"""What is where, and what is on its way: the state that the background work of a simulation changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

IDLE, PREFETCH, LOCALISE, STRIPE, REBALANCE = 0, 1, 2, 3, 4
KINDS = ("prefetch", "localise", "stripe", "rebalance")
STRIPED = -1


class State(NamedTuple):
    """Actual layout, queued tasks and reserved memory. An expert has at most one task; all arrays are changed in place.

    The weights of every expert lie in the DIMMs in exactly one layout, ``home``: striped over all of them, or on one.
    A resident expert has a copy in HBM besides. A queued task has reserved what it needs: memory on the DIMMs that it
    writes to, or the HBM slot of the expert that leaves for it, which stays until the first byte of the new one.
    """

    resident: np.ndarray
    """bool [layers, experts], in HBM"""
    leaving: np.ndarray
    """bool [layers, experts], resident until the prefetch that replaces it begins"""
    home: np.ndarray
    """int16 [layers, experts], DIMM that holds it, -1 = striped over all"""
    kind: np.ndarray
    """int8 [layers, experts], its task: 0 none, 1 prefetch, 2 localise, 3 stripe, 4 rebalance"""
    target: np.ndarray
    """int16 [layers, experts]: DIMM that it goes to; for a prefetch the expert that leaves, -1 = a free slot"""
    left: np.ndarray
    """float64 [layers, experts], bytes of the task that are not yet moved"""
    started: np.ndarray
    """bool [layers, experts], bytes of the task have moved"""
    gain: np.ndarray
    """float64 [layers, experts], predicted gain of the task, s per step"""
    age: np.ndarray
    """int32 [layers, experts], steps that the task has not ended in"""
    held: np.ndarray
    """float64 [dimms], bytes that lie on each DIMM or are reserved there"""


class Sizes(NamedTuple):
    """Constants of a simulation that the kernels need."""

    host_bytes: np.ndarray
    """float64 [layers, experts], an expert in the DIMMs"""
    hbm_bytes: float
    """an expert on its way into HBM"""
    slots: int
    """experts of a layer that HBM has room for"""
    dimm_bytes: float
    """capacity of one DIMM for experts"""
    dimms: int


def begin(resident: np.ndarray, home: np.ndarray, sizes: Sizes) -> State:
    """State of a layout without tasks."""
    shape = resident.shape
    held = np.zeros(sizes.dimms)
    striped = home == STRIPED
    held += float(sizes.host_bytes[striped].sum()) / sizes.dimms
    np.add.at(held, home[~striped], sizes.host_bytes[~striped])
    return State(
        resident=np.array(resident, bool),
        leaving=np.zeros(shape, bool),
        home=np.array(home, np.int16),
        kind=np.zeros(shape, np.int8),
        target=np.full(shape, -1, np.int16),
        left=np.zeros(shape),
        started=np.zeros(shape, bool),
        gain=np.zeros(shape),
        age=np.zeros(shape, np.int32),
        held=held,
    )


def task_bytes(kind: int, host_bytes: float, hbm_bytes: float, dimms: int) -> float:
    """Bytes that a task moves: into HBM, between one DIMM and all others, or from one DIMM to another."""
    if kind == PREFETCH:
        return hbm_bytes
    if kind == REBALANCE:
        return host_bytes
    return host_bytes * (dimms - 1) / dimms
