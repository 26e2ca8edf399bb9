"""In this process, one after the other: for a few points, and where no process can be started."""

from __future__ import annotations

from collections.abc import Sequence

from planner.sweep.executors.base import Cancelled, Done, Task
from planner.sweep.outcome import outcome


class Here:
    """Plans in the calling thread."""

    name = "here"

    def run(self, groups: Sequence[Sequence[Task]], done: Done, cancelled: Cancelled) -> None:
        for group in groups:
            for task in group:
                if cancelled():
                    return
                done(task.number, outcome(task.scenario))
