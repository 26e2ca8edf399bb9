"""Which executor a setting names: ``here``, ``processes``, ``processes:4`` or ``dask:tcp://host:8786``."""

from __future__ import annotations

import os
import re

from planner.fields.sentences import nearest, shown
from planner.sweep.design import SweepError
from planner.sweep.executors.base import Executor

VARIABLE = "TIERLINE_EXECUTOR"
DEFAULT = "processes"
KINDS = ("here", "processes", "dask")
MOST_WORKERS = 256
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss|ucx|inproc)://)?[^\s/:]+:\d{1,5}|(?:tcp|tls|ws|wss|ucx|inproc)://\S+")


def executor(setting: str | None = None) -> Executor:
    """The executor of a setting; without one that of the environment, else worker processes here.

    Raises SweepError for a setting that names none. Nothing is started or contacted before a sweep runs.
    """
    chosen = (setting if setting is not None else os.environ.get(VARIABLE, "")).strip() or DEFAULT
    kind, _, rest = chosen.partition(":")
    if kind == "here" and not rest:
        from planner.sweep.executors.here import Here

        return Here()
    if kind == "processes":
        if rest and not (rest.isdecimal() and 1 <= int(rest) <= MOST_WORKERS):
            raise SweepError(f"The executor is {shown(chosen)}; processes takes 1 to {MOST_WORKERS} workers.")
        from planner.sweep.executors.processes import shared

        return shared(int(rest) if rest else None)
    if kind == "dask":
        if not _ADDRESS.fullmatch(rest):
            raise SweepError(
                f"The executor is {shown(chosen)}; dask takes the address of a scheduler: dask:tcp://10.0.0.5:8786."
            )
        from planner.sweep.executors.cluster import Cluster

        return Cluster(rest)
    near = nearest(kind, KINDS)
    raise SweepError(
        f"The executor is {shown(chosen)}; it takes here, processes, processes:N or dask:ADDRESS"
        + (f" (the nearest is {near[0]})." if near else ".")
    )
