"""The one door to the engine: the figures at once, then the same Result again with more of it, ranges last.

All come from ``planner.plan``. A thread computes the rest while the figures are already read: first the report on a
schedule, which takes a blink once compiled, then ranges and marginal values, which need many more evaluations. Results
are immutable and shared by all sessions; they are kept by content (hash, engine, catalog), never by Streamlit's own
hashing, which samples large arrays and would return stale results.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYetError
from typing import cast

import planner
import planner.planning
from planner.refusals import REFUSALS
from planner.result import Result
from planner.scenario import Scenario
from planner.words import labels
from ui.kept import Kept

LOG = logging.getLogger("tierline.ui")
MOST_RESULTS = 32
# A small plan is complete within this time, and then the page never shows an unfinished one.
PATIENCE_S = 0.25

Key = tuple[str, str, str]


class CannotPlanError(Exception):
    """The scenario cannot be planned; ``str(error)`` is one sentence for people."""


def stamp() -> tuple[str, str]:
    """Engine version and catalog digest: with the scenario's hash they name a result."""
    digest = cast(Callable[[], str], planner.catalog_digest)
    return planner.ENGINE_VERSION, digest()


def compute(scenario: Scenario, complete: bool) -> Result:
    """What stands between the pages and the engine; tests put another planner here."""
    return planner.plan(scenario, with_ranges=complete, with_marginals=complete)


def compute_schedule(scenario: Scenario) -> Result | None:
    """The figures with the report on the schedule, long before the ranges; None for a policy without one."""
    if not planner.planning.reports_schedule(scenario.policy.id):
        return None
    return planner.plan(scenario, with_ranges=False, with_marginals=False, with_schedule=True)


_complete, _first = Kept[Result](MOST_RESULTS), Kept[Result](MOST_RESULTS)
_jobs: dict[Key, Future[Result]] = {}
_jobs_lock = threading.Lock()
_workers = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tierline-ranges")


def key_of(scenario: Scenario) -> Key:
    """What names the result of a scenario."""
    return (scenario.content_hash(), *stamp())


def run_plan(scenario: Scenario) -> Result:
    """The complete result of a scenario, however long it takes. Raises CannotPlanError."""
    try:
        return planned(scenario)
    except REFUSALS as error:
        raise _cannot(error) from error


def planned(scenario: Scenario) -> Result:
    """Like :func:`run_plan`, with the engine's own errors: for what collects several plans and names what failed."""
    key = key_of(scenario)
    found = _complete.known(key)
    if found is None:
        found = compute(scenario, True)
        _complete.put(key, found)
    return found


def best(scenario: Scenario) -> tuple[Result, bool]:
    """The best result there is now, and whether it is complete; the rest is on its way. Raises CannotPlanError."""
    key = key_of(scenario)
    found = _complete.known(key)
    if found is not None:
        return found, True
    first = _first.known(key)
    if first is None:
        first = _asked(scenario, complete=False)
        _first.put(key, first)
    if not first.headline.fits:
        # No ranges and no marginal values belong to a plan that does not fit.
        _complete.put(key, first)
        return first, True
    job = _job(key, scenario)
    try:
        return job.result(PATIENCE_S), True
    except NotYetError:
        return _first.known(key) or first, False
    except Exception:
        LOG.exception("Ranges could not be computed")
        return first, True


def pending(key: Key) -> bool:
    """Whether the rest of a result is still being computed."""
    with _jobs_lock:
        job = _jobs.get(key)
    return job is not None and not job.done()


def is_newer(key: Key, shown: Result) -> bool:
    """Whether more of a result is there than what is shown, although not all of it."""
    newest = _first.known(key)
    return newest is not None and newest is not shown


def drop(key: Key) -> None:
    """Nobody waits for this result any more: take it off the queue if it has not begun."""
    with _jobs_lock:
        job = _jobs.get(key)
        if job is not None and job.cancel():
            del _jobs[key]


def remember(result: Result) -> None:
    """Use a stored result of this very engine instead of computing it again."""
    if (result.engine_version, result.catalog_digest) == stamp():
        _complete.put((result.scenario_hash, result.engine_version, result.catalog_digest), result)


def forget_all() -> None:
    """Empty the memory of results; for tests."""
    _complete.clear()
    _first.clear()
    with _jobs_lock:
        _jobs.clear()


def _job(key: Key, scenario: Scenario) -> Future[Result]:
    with _jobs_lock:
        job = _jobs.get(key)
        if job is None or job.cancelled():
            job = _workers.submit(_finish, key, scenario)
            _jobs[key] = job
            for old in [k for k, j in _jobs.items() if j.done() and k != key]:
                del _jobs[old]
        return job


def _finish(key: Key, scenario: Scenario) -> Result:
    part = compute_schedule(scenario)
    if part is not None:
        _first.put(key, part)
    result = compute(scenario, True)
    _complete.put(key, result)
    return result


def _asked(scenario: Scenario, complete: bool) -> Result:
    try:
        return compute(scenario, complete)
    except REFUSALS as error:
        raise _cannot(error) from error


def _cannot(error: Exception) -> CannotPlanError:
    text = labels.in_words(str(error))
    return CannotPlanError(text + ("" if text.endswith(".") else "."))
