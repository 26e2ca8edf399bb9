"""What was drawn is kept by its content, up to a number of bytes: equal draws are made once, whoever asks.

Each stream of a routing state (decode passes, prefill passes, calibration run, context, gate weights) has a key of its
own, which names only what the stream depends on. So another prompt length does not draw the calibration run again, and
a policy that never reads the context does not pay for it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

import numpy as np

CACHE_BYTES = 128 * 2**20

T = TypeVar("T")

_lock = threading.Lock()
_known: OrderedDict[Hashable, Future[Any]] = OrderedDict()
_bytes: dict[Hashable, int] = {}


def kept(key: Hashable, make: Callable[[], T]) -> T:
    """``make()``, or what it gave under this key before. Thread-safe: whoever asks meanwhile waits for the one draw.

    Values are arrays, tuples of arrays (made read-only here) or objects with ``nbytes``; up to 128 MiB of them are
    kept, the least recently used dropped first; the newest always stays. What fails is not kept.
    """
    with _lock:
        known = _known.get(key)
        if known is not None:
            _known.move_to_end(key)
        else:
            mine: Future[Any] = Future()
            _known[key] = mine
    if known is not None:
        found: T = known.result()
        return found
    try:
        made = make()
    except BaseException as error:
        with _lock:
            _known.pop(key, None)
        mine.set_exception(error)
        raise
    size = _sealed(made)
    mine.set_result(made)
    with _lock:
        if _known.get(key) is mine:
            _bytes[key] = size
        _trim(key)
    return made


def _sealed(value: Any) -> int:
    """Makes arrays read-only; bytes that a value holds."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
        return int(value.nbytes)
    if isinstance(value, tuple):
        return sum(_sealed(part) for part in value)
    return int(value.nbytes)


def _trim(newest: Hashable) -> None:
    total = sum(_bytes.values())
    for key in list(_known):
        if total <= CACHE_BYTES:
            return
        if key in _bytes and key != newest:
            del _known[key]
            total -= _bytes.pop(key)


def kept_bytes() -> int:
    """Bytes of all that is kept now."""
    with _lock:
        return sum(_bytes.values())


def clear_cache() -> None:
    """Forget all draws (tests, benchmarks)."""
    with _lock:
        _known.clear()
        _bytes.clear()
