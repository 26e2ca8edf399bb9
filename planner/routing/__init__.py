"""Expert load: one type, a generator and the shipped traces."""

from planner.routing.kept import clear_cache
from planner.routing.sequence import Sequence, routing_sequence, step_similarity
from planner.routing.service import automatic_steps, routing_state
from planner.routing.state import RoutingError, RoutingState
from planner.routing.trace import TraceEntry, traces

__all__ = [
    "RoutingError",
    "RoutingState",
    "Sequence",
    "TraceEntry",
    "automatic_steps",
    "clear_cache",
    "routing_sequence",
    "routing_state",
    "step_similarity",
    "traces",
]
