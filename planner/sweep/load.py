"""Cost against load in whole servers, beside a price per million tokens from an API, and where the two cross.

Own costs are figures of the plans at each load or busy share. What the API would cost is its price times the tokens.
Between two planned loads the number of systems is constant or steps up, so a crossing is told as the interval between
two planned points unless the planner is asked again in between (:func:`break_even`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from planner.energy import HOURS_PER_MONTH
from planner.errors import PlanError
from planner.scenario import Scenario, Workload
from planner.sweep.executors.base import Executor
from planner.sweep.outcome import Outcome, outcome
from planner.sweep.paths import scenario_at
from planner.sweep.record import SweepResult
from planner.sweep.run import run_many

LOAD = "workload.requests_per_s"
BUSY = "economics.busy_share"
LEAST_BUSY = 0.001  # what the field takes
TOLERANCE = 1e-4
Planner = Callable[[Scenario], Outcome]


def usd_per_request(workload: Workload, usd_per_million_input: float, usd_per_million_output: float) -> float:
    """USD of one request at these prices of a million tokens, whoever asks them."""
    return (workload.prompt_tokens * usd_per_million_input + workload.output_tokens * usd_per_million_output) / 1e6


@dataclass(frozen=True)
class ApiPrice:
    """What an API asks for a million input and a million output tokens, USD."""

    usd_per_million_input: float
    usd_per_million_output: float

    def usd_per_request(self, scenario: Scenario) -> float:
        """USD for one request of the scenario's workload."""
        return usd_per_request(scenario.workload, self.usd_per_million_input, self.usd_per_million_output)

    def usd_per_month(self, scenario: Scenario, requests_per_s: float) -> float:
        """USD for a month of that load."""
        return self.usd_per_request(scenario) * requests_per_s * 3600 * HOURS_PER_MONTH


@dataclass(frozen=True)
class LoadPoint:
    """One load: systems it needs, what they cost in a month, and what the API would cost."""

    index: int
    requests_per_s: float
    systems: int
    usd_per_month: float
    api_usd_per_month: float | None


def load_curve(result: SweepResult, api: ApiPrice | None = None) -> tuple[LoadPoint, ...]:
    """The points of a sweep over the load, by rising load."""
    place = result.place(LOAD)
    found = []
    for point in result.fitting:
        load, usd, systems = point.values[place], point.figure("usd_per_month"), point.figure("systems_needed")
        if usd is None or systems is None or not isinstance(load, (int, float)) or load <= 0:
            continue
        asked = None if api is None else api.usd_per_month(result.spec.base, load)
        found.append(LoadPoint(point.index, float(load), int(systems), usd, asked))
    return tuple(sorted(found, key=lambda one: one.requests_per_s))


def break_even(
    scenario: Scenario, path: str, low: float, high: float, api: ApiPrice, plan: Callable[[Scenario], float | None]
) -> float | None:
    """Least value of ``path`` in a bracket from which own machines cost no more than the API, to 0.01 %.

    ``plan`` gives own cost less the API's at a scenario (:func:`month_margin`, :func:`request_margin`), None where it
    does not fit. The margin must be above 0 at ``low`` and not at ``high``; None where it is not so.
    """

    def margin(value: float) -> float | None:
        return plan(scenario_at(scenario, [path], [value]))

    at_low, at_high = margin(low), margin(high)
    if at_low is None or at_high is None or at_high > 0:
        return None
    if at_low <= 0:
        return low
    while high - low > TOLERANCE * high:
        middle = (low * high) ** 0.5 if low > 0 else (low + high) / 2
        found = margin(middle)
        if found is None:
            return None
        low, high = (middle, high) if found > 0 else (low, middle)
    return high


def month_margin(api: ApiPrice, plan: Planner = outcome) -> Callable[[Scenario], float | None]:
    """Own cost of a month less the API's, at the scenario's load."""

    def margin(scenario: Scenario) -> float | None:
        found = plan(scenario)
        usd, load = found.figure("usd_per_month"), found.figure("load_requests_per_s")
        return None if usd is None or load is None else usd - api.usd_per_month(scenario, load)

    return margin


def request_margin(api: ApiPrice, plan: Planner = outcome) -> Callable[[Scenario], float | None]:
    """Own cost of one request less the API's, at the scenario's busy share."""

    def margin(scenario: Scenario) -> float | None:
        own = _usd_per_request(plan(scenario), scenario)
        return None if own is None else own - api.usd_per_request(scenario)

    return margin


def break_even_busy_share(scenario: Scenario, api: ApiPrice, plan: Planner = outcome) -> float | None:
    """Least busy share at which own machines cost no more per request than the API; None where none does."""
    return break_even(scenario, BUSY, LEAST_BUSY, 1.0, api, request_margin(api, plan))


@dataclass(frozen=True)
class BusyPoint:
    """One busy share: own USD of one request, and the API's price of a million output tokens that costs the same.

    The price is below zero where the API's input tokens alone cost more than own machines.
    """

    busy_share: float
    usd_per_request: float
    matching_usd_per_million_output: float


def busy_curve(
    scenario: Scenario, usd_per_million_input: float, shares: Sequence[float], executor: Executor | None = None
) -> tuple[BusyPoint, ...]:
    """Own machines at these busy shares beside an API with that price of input tokens; none where it does not fit."""
    asked = [scenario_at(scenario, [BUSY], [share]) for share in shares]
    w, found = scenario.workload, []
    for share, one, told in zip(shares, asked, run_many(asked, executor), strict=True):
        own = _usd_per_request(told, one)
        if own is not None:
            left = own * 1e6 - w.prompt_tokens * usd_per_million_input
            found.append(BusyPoint(share, own, left / w.output_tokens))
    return tuple(found)


@dataclass(frozen=True)
class Crossing:
    """Loads, requests per second: from ``first`` on a month first costs no more than the API, from ``lasting`` on it
    stays so as far as was planned (None: it is dearer again at the end). Between them another system makes it dearer.
    """

    first: float
    lasting: float | None


def break_even_load(result: SweepResult, api: ApiPrice, plan: Planner = outcome) -> Crossing | None:
    """Where a month of the load costs no more than the API; None where no planned load does.

    Each crossing is looked for between two planned loads, by planning in between.
    """
    curve = load_curve(result, api)
    cheaper = [point.usd_per_month <= (point.api_usd_per_month or 0.0) for point in curve]
    if not any(cheaper):
        return None

    def between(place: int) -> float:
        after = curve[place].requests_per_s
        if place == 0:
            return after
        try:
            before = curve[place - 1].requests_per_s
            found = break_even(result.spec.base, LOAD, before, after, api, month_margin(api, plan))
        except PlanError:
            found = None
        return after if found is None else found

    first = cheaper.index(True)
    last = len(cheaper) - cheaper[::-1].index(False) if False in cheaper else 0
    at = between(first)
    lasting = None if last == len(curve) else at if last <= first else between(last)
    return Crossing(at, lasting)


def _usd_per_request(found: Outcome, scenario: Scenario) -> float | None:
    out, into = found.figure("usd_per_million_output_tokens"), found.figure("usd_per_million_input_tokens")
    return None if out is None or into is None else usd_per_request(scenario.workload, into, out)
