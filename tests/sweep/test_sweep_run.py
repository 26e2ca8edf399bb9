"""Running a sweep: the figures are the planner's, equal scenarios are planned once, nothing is lost on the way."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
import time

import pandas as pd
import pytest

import planner
import planner.sweep.executors.here as here_module
from planner.fields import fields, get_path, set_paths
from planner.scenario import Scenario
from planner.sweep import METRICS, Axis, SweepError, SweepSpec, executor, from_json, run_many, sweep
from planner.sweep.executors.base import MOST_LOSSES, Deck, Task, grouped
from planner.sweep.executors.processes import LostError, Processes
from planner.sweep.outcome import outcome
from planner.sweep.table import to_csv

BASE = set_paths(Scenario(), {"policy.id": "cpu-experts", "system.id": "h100-amx-server"})
BATCHES = Axis(path="workload.batch", values=(1, 4, 16))
SPEC = SweepSpec(base=BASE, axes=(BATCHES, Axis(path="system.overrides.dram.price_usd_per_gb", values=(3, 6, 12))))


@pytest.fixture(scope="module")
def two():
    """Two worker processes for all tests of this file."""
    pool = Processes(2)
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def result(two):
    return sweep(SPEC, executor=two)


def test_every_figure_is_the_one_that_plan_gives(result):
    for point in result.points:
        alone = planner.plan(result.scenario(point), with_ranges=False, with_marginals=False)
        assert point.scenario_hash == alone.scenario_hash
        assert point.figure("tpot_s") == alone.headline.tpot_s
        assert point.figure("usd_per_million_output_tokens") == alone.headline.usd_per_million_output_tokens
        assert point.outcome.bound_by == alone.headline.bound_by
        assert point.figure("tokens_per_s_gpu") == alone.headline.tokens_per_s_system / alone.system.gpus


def test_points_are_in_the_order_of_the_design_and_go_through_json(result):
    assert [point.values for point in result.points] == list(SPEC.coordinates())
    assert result.complete and not result.stopped
    assert from_json(result.to_json()) == result


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 2}', "\x00" * 10])
def test_a_sweep_that_cannot_be_read_is_one_sentence(text):
    with pytest.raises(SweepError, match=r"^This sweep [^\n]+$"):
        from_json(text)


def test_equal_scenarios_are_planned_once(monkeypatch):
    planned = []
    monkeypatch.setattr(here_module, "outcome", lambda scenario: planned.append(scenario) or outcome(scenario))
    found = sweep(SweepSpec(base=BASE, axes=(Axis(path="workload.batch", values=(4, 4.0, 4)),)))
    assert len(planned) == 1 == found.distinct
    assert len({point.figure("tpot_s") for point in found.points}) == 1


def test_points_that_do_not_fit_or_are_refused_keep_their_reason():
    axis = Axis(path="policy.id", values=("all-gpu", "monde", "cpu-experts", "no-such-policy"))
    small = set_paths(BASE, {"system.overrides.gpu.memory_capacity_bytes": 2e10})
    found = sweep(SweepSpec(base=small, axes=(axis,)))
    by = {point.values[0]: point.outcome for point in found.points}
    assert by["all-gpu"].status == "does not fit" and "GB needed" in by["all-gpu"].reason
    assert by["monde"].status == "does not fit" and "needs" in by["monde"].reason
    assert by["no-such-policy"].status == "refused" and "no-such-policy" in by["no-such-policy"].reason
    assert by["cpu-experts"].fits
    assert all(value is None for key, value in by["monde"].figures.items() if key == "tpot_s")
    assert found.complete


def test_fields_that_do_not_go_together_are_told_at_their_point():
    axes = (Axis(path="routing.source", values=("trace", "uniform")),)
    found = sweep(SweepSpec(base=BASE, axes=axes))
    assert [point.outcome.status for point in found.points] == ["refused", "fits"]
    assert "routing.trace" in found.points[0].outcome.reason and found.points[0].scenario_hash is None


def test_targets_are_judged_with_the_scenario_of_the_point():
    axes = (Axis(path="workload.slo_tpot_s", values=(None, 1e-6, 1e3)),)
    found = sweep(SweepSpec(base=BASE, axes=axes))
    assert [point.outcome.meets_slo for point in found.points] == [None, False, True]


def test_progress_counts_every_point_and_a_cancel_keeps_what_there_is():
    seen = []
    found = sweep(SPEC, on_point=lambda point, progress: seen.append(progress), cancelled=lambda: len(seen) >= 4)
    assert [progress.done for progress in seen] == [1, 2, 3, 4]
    assert {progress.total for progress in seen} == {9}
    assert not found.complete and "4 of 9" in found.stopped
    assert sum(point.fits for point in found.points) == 4
    assert {point.outcome.status for point in found.points if not point.fits} == {"not run"}
    assert len(found.points) == 9


def test_workers_give_the_same_sweep_as_this_process(result):
    assert sweep(SPEC) == result


def test_a_killed_worker_loses_nothing(two, result):
    killed = []

    def kill(point, progress):
        if progress.done == 3 and not killed:
            killed.append(two.lanes[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    assert sweep(SPEC, executor=two, on_point=kill) == result
    assert killed


def test_a_point_that_takes_every_worker_with_it_is_given_up_and_the_others_are_not(two, monkeypatch, result):
    deadly, lost = result.points[4].scenario_hash, []

    def dying(ask):
        def asked(scenario):
            if scenario.content_hash() == deadly:
                lost.append(scenario)
                raise LostError
            return ask(scenario)

        return asked

    for lane in two.lanes:
        monkeypatch.setattr(lane, "ask", dying(lane.ask))
    found = sweep(SPEC, executor=two)
    assert len(lost) == MOST_LOSSES
    assert found.points[4].outcome.status == "failed"
    assert "ended 3 times" in found.points[4].outcome.reason
    assert [p for p in found.points if p.index != 4] == [p for p in result.points if p.index != 4]


def test_a_cancel_does_not_wait_for_the_plans_in_progress(two):
    stop = threading.Event()
    spec = SweepSpec(base=BASE, axes=(Axis(path="economics.pue", values=tuple(1 + k / 1000 for k in range(500))),))

    def first(point, progress):
        stop.set()

    start = time.perf_counter()
    found = sweep(spec, executor=two, on_point=first, cancelled=stop.is_set)
    assert time.perf_counter() - start < 30
    assert not found.complete and 0 < sum(point.fits for point in found.points) < 500


def test_two_sweeps_share_the_workers(two, result):
    found = {}

    def other(number):
        found[number] = sweep(SPEC, executor=two)

    threads = [threading.Thread(target=other, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1] == result


def test_run_many_answers_in_order_and_plans_equal_ones_once(monkeypatch):
    planned = []
    monkeypatch.setattr(here_module, "outcome", lambda scenario: planned.append(scenario) or outcome(scenario))
    a, b = BASE, set_paths(BASE, {"workload.batch": 3})
    found = run_many([b, a, b])
    assert found[0] == found[2] == outcome(b) and found[1] == outcome(a)
    assert len(planned) == 2


def test_points_of_one_routing_are_dealt_to_one_worker():
    tasks = [Task(n, set_paths(BASE, {"workload.batch": 1 + n % 2, "economics.pue": 1 + n / 10})) for n in range(8)]
    groups = grouped(tasks)
    assert sorted(len(group) for group in groups) == [4, 4]
    deck = Deck(groups)
    dealt = {0: [], 1: []}
    for _ in range(4):
        for worker in dealt:
            dealt[worker].append(deck.next(worker).scenario.workload.batch)
    assert all(len(set(batches)) == 1 for batches in dealt.values())
    assert deck.next(0) is None


def test_a_worker_without_a_group_of_its_own_helps_where_most_is_left():
    deck = Deck(grouped(Task(n, set_paths(BASE, {"economics.pue": 1 + n / 10})) for n in range(6)))
    assert {deck.next(worker).number for worker in (0, 1, 2, 0, 1, 2)} == set(range(6))
    assert deck.next(1) is None


@pytest.mark.parametrize(
    ("setting", "name"), [("here", "here"), ("processes", "processes"), ("dask:tcp://10.0.0.5:8786", "dask")]
)
def test_a_setting_names_its_executor(setting, name, monkeypatch):
    assert executor(setting).name == name
    monkeypatch.setenv("TIERLINE_EXECUTOR", setting)
    assert executor().name == name


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("proceses", "nearest is processes"),
        ("processes:0", "1 to 256 workers"),
        ("processes:many", "1 to 256 workers"),
        ("dask", "address of a scheduler"),
        ("dask:", "address of a scheduler"),
        ("here:3", "it takes here, processes"),
    ],
)
def test_a_setting_that_names_none_is_one_sentence(setting, words):
    with pytest.raises(SweepError, match=r"^[^\n]+$") as refused:
        executor(setting)
    assert words in str(refused.value)


def test_every_metric_has_a_name_a_unit_and_one_door(result):
    for point in result.fitting:
        assert point.outcome.figures.keys() == METRICS.keys()
    assert all(metric.name and metric.unit for metric in METRICS.values())


def test_pandas_reads_every_input_back_from_the_csv():
    axes = (
        Axis(path="policy.id", values=("cpu-experts", "monde")),
        Axis(path="policy.gpu_experts_per_layer", values=(None, 1)),
        Axis(path="system.overrides.dram.bandwidth_bytes_per_s", values=(3e11, 4.1e11)),
    )
    base = set_paths(BASE, {"workload.slo_tpot_s": 0.5})
    found = sweep(SweepSpec(base=base, axes=axes))
    frame = pd.read_csv(io.StringIO(to_csv(found)), keep_default_na=False)
    assert len(frame) == 8
    for number, row in frame.iterrows():
        scenario = found.scenario(number)
        for path in fields():
            want, cell = get_path(scenario, path), row[f"input: {path}"]
            if isinstance(want, dict):
                assert json.loads(cell) == want
            elif want is None or want == "":
                assert cell == ""
            elif isinstance(want, (bool, str)):
                assert str(cell).lower() == str(want).lower()
            else:
                assert float(cell) == want
