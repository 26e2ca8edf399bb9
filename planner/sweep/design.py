"""What is swept: a base scenario and axes over its fields, as a grid or as a Sobol sequence.

A design is counted before a single point of it is made, so that one of a billion points is refused in a sentence.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from planner.errors import PlanError
from planner.scenario import Scenario
from planner.sweep.about import is_whole

MOST_POINTS = 20_000
MOST_AXES = 8
MOST_COUNT = 10**9  # values of an axis that are still counted

Value = bool | int | float | str | None
Finite = Annotated[float, Field(allow_inf_nan=False, strict=True)]


class SweepError(PlanError):
    """A sweep that cannot be run as asked; one sentence."""


class Part(BaseModel):
    """Base of the records of a sweep: frozen, and closed against unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Span(Part):
    """``count`` values from ``low`` to ``high``, both included."""

    low: Finite
    high: Finite
    count: int = Field(ge=1, le=MOST_COUNT, strict=True)


class Steps(Part):
    """``low``, ``low + step``, ... as far as ``high``, which is included where it is met."""

    low: Finite
    high: Finite
    step: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]


class Axis(Part):
    """One field of the scenario and the values that it takes: exactly one of the four ways to say them.

    ``path`` is any path of ``--set``: ``workload.batch``, ``policy.id``, ``system.overrides.gpu.power_limit_w``.
    Spans over a field of whole numbers are rounded, and what becomes equal is taken once.
    """

    path: str = Field(max_length=300)
    values: tuple[Value, ...] | None = Field(None, description="these values, in this order")
    linear: Span | None = None
    log: Span | None = None
    range: Steps | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Axis:
        given = [name for name in ("values", "linear", "log", "range") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"the axis {self.path!r} takes exactly one of values, linear, log and range")
        if self.values is not None and not self.values:
            raise ValueError(f"the axis {self.path!r} has no values")
        for span in (self.linear, self.log, self.range):
            if span is not None and span.high < span.low:
                raise ValueError(f"the axis {self.path!r} runs from {span.low:g} down to {span.high:g}; swap its ends")
        if self.log is not None and self.log.low <= 0:
            raise ValueError(f"the axis {self.path!r} is logarithmic from {self.log.low:g}; it starts above 0")
        return self

    @property
    def count(self) -> int:
        """Values of the axis, without making them."""
        if self.values is not None:
            return len(self.values)
        span = self.linear or self.log
        if span is not None:
            return span.count
        assert self.range is not None
        steps = (self.range.high - self.range.low) / self.range.step
        return math.floor(min(steps, MOST_COUNT) * (1 + 1e-12) + 1e-9) + 1

    @property
    def ends(self) -> tuple[Value, ...]:
        """What stands for the axis in a check of its bounds: all listed values, or both ends of a span."""
        if self.values is not None:
            return self.values
        span = self.linear or self.log or self.range
        assert span is not None
        return self._as_field(span.low), self._as_field(span.high)

    def points(self) -> tuple[Value, ...]:
        """All values in order, equal ones once."""
        if self.values is not None:
            numbers: list[Value] = list(self.values)
        elif self.linear is not None:
            numbers = list(np.linspace(self.linear.low, self.linear.high, self.linear.count).tolist())
        elif self.log is not None:
            numbers = list(np.geomspace(self.log.low, self.log.high, self.log.count).tolist())
        else:
            assert self.range is not None
            numbers = [self.range.low + self.range.step * index for index in builtins.range(self.count)]
        return tuple(dict.fromkeys(self._as_field(number) for number in numbers))

    def at(self, share: float) -> Value:
        """The value at a share from 0 to 1 of the axis: continuous over spans, the nearest entry of a list."""
        span = self.linear or self.log
        if span is None:
            index = min(int(share * self.count), self.count - 1)
            if self.values is not None:
                return self.values[index]
            assert self.range is not None
            return self._as_field(self.range.low + self.range.step * index)
        if self.log is not None:
            return self._as_field(math.exp(math.log(span.low) + share * (math.log(span.high) - math.log(span.low))))
        return self._as_field(span.low + share * (span.high - span.low))

    def _as_field(self, value: Value) -> Value:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return value
        if is_whole(self.path):
            return round(value)
        return float(f"{value:.12g}")


