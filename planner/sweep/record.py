"""A sweep with its answers: every input and every figure of every point, exact through JSON."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from pydantic import Field, ValidationError

from planner.fields import ScenarioError, json_tree
from planner.scenario import Scenario
from planner.sweep.design import Part, SweepError, SweepSpec, Value
from planner.sweep.outcome import Outcome
from planner.sweep.paths import scenario_at

MOST_BYTES = 200_000_000
SCHEMA = 1


class Point(Part):
    """One point of the design: the value of each axis, and what its plan came to."""

    index: int = Field(description="place in the design, from 0")
    values: tuple[Value, ...] = Field(description="by axis")
    scenario_hash: str | None = Field(None, description="content hash; None where the values do not go together")
    outcome: Outcome

    @property
    def fits(self) -> bool:
        return self.outcome.fits

    def figure(self, key: str) -> float | None:
        """One of its figures; None where it has none."""
        return self.outcome.figures.get(key)


class SweepResult(Part):
    """The spec and all its points, in the order of the design. With the engine and catalog that planned them."""

    schema_version: Literal[1] = 1
    engine_version: str
    catalog_digest: str
    spec: SweepSpec
    points: tuple[Point, ...]
    complete: bool = Field(description="False: cancelled or interrupted; points not run say so")
    stopped: str = Field("", description="why it is not complete, one sentence")
    distinct: int = Field(description="plans that were made: equal scenarios are planned once")

    @property
    def paths(self) -> tuple[str, ...]:
        """The swept fields, in the order of ``Point.values``."""
        return tuple(axis.path for axis in self.spec.axes)

    @cached_property
    def fitting(self) -> tuple[Point, ...]:
        """The points that have figures."""
        return tuple(point for point in self.points if point.fits)

    @cached_property
    def points_by_index(self) -> dict[int, Point]:
        """The points by their place in the design; a sweep that still runs has only some."""
        return {point.index: point for point in self.points}

    def scenario(self, point: Point | int) -> Scenario:
        """The whole scenario of a point. Raises ScenarioError where its values do not go together."""
        at = self.points_by_index[point] if isinstance(point, int) else point
        return scenario_at(self.spec.base, self.paths, at.values)

    def place(self, path: str) -> int:
        """Where an axis stands in ``Point.values``. Raises SweepError when it is no axis of this sweep."""
        if path not in self.paths:
            raise SweepError(f"{path or 'No field'} is no axis of this sweep; its axes are {', '.join(self.paths)}.")
        return self.paths.index(path)

    def column(self, path: str) -> tuple[Value, ...]:
        """The values of one axis at all points. Raises SweepError when it is no axis of this sweep."""
        place = self.place(path)
        return tuple(point.values[place] for point in self.points)

    def to_json(self) -> str:
        """The whole record; :func:`from_json` reads it back equal."""
        return self.model_dump_json()


def from_json(text: str | bytes) -> SweepResult:
    """A sweep that :meth:`SweepResult.to_json` wrote. Raises SweepError, one sentence, for anything else."""
    if len(text) > MOST_BYTES:
        raise SweepError(f"This sweep is larger than {MOST_BYTES // 1_000_000} MB and is not read.")
    try:
        return SweepResult.model_validate_json(text)
    except ValidationError as error:
        raise SweepError(_sentence("sweep", error)) from None
    except RecursionError:
        raise SweepError("This sweep is nested too deeply to be read.") from None


def spec_from_json(text: str | bytes) -> SweepSpec:
    """A spec from its JSON, or from the JSON of a whole sweep. Fields of the base that are left out take their default.

    Raises SweepError or ScenarioError, one sentence.
    """
    data = json_tree(text, "the sweep")
    if isinstance(data, dict) and data.keys() >= {"spec", "points"}:
        data = data["spec"]
    return spec_from(data)


def spec_from(data: object) -> SweepSpec:
    """A spec from parsed JSON. Raises SweepError or ScenarioError, one sentence."""
    from planner.fields import validated

    if not isinstance(data, dict):
        raise SweepError("The sweep is no object with the fields base and axes.")
    whole = dict(data)
    if "base" in whole and not isinstance(whole["base"], Scenario):
        whole["base"] = validated(whole["base"])
    try:
        return SweepSpec.model_validate(whole)
    except ScenarioError:
        raise
    except ValidationError as error:
        raise SweepError(_sentence("sweep", error)) from None


def _sentence(what: str, error: ValidationError) -> str:
    """The first fault, where it is and what would be right."""
    detail = error.errors(include_url=False)[0]
    if detail["loc"][:1] == ("schema_version",) and isinstance(detail["input"], int) and detail["input"] > SCHEMA:
        return (
            f"This {what} was written by a newer Tierline (its schema_version is {detail['input']}, this one reads "
            f"{SCHEMA}); update Tierline to open it."
        )
    loc = detail["loc"]
    axis = f" of axis {int(loc[1]) + 1}" if loc[:1] == ("axes",) and len(loc) > 2 else ""
    where = ".".join(str(part) for part in (loc[2:6] if axis else loc[:6]))[:120] + axis
    reason = str((detail.get("ctx") or {}).get("error", detail["msg"])).rstrip(".")
    reason = reason.removeprefix("Input ")
    if detail["type"] == "value_error":
        return f"{reason[:1].upper()}{reason[1:]}."
    if detail["type"] == "extra_forbidden":
        return f"This {what} has an unknown field {where!r}."
    return f"This {what} cannot be read: {where or 'it'} {reason[:1].lower()}{reason[1:]}."
