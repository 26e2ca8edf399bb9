"""An existing dask.distributed cluster, by the address of its scheduler; Tierline must be importable on its workers.

The cluster itself plans a piece again whose worker was lost. Where the whole cluster goes away, what was planned is
kept and the sweep ends with a sentence. The package ``distributed`` is optional.
"""

from __future__ import annotations

import importlib
import queue
import time
from collections.abc import Sequence
from typing import Any

import planner
from planner.sweep.design import SweepError
from planner.sweep.executors.base import Cancelled, Done, Task, given_up
from planner.sweep.outcome import Outcome, outcome

CONNECT_S = 10
GONE_S = 10.0  # without the scheduler for so long, the cluster is taken to be gone
POLL_S = 0.2
MOST_IN_PIECE = 16  # a task of the cluster costs 2 ms; a plan takes 10 to 100
PIECES_PER_WORKER = 4

Stamp = tuple[str, str]
Answer = tuple[Stamp, list[Outcome]]


def plan_piece(scenarios: Sequence[Any]) -> Answer:
    """Runs on the cluster: the outcomes, and which Tierline they come from."""
    return (planner.ENGINE_VERSION, planner.catalog_digest()), [outcome(scenario) for scenario in scenarios]


class Cluster:
    """Plans on the cluster whose scheduler listens at ``address``, for example ``tcp://10.0.0.5:8786``."""

    name = "dask"

    def __init__(self, address: str) -> None:
        self.address = address

    def run(self, groups: Sequence[Sequence[Task]], done: Done, cancelled: Cancelled) -> None:
        client = self._client()
        try:
            self._run(client, groups, done, cancelled)
        finally:
            try:
                client.close(timeout=2)
            except Exception:  # a cluster that is gone cannot be taken leave of
                pass

    def _client(self) -> Any:
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError:
            raise SweepError(
                "A dask cluster needs the package `distributed`, which is not installed here: "
                "pip install distributed, or choose the executor `processes`."
            ) from None
        try:
            client = distributed.Client(self.address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise SweepError(
                f"No dask scheduler answers at {self.address}; check the address, or choose the executor `processes`."
            ) from error
        if not client.scheduler_info().get("workers"):
            client.close()
            raise SweepError(f"The dask cluster at {self.address} has no workers; start some, and sweep again.")
        return client

    def _run(self, client: Any, groups: Sequence[Sequence[Task]], done: Done, cancelled: Cancelled) -> None:
        workers = len(client.scheduler_info()["workers"])
        waiting: dict[Any, list[Task]] = {}
        told: queue.SimpleQueue[Any] = queue.SimpleQueue()

        def submit(piece: list[Task]) -> None:
            future = client.submit(plan_piece, [task.scenario for task in piece], pure=False)
            waiting[future] = piece
            future.add_done_callback(told.put)

        for piece in pieces(groups, workers):
            submit(piece)
        seen = time.monotonic()
        while waiting:
            if cancelled():
                client.cancel(list(waiting))
                return
            try:
                future = told.get(timeout=POLL_S)
            except queue.Empty:
                seen = time.monotonic() if client.status == "running" else seen
                if time.monotonic() - seen > GONE_S:
                    raise SweepError(self._gone()) from None
                continue
            piece = waiting.pop(future)
            for task, result in zip(piece, self._collect(future, piece, submit), strict=False):
                done(task.number, result)

    def _collect(self, future: Any, piece: list[Task], submit: Any) -> list[Outcome]:
        """Outcomes of a piece; none when it was handed out again in single tasks."""
        try:
            stamp, outcomes = future.result(timeout=CONNECT_S)
        except ImportError as error:
            raise SweepError(
                f"A worker of the dask cluster cannot import Tierline ({error}); put this folder on its PYTHONPATH."
            ) from None
        except Exception as error:
            if type(error).__name__ != "KilledWorker":
                raise SweepError(self._gone()) from error
            if len(piece) == 1:
                return [given_up()]
            for task in piece:
                submit([task])
            return []
        if stamp != (planner.ENGINE_VERSION, planner.catalog_digest()):
            raise SweepError(
                f"The workers of the dask cluster run Tierline {stamp[0]} with other data than this one "
                f"({planner.ENGINE_VERSION}); bring them to the same version."
            )
        result: list[Outcome] = outcomes
        return result

    def _gone(self) -> str:
        return f"The dask cluster at {self.address} went away; what it had planned until then is kept."


def pieces(groups: Sequence[Sequence[Task]], workers: int) -> list[list[Task]]:
    """Groups in pieces that are small enough to share out and large enough to be worth sending."""
    total = sum(map(len, groups))
    most = max(1, min(MOST_IN_PIECE, total // max(1, workers * PIECES_PER_WORKER)))
    return [list(group[start : start + most]) for group in groups for start in range(0, len(group), most)]
