"""Work that outlives a rerun of the page: one thread each, kept for the whole server, found again by its key.

The thread only waits: the plans run where the executor is. A reader who leaves and comes back finds the job as it is.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from planner.errors import PlanError
from planner.refusals import REFUSALS
from planner.sweep import Point, Progress, SweepResult, SweepSpec, executor, partial, sweep
from planner.sweep.executors.base import Cancelled, Done, Executor, Task
from ui import engine

LOG = logging.getLogger("tierline.ui")
MOST_KEPT = 24
MOST_RUNNING = 4


class Job:
    """One piece of work: how far it is, what there is of it, and a way to stop it."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.answer: Any = None
        self.first: Any = None  # what can be shown before the rest is there
        self.error: str | None = None
        self.finished = False
        self.done = 0
        self.total: int | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._points: list[Point] = []

    def cancel(self) -> None:
        """Stop; what there is stays."""
        self._stop.set()

    def cancelled(self) -> bool:
        """Whether someone stopped it."""
        return self._stop.is_set()

    def tell(self, point: Point, progress: Progress) -> None:
        """One more point of a sweep."""
        with self._lock:
            self._points.append(point)
            self.done, self.total = progress.done, progress.total

    def count(self) -> None:
        """One more plan of a job whose number of plans is not known before."""
        with self._lock:
            self.done += 1

    def so_far(self, spec: SweepSpec) -> SweepResult:
        """What there is of a sweep that still runs."""
        with self._lock:
            points = list(self._points)
        return partial(spec, points)


class Counting:
    """An executor that counts its plans for the reader."""

    def __init__(self, inner: Executor, job: Job) -> None:
        self.name, self._inner, self._job = inner.name, inner, job

    def run(self, groups: Sequence[Sequence[Task]], done: Done, cancelled: Cancelled) -> None:
        def counted(number: int, outcome: Any) -> None:
            self._job.count()
            done(number, outcome)

        self._inner.run(groups, counted, cancelled)


class Jobs:
    """All jobs of this server by key, the newest kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()

    def get(self, key: str | None) -> Job | None:
        """The job of that key, None when it was never started or is forgotten."""
        with self._lock:
            return self._jobs.get(key or "")

    def start(self, key: str, work: Callable[[Job], Any]) -> Job:
        """The job of that key; begun if it is not there or ended without an answer. PlanError when too many run."""
        with self._lock:
            known = self._jobs.get(key)
            if known is not None and (not known.finished or (known.error is None and not known.cancelled())):
                self._jobs.move_to_end(key)
                return known
            if sum(not job.finished for job in self._jobs.values()) >= MOST_RUNNING:
                raise PlanError(
                    f"{MOST_RUNNING} explorations are running on this server; wait for one, or cancel yours."
                )
            job = self._jobs[key] = Job(key)
            self._jobs.move_to_end(key)
            for old in [k for k, j in self._jobs.items() if j.finished][: max(0, len(self._jobs) - MOST_KEPT)]:
                del self._jobs[old]
        threading.Thread(target=_run, args=(job, work), daemon=True, name="tierline-explore").start()
        return job


@st.cache_resource(show_spinner=False)
def jobs() -> Jobs:
    """The registry of this server."""
    return Jobs()


def sweep_key(spec: SweepSpec) -> str:
    """What names a sweep: the question and the engine that answers it."""
    return "|".join((spec.model_dump_json(), *engine.stamp()))


def start_sweep(spec: SweepSpec) -> Job:
    """Run a sweep in the background, with the executor of the setting."""
    spec.refuse_if_too_large()
    where = executor()
    return jobs().start(
        sweep_key(spec), lambda job: sweep(spec, executor=where, on_point=job.tell, cancelled=job.cancelled)
    )


def _run(job: Job, work: Callable[[Job], Any]) -> None:
    try:
        job.answer = work(job)
    except REFUSALS as error:
        job.error = str(error)
    except Exception:
        LOG.exception("An exploration failed")
        job.error = "Something unforeseen went wrong; the details are in the server's log."
    finally:
        job.finished = True
