"""Comparisons that were computed, by what they compare; the newest few, shared by all sessions."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from planner.compare import Comparison, compare
from planner.scenario import Scenario
from ui import engine

MOST_KEPT = 16

_kept: OrderedDict[tuple[object, ...], Comparison] = OrderedDict()
_lock = threading.Lock()


def comparison(
    scenarios: Sequence[Scenario], labels: Sequence[str], progress: Callable[[int, int], None]
) -> Comparison:
    """The comparison of these scenarios under these names, computed once per engine and catalog."""
    key = (tuple(labels), tuple(scenario.canonical_json() for scenario in scenarios), engine.stamp())
    with _lock:
        known = _kept.get(key)
    if known is None:
        known = compare(scenarios, labels, planned=engine.planned, progress=progress)
        with _lock:
            _kept[key] = known
            while len(_kept) > MOST_KEPT:
                _kept.popitem(last=False)
    return known


def forget_all() -> None:
    """Empty the memory; for tests."""
    with _lock:
        _kept.clear()
