"""Worker processes on this machine: one plan at a time each, kept between sweeps, replaced when one is lost.

They are plain interpreters that run one module, not ``multiprocessing`` children: those import the main module of
their parent again, which under a page server is the page. One BLAS thread each; the workers are the parallelism.
"""

from __future__ import annotations

import atexit
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, cast

from planner.scenario import Scenario
from planner.sweep.design import SweepError
from planner.sweep.executors.base import Cancelled, Deck, Done, Task, given_up
from planner.sweep.executors.worker import receive, send
from planner.sweep.outcome import Outcome

ROOT = Path(__file__).resolve().parents[3]
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
GRACE_S = 1.0  # a plan in progress may end by itself within this time after a cancel
IDLE_S = 300.0  # a worker holds a few hundred MB: it goes when nobody sweeps
POLL_S = 0.1

Told = tuple[int, Outcome] | SweepError | None


class LostError(Exception):
    """The worker process ended while it planned."""


class Lane:
    """One worker process and the lock of whoever uses it; started when first needed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._idle: threading.Timer | None = None

    def ask(self, scenario: Scenario) -> Outcome:
        """Plan one scenario. Raises LostError when the process ends, SweepError when none can be started."""
        if self._idle is not None:
            self._idle.cancel()
        process = self._started()
        try:
            send(cast(BinaryIO, process.stdin), scenario)
            answer: Outcome = receive(cast(BinaryIO, process.stdout))
        except (EOFError, OSError):
            self.close()
            raise LostError from None
        return answer

    def rest(self) -> None:
        """Nobody needs the worker for now."""
        if self._idle is not None:
            self._idle.cancel()
        self._idle = threading.Timer(IDLE_S, self._close_if_idle)
        self._idle.daemon = True
        self._idle.start()

    def close(self) -> None:
        """End the process, whatever it does."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            try:
                if stream is not None:
                    stream.close()
            except OSError:  # what was still buffered has nowhere to go
                pass

    def kill(self) -> None:
        """End the process from another thread; the one that waits for its answer gets LostError."""
        process = self._process
        if process is not None:
            process.kill()

    @property
    def pid(self) -> int | None:
        """Process id of the worker, None when there is none."""
        return self._process.pid if self._process is not None else None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        environment = {
            **os.environ,
            **dict.fromkeys(ONE_THREAD, "1"),
            "PYTHONPATH": os.pathsep.join(paths),
        }
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "planner.sweep.executors.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
            )
            receive(cast(BinaryIO, self._process.stdout))
        except (OSError, EOFError) as error:
            self.close()
            raise SweepError(
                "No worker process can be started on this machine; choose the executor `here`, which needs none."
            ) from error
        return self._process

    def _close_if_idle(self) -> None:
        if self.lock.acquire(blocking=False):
            try:
                self.close()
            finally:
                self.lock.release()


class Processes:
    """A fixed number of worker processes. Several sweeps may run at once: they take turns point by point."""

    name = "processes"

    def __init__(self, workers: int | None = None) -> None:
        self.lanes = tuple(Lane() for _ in range(workers or cores()))

    def run(self, groups: Sequence[Sequence[Task]], done: Done, cancelled: Cancelled) -> None:
        deck, told = Deck(groups), queue.SimpleQueue[Told]()
        stop = threading.Event()
        threads = [
            _Worker(lane, number, deck, told, stop)
            for number, lane in enumerate(self.lanes[: max(1, sum(map(len, groups)))])
        ]
        for thread in threads:
            thread.start()
        fault: SweepError | None = None
        left, deadline = len(threads), float("inf")
        try:
            while left:
                try:
                    answer = told.get(timeout=POLL_S)
                except queue.Empty:
                    pass
                else:
                    if answer is None:
                        left -= 1
                    elif isinstance(answer, SweepError):
                        fault = answer
                    else:
                        done(*answer)
                if not stop.is_set() and (fault is not None or cancelled()):
                    stop.set()
                    deck.clear()
                    deadline = time.monotonic() + GRACE_S
                if time.monotonic() > deadline:
                    deadline = float("inf")
                    self._interrupt(threads)
        finally:
            stop.set()
            deck.clear()
        if fault is not None:
            raise fault

    def close(self) -> None:
        """End all workers."""
        for lane in self.lanes:
            lane.kill()

    def _interrupt(self, threads: Sequence[_Worker]) -> None:
        for thread in threads:
            if thread.is_alive() and thread.asking:
                thread.lane.kill()


class _Worker(threading.Thread):
    """One thread of a sweep: takes its lane for one point at a time, so that other sweeps get their turn."""

    def __init__(
        self, lane: Lane, number: int, deck: Deck, told: queue.SimpleQueue[Told], stop: threading.Event
    ) -> None:
        super().__init__(daemon=True, name=f"tierline-sweep-{number}")
        self.lane, self.number, self.deck, self.told, self.stop = lane, number, deck, told, stop
        self.asking = False

    def run(self) -> None:
        try:
            while not self.stop.is_set() and (task := self.deck.next(self.number)) is not None:
                self._plan(task)
        except SweepError as error:
            self.told.put(error)
        except Exception as error:  # a bug here must end the sweep, not hang it
            self.told.put(SweepError(f"The sweep met a fault of the program ({type(error).__name__}) and was ended."))
        finally:
            self.told.put(None)

    def _plan(self, task: Task) -> None:
        with self.lane.lock:
            self.asking = True
            try:
                self.told.put((task.number, self.lane.ask(task.scenario)))
            except LostError:
                if not self.stop.is_set() and not self.deck.put_back(task):
                    self.told.put((task.number, given_up()))
            finally:
                self.asking = False
                self.lane.rest()


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_shared: dict[int, Processes] = {}
_shared_lock = threading.Lock()


def shared(workers: int | None = None) -> Processes:
    """The workers of this program, started once and used by every sweep."""
    count = workers or cores()
    with _shared_lock:
        if count not in _shared:
            _shared[count] = Processes(count)
            atexit.register(_shared[count].close)
        return _shared[count]
