"""On a real dask cluster of two workers: the same sweep, a worker killed in the middle, a cluster that goes away."""

from __future__ import annotations

import os
import signal
import sys
from types import ModuleType

import pytest

from planner.fields import set_paths
from planner.scenario import Scenario
from planner.sweep import Axis, SweepError, SweepSpec, executor, sweep

BASE = set_paths(Scenario(), {"policy.id": "cpu-experts", "system.id": "h100-amx-server"})
SPEC = SweepSpec(
    base=BASE,
    axes=(
        Axis(path="workload.batch", values=(1, 4)),
        Axis(path="economics.pue", values=tuple(1 + share / 100 for share in range(40))),
    ),
)


@pytest.fixture
def cluster(monkeypatch):
    """A scheduler and two workers on this machine, each a process of its own.

    A spawned process runs its parent's main script again; in a test run that may be a page's that ran before.
    """
    from distributed import LocalCluster

    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as found:
        yield found


def test_a_worker_killed_in_the_middle_loses_nothing(cluster):
    expected = sweep(SPEC)
    victims = [worker.pid for worker in cluster.workers.values()]
    killed = []

    def kill(point, progress):
        if progress.done >= 8 and not killed:
            killed.append(victims[0])
            os.kill(victims[0], signal.SIGKILL)

    found = sweep(SPEC, executor=executor(f"dask:{cluster.scheduler_address}"), on_point=kill)
    assert killed and found.complete
    assert found == expected


def test_a_cluster_that_goes_away_keeps_what_there_is_and_says_so(cluster, monkeypatch):
    monkeypatch.setattr("planner.sweep.executors.cluster.GONE_S", 0.5)
    gone = []

    def close(point, progress):
        if not gone:
            gone.append(point.index)
            cluster.close(timeout=5)

    found = sweep(SPEC, executor=executor(f"dask:{cluster.scheduler_address}"), on_point=close)
    assert not found.complete and "went away" in found.stopped and "127.0.0.1" in found.stopped
    assert 0 < sum(point.fits for point in found.points) < len(found.points) == 80


def test_nobody_at_the_address_is_a_sentence(monkeypatch):
    monkeypatch.setattr("planner.sweep.executors.cluster.CONNECT_S", 0.5)
    with pytest.raises(SweepError, match=r"No dask scheduler answers at tcp://127\.0\.0\.1:9"):
        sweep(SPEC, executor=executor("dask:tcp://127.0.0.1:9"))


def test_without_the_package_a_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SweepError, match="pip install distributed"):
        sweep(SPEC, executor=executor("dask:tcp://127.0.0.1:8786"))
