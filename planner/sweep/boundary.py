"""Maps over two inputs: a metric, what bounds the step, and which policy wins; catalog systems are marks on them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from hardware import device, devices, load_system, systems
from planner.sweep.about import OVERRIDES
from planner.sweep.design import SweepError
from planner.sweep.metrics import Metric, metric
from planner.sweep.record import Point, SweepResult

POLICY = "policy.id"
Number = float
Edge = tuple[int, int, str]


@dataclass(frozen=True)
class Cell:
    """One cell of a map: the point that it shows, its figure, its region, and how far ahead of the next it is."""

    index: int
    value: float | None
    region: str
    reason: str = ""
    second: str = ""
    ratio: float | None = None


@dataclass(frozen=True)
class Map:
    """``cells[row][column]``: rows by rising y, columns by rising x; None where no point was planned (yet)."""

    metric: Metric
    x_path: str
    y_path: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    cells: tuple[tuple[Cell | None, ...], ...]

    def regions(self) -> dict[str, int]:
        """Region -> number of cells, the largest first; cells without an answer left out."""
        found: dict[str, int] = {}
        for row in self.cells:
            for cell in row:
                if cell is not None and cell.region:
                    found[cell.region] = found.get(cell.region, 0) + 1
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def edges(self) -> tuple[Edge, ...]:
        """Where the region changes: (row, column, "right" or "above") of the cell on the lower side."""
        found: list[Edge] = []
        for row, line in enumerate(self.cells):
            for column, cell in enumerate(line):
                right = line[column + 1] if column + 1 < len(line) else None
                above = self.cells[row + 1][column] if row + 1 < len(self.cells) else None
                if cell is not None and right is not None and right.region != cell.region:
                    found.append((row, column, "right"))
                if cell is not None and above is not None and above.region != cell.region:
                    found.append((row, column, "above"))
        return tuple(found)


def bounds_map(result: SweepResult, x_path: str, y_path: str, key: str) -> Map:
    """A metric over two numeric axes, with what bounds the step of each cell as its region."""
    one = metric(key)
    cells: dict[tuple[float, float], Cell] = {}
    for at, points in _by_cell(result, x_path, y_path).items():
        point = points[0]
        region = point.outcome.bound_by or "" if point.fits else ""
        cells[at] = Cell(point.index, point.figure(key), region, point.outcome.reason)
    return _map(one, x_path, y_path, cells)


def winners_map(result: SweepResult, x_path: str, y_path: str, key: str, by: str = POLICY) -> Map:
    """Which value of a third axis (the policy) is best on a metric in each cell, among points that meet their targets.

    ``ratio`` is how many times better it is than the next, always at least 1.
    """
    one = metric(key)
    place = result.place(by)
    cells: dict[tuple[float, float], Cell] = {}
    for at, points in _by_cell(result, x_path, y_path).items():
        able = [p for p in points if p.fits and p.outcome.meets_slo is not False and p.figure(key) is not None]
        if not able:
            cells[at] = Cell(points[0].index, None, "", "; ".join(dict.fromkeys(_why_not(p) for p in points)))
            continue
        ordered = sorted(able, key=lambda p: p.figure(key) or 0.0, reverse=one.more_is_better is not False)
        first, value = ordered[0], ordered[0].figure(key)
        second = ordered[1] if len(ordered) > 1 else None
        ratio = None
        if second is not None and value and (other := second.figure(key)):
            ratio = value / other if one.more_is_better is not False else other / value
        next_name = "" if second is None else str(second.values[place])
        cells[at] = Cell(first.index, value, str(first.values[place]), second=next_name, ratio=ratio)
    return _map(one, x_path, y_path, cells)


@dataclass(frozen=True)
class Turn:
    """The region changes along one axis from a cell: it still holds at ``until``, and is another from ``at`` on."""

    path: str
    side: str
    until: float
    at: float
    region: str


def nearest_cell(found: Map, x: float, y: float) -> tuple[int, int] | None:
    """Row and column of the cell nearest to both values; None when they lie off the map."""
    row, column = _nearest(found.ys, y), _nearest(found.xs, x)
    return None if row is None or column is None or found.cells[row][column] is None else (row, column)


def turns(found: Map, row: int, column: int) -> tuple[Turn, ...]:
    """The first change of region from a cell to the left, right, below and above."""
    here = found.cells[row][column]
    if here is None:
        return ()
    told = []
    lines = ((found.x_path, found.xs, column, found.cells[row]),
             (found.y_path, found.ys, row, tuple(line[column] for line in found.cells)))  # fmt: skip
    for path, values, place, cells in lines:
        for side, way in (("below", range(place - 1, -1, -1)), ("above", range(place + 1, len(values)))):
            before = place
            for step in way:
                cell = cells[step]
                if cell is None:
                    break
                if cell.region != here.region:
                    told.append(Turn(path, side, values[before], values[step], cell.region))
                    break
                before = step
    return tuple(told)


def _nearest(values: Sequence[float], value: float) -> int | None:
    """The place of the nearest of rising values, by ratio above zero; None beyond half a step outside."""
    if not values:
        return None
    log = values[0] > 0 and value > 0
    steps = [math.log(one) for one in values] if log else list(values)
    at = math.log(value) if log else value
    room = 0.5 * max((b - a for a, b in itertools.pairwise(steps)), default=0.0) + 1e-9
    if not steps[0] - room <= at <= steps[-1] + room:
        return None
    return min(range(len(steps)), key=lambda place: abs(steps[place] - at))


@dataclass(frozen=True)
class Mark:
    """A real system or device on the map; a device with only one of both figures lies on that axis alone."""

    name: str
    x: float | None
    y: float | None


def marks(x_path: str, y_path: str) -> tuple[Mark, ...]:
    """Catalog systems that have both figures, and devices that have one of them; by name, equal places once."""
    x_figure, y_figure = x_path.removeprefix(OVERRIDES), y_path.removeprefix(OVERRIDES)
    found: dict[tuple[float | None, float | None], str] = {}
    if x_path.startswith(OVERRIDES) and y_path.startswith(OVERRIDES):
        for entry in systems():
            system = load_system(entry.id)
            x, y = system.get(x_figure), system.get(y_figure)
            if x and y:
                found.setdefault((x, y), entry.name)
    for path, own, axis in ((x_path, x_figure, 0), (y_path, y_figure, 1)):
        if not path.startswith(OVERRIDES):
            continue
        for entry_ in devices():
            figure = device(entry_.id).figures.get(own)
            if figure is not None and figure.value:
                found.setdefault((figure.value, None) if axis == 0 else (None, figure.value), entry_.name)
    return tuple(Mark(name, x, y) for (x, y), name in found.items())


def _why_not(point: Point) -> str:
    return point.outcome.reason if not point.fits else "misses the targets"


def _by_cell(result: SweepResult, x_path: str, y_path: str) -> dict[tuple[float, float], list[Point]]:
    x, y = result.place(x_path), result.place(y_path)
    found: dict[tuple[float, float], list[Point]] = {}
    for point in result.points:
        a, b = point.values[x], point.values[y]
        if isinstance(a, (str, bool)) or isinstance(b, (str, bool)) or a is None or b is None:
            raise SweepError("A map runs over two numeric inputs; one of these has values that are no numbers.")
        if point.outcome.status != "not run":
            found.setdefault((float(a), float(b)), []).append(point)
    return found


def _map(one: Metric, x_path: str, y_path: str, cells: dict[tuple[float, float], Cell]) -> Map:
    xs = tuple(sorted({x for x, _ in cells}))
    ys: Sequence[float] = sorted({y for _, y in cells})
    table = tuple(tuple(cells.get((x, y)) for x in xs) for y in ys)
    return Map(one, x_path, y_path, xs, tuple(ys), table)