class SweepSpec(Part):
    """A base scenario, axes over its fields, and how the points are laid out."""

    schema_version: Literal[1] = 1
    name: str = Field("", max_length=200, description="what the sweep is called; changes nothing")
    base: Scenario = Field(default_factory=Scenario)
    axes: tuple[Axis, ...] = Field(min_length=1)
    design: Literal["grid", "sobol"] = "grid"
    samples: int | None = Field(None, ge=1, le=MOST_COUNT, description="points of a Sobol design")
    seed: int = Field(0, ge=0, le=2**31 - 1, description="seed of the scrambling of a Sobol design")

    @model_validator(mode="after")
    def _makes_sense(self) -> SweepSpec:
        if len(self.axes) > MOST_AXES:
            raise ValueError(f"the sweep has {len(self.axes)} axes; it takes up to {MOST_AXES}")
        paths = [axis.path for axis in self.axes]
        twice = next((path for path in paths if paths.count(path) > 1), None)
        if twice is not None:
            raise ValueError(f"the axis {twice!r} is given twice")
        if self.design == "sobol" and self.samples is None:
            raise ValueError("a Sobol design needs samples, the number of its points")
        if self.design == "grid" and self.samples is not None:
            raise ValueError("a grid has no samples; they are the points of a Sobol design")
        return self

    @property
    def count(self) -> int:
        """Points of the design, without making them; spans over whole numbers may hold fewer."""
        return self.samples if self.samples is not None else math.prod(axis.count for axis in self.axes)

    def refuse_if_too_large(self, most: int = MOST_POINTS) -> None:
        """Raises SweepError with the count and how to narrow it."""
        if self.count <= most:
            return
        told = f"more than {MOST_COUNT:,}" if self.count > MOST_COUNT else f"{self.count:,}"
        if self.design == "sobol":
            raise SweepError(f"This sweep has {told} points, up to {most:,} are run; lower its samples.")
        largest = max(self.axes, key=lambda axis: axis.count)
        others = self.count // largest.count
        fewer = (
            f"give {largest.path} {most // others:,} values instead of {largest.count:,}"
            if most // others >= 2
            else "give its axes fewer values"
        )
        counted = f" ({' x '.join(f'{axis.count:,}' for axis in self.axes)})" if others > 1 else ""
        raise SweepError(
            f"This sweep has {told} points{counted}, up to {most:,} are run; {fewer}, leave an axis out, or "
            f"sample it as a Sobol design of for example {min(1024, most):,} points."
        )

    def coordinates(self) -> Iterator[tuple[Value, ...]]:
        """The value of every axis at each point: a grid with the last axis running fastest, or the sequence."""
        if self.design == "sobol":
            yield from self._sobol()
            return
        lists = [axis.points() for axis in self.axes]
        sizes = [len(values) for values in lists]
        for index in range(math.prod(sizes)):
            yield tuple(
                values[position] for values, position in zip(lists, np.unravel_index(index, sizes), strict=True)
            )

    def _sobol(self) -> Iterator[tuple[Value, ...]]:
        from scipy.stats import qmc  # takes a second to import

        assert self.samples is not None
        sequence = qmc.Sobol(len(self.axes), scramble=True, rng=np.random.default_rng(self.seed))
        # The first n of a power of two are the sequence itself; asked for n directly, scipy warns about the balance.
        shares: Any = sequence.random_base2(max(0, math.ceil(math.log2(self.samples))))[: self.samples]
        for row in shares.tolist():
            yield tuple(axis.at(share) for axis, share in zip(self.axes, row, strict=True))
