"""The door of the room: one call that answers with a :class:`RoutingState`, cached by content."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import replace

from planner.routing.drift import STEP_CORRELATION
from planner.routing.generator import generate
from planner.routing.sequence import ordered_steps
from planner.routing.state import RoutingError, RoutingState
from planner.routing.trace import trace_state
from planner.scenario import RoutingChoice

CACHE_BYTES = 128 * 2**20

_lock = threading.Lock()
_states: OrderedDict[str, Future[RoutingState]] = OrderedDict()


def automatic_steps(batch: int, layers: int, experts: int) -> int:
    """Decode passes to sample: about 2,048 sequences in all, 4 to 32 passes (64 for small models at batch <= 16)."""
    if batch <= 16 and layers * experts <= 2048:
        return 64
    return max(4, min(32, 2048 // max(1, batch)))


def routing_state(
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
    request_steps: int = 0,
) -> RoutingState:
    """Expert load of a workload on a model.

    layers: MoE layers. batch: sequences that decode at once. tokens_per_request: 1, or 1 + drafted tokens of a verify
    pass. prefill_tokens: tokens of one prefill pass. steps: decode passes to sample (see :func:`automatic_steps`).
    request_steps: 0 for independent passes of the same requests; else the passes follow each other in order, with the
    locality and the drift of ``choice``, and a request ends after so many (a trace has its own order and lengths).
    The result follows from the arguments alone. Thread-safe; results are kept up to 128 MiB, the least recently used
    dropped first. Raises RoutingError with a sentence (a trace of another model, an unknown trace, a size below 1).
    """
    sizes = {
        "layers": layers, "experts": experts, "top_k": top_k, "batch": batch, "tokens_per_request": tokens_per_request,
        "prompt_tokens": prompt_tokens, "prefill_tokens": prefill_tokens, "steps": steps,
    }  # fmt: skip
    for name, value in sizes.items():
        if value < 1:
            raise RoutingError(f"{name} is {value}; routing needs a whole number of at least 1.")
    if top_k > experts:
        raise RoutingError(f"top_k is {top_k}; a layer has {experts} experts, so at most {experts} can be chosen.")
    key = (
        f"{choice.model_dump_json()}|{model_id if choice.source == 'trace' else ''}|{sorted(sizes.items())}|"
        f"{request_steps}"
    )
    with _lock:
        known = _states.get(key)
        if known is not None:
            _states.move_to_end(key)
        else:
            mine: Future[RoutingState] = Future()
            _states[key] = mine
    if known is not None:
        return known.result()
    try:
        state = _state(choice, model_id, sizes, request_steps)
    except BaseException as error:
        with _lock:
            _states.pop(key, None)
        mine.set_exception(error)
        raise
    mine.set_result(state)
    _trim()
    return state


def _state(choice: RoutingChoice, model_id: str, sizes: dict[str, int], request_steps: int) -> RoutingState:
    once = {**sizes, "steps": 1} if request_steps else sizes  # its passes are not used where others follow in order
    state = trace_state(choice, model_id, **once) if choice.source == "trace" else generate(choice, **once)
    if not request_steps:
        return state
    uniform = choice.source == "uniform"
    found = ordered_steps(
        choice, model_id, sizes["layers"], sizes["experts"], sizes["top_k"], sizes["batch"],
        sizes["tokens_per_request"], sizes["steps"], 0.0 if uniform else choice.drift_share, STEP_CORRELATION,
        0.0 if uniform else choice.locality, request_steps,
    )  # fmt: skip
    warnings = tuple(dict.fromkeys((*state.warnings, *found.warnings)))
    return replace(state, counts=found.counts, learned_on=f"{state.learned_on} {found.source}", warnings=warnings)


def _trim() -> None:
    """Drop the least recently used results beyond the limit; the newest always stays."""
    with _lock:
        done = [key for key, future in _states.items() if future.done()]
        total = sum(_states[key].result().nbytes for key in done)
        for key in done[:-1]:
            if total <= CACHE_BYTES:
                return
            total -= _states.pop(key).result().nbytes


def clear_cache() -> None:
    """Forget all results (tests, benchmarks)."""
    with _lock:
        _states.clear()
