"""What an executor is, and the deck that deals points so that those of one routing go to one worker."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from planner.scenario import Scenario
from planner.sweep.outcome import Outcome

Done = Callable[[int, Outcome], None]
Cancelled = Callable[[], bool]

MOST_LOSSES = 3  # workers that one point may take with it before it is given up


class Task(NamedTuple):
    """One scenario to plan, and the number under which its outcome is told."""

    number: int
    scenario: Scenario


def given_up() -> Outcome:
    """The outcome of a point that took every worker with it."""
    return Outcome(status="failed", reason=f"The worker process ended {MOST_LOSSES} times while it planned this point.")


class Executor(Protocol):
    """Plans tasks somewhere.

    ``run`` calls ``done`` for every task in the caller's own thread, in any order, and returns when all are told or
    ``cancelled()`` turned true; tasks that were not begun are then never told. Raises SweepError where the place is not
    there or goes away.
    """

    name: str

    def run(self, groups: Sequence[Sequence[Task]], done: Done, cancelled: Cancelled) -> None: ...


def routing_key(scenario: Scenario) -> tuple[str, ...]:
    """What decides which tokens go to which experts: plans that share it share the drawn routing in a worker."""
    w = scenario.workload
    config = "" if scenario.model.config is None else str(hash(str(scenario.model.config)))
    numbers = (w.batch, w.prompt_tokens, w.output_tokens, w.draft_tokens, w.prefix_hit_share)
    return (scenario.model.id, config, scenario.routing.model_dump_json(), *map(str, numbers))


def grouped(tasks: Iterable[Task]) -> list[list[Task]]:
    """Tasks by shared routing; inside a group those of one policy and system are side by side."""
    groups: dict[tuple[str, ...], list[Task]] = {}
    for task in tasks:
        groups.setdefault(routing_key(task.scenario), []).append(task)
    for group in groups.values():
        group.sort(key=lambda task: (task.scenario.policy.id, task.scenario.system.id))
    return list(groups.values())


class Deck:
    """Deals tasks to workers: each keeps to a group that nobody else has, then helps where most is left."""

    def __init__(self, groups: Sequence[Sequence[Task]]) -> None:
        self._lock = threading.Lock()
        self._free = deque(deque(group) for group in groups if group)
        self._held: dict[int, deque[Task]] = {}
        self._losses: dict[int, int] = {}

    def next(self, worker: int) -> Task | None:
        """The next task of a worker; None when all are dealt."""
        with self._lock:
            mine = self._held.get(worker)
            if not mine and self._free:
                mine = self._held[worker] = self._free.popleft()
            if not mine:
                mine = max(self._held.values(), key=len, default=None)
            return mine.popleft() if mine else None

    def put_back(self, task: Task) -> bool:
        """A task whose worker was lost is dealt again; False when it took too many with it already."""
        with self._lock:
            self._losses[task.number] = self._losses.get(task.number, 0) + 1
            if self._losses[task.number] >= MOST_LOSSES:
                return False
            self._free.append(deque([task]))
            return True

    def clear(self) -> None:
        """Deal no more."""
        with self._lock:
            self._free.clear()
            self._held.clear()
