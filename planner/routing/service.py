"""The door of the room: one call that answers with a :class:`RoutingState`, whose streams are kept by content."""

from __future__ import annotations

from planner.routing.drift import STEP_CORRELATION
from planner.routing.generator import generate
from planner.routing.kept import kept
from planner.routing.sequence import Sequence, ordered_steps
from planner.routing.state import RoutingError, RoutingState
from planner.routing.trace import trace_state
from planner.scenario import RoutingChoice


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
    The result follows from the arguments alone. Thread-safe; streams are drawn when they are read and kept by what
    they depend on (:mod:`planner.routing.kept`). Raises RoutingError with a sentence (a trace of another model, an
    unknown trace, a size below 1).
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
    return _state(choice, model_id, sizes, request_steps)


def _state(choice: RoutingChoice, model_id: str, sizes: dict[str, int], request_steps: int) -> RoutingState:
    once = {**sizes, "steps": 1} if request_steps else sizes  # its passes are not used where others follow in order
    state = trace_state(choice, model_id, **once) if choice.source == "trace" else generate(choice, **once)
    if not request_steps:
        return state
    found = _ordered(choice, model_id, sizes, request_steps)
    warnings = tuple(dict.fromkeys((*state.warnings, *found.warnings)))
    return state.replaced(counts=found.counts, learned_on=f"{state.learned_on} {found.source}", warnings=warnings)


def _ordered(choice: RoutingChoice, model_id: str, sizes: dict[str, int], request_steps: int) -> Sequence:
    """Passes that follow each other; they depend on neither prompts nor prefill."""
    uniform = choice.source == "uniform"
    arguments = (
        choice, model_id if choice.source == "trace" else "", sizes["layers"], sizes["experts"], sizes["top_k"],
        sizes["batch"], sizes["tokens_per_request"], sizes["steps"], 0.0 if uniform else choice.drift_share,
        STEP_CORRELATION, 0.0 if uniform else choice.locality, request_steps,
    )  # fmt: skip
    return kept(("ordered", *arguments), lambda: ordered_steps(*arguments))
