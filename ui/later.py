"""Work that a page shows when it is done: in a thread, once per key, while what is there is already read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

LOG = logging.getLogger("tierline.ui")
Value = TypeVar("Value")


class Later(Generic[Value]):
    """One worker; the newest results and the jobs under way, by key."""

    def __init__(self, name: str, most: int = 16) -> None:
        self._workers = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"tierline-{name}")
        self._jobs: dict[Hashable, Future[Value]] = {}
        self._lock = threading.Lock()
        self._most = most

    def ask(self, key: Hashable, compute: Callable[[], Value]) -> tuple[Value | None, bool]:
        """The value where it is there, and whether it is still to come; (None, False) where it failed."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = self._workers.submit(compute)
                # Jobs that nobody asks for any more give way, unless they run already.
                for old in list(self._jobs)[: max(len(self._jobs) - self._most, 0)]:
                    self._jobs.pop(old).cancel()
        if not job.done():
            return None, True
        error = job.exception()
        if error is not None:
            LOG.error("Work for a page failed", exc_info=error)
            return None, False
        return job.result(), False

    def pending(self, key: Hashable) -> bool:
        """Whether the value of a key is still to come."""
        with self._lock:
            job = self._jobs.get(key)
        return job is not None and not job.done()

    def clear(self) -> None:
        """Forget everything; for tests."""
        with self._lock:
            self._jobs.clear()
