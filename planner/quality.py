"""Predicted change of accuracy from the loss of the chosen widths: a surrogate fitted to published points.

arXiv 2512.04476 publishes the mean accuracy of Mixtral-8x7B over eight tasks at full precision and at a mean of 3 and 2
bits, each with and without its selector. Against the mean loss that those settings have here the drop is fitted as
a power, drop = scale x loss^exponent, two figures by least squares in logarithms: monotone, and nothing at no loss.
The interval is a factor, from the larger of the residuals and the leave-one-out errors. Outside the fitted losses there
is no prediction unless extrapolation is accepted. It is no measurement of anybody's model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from planner.bitwidth import select_layers
from planner.losses import DEFAULT_SPREAD, surrogate_losses

FILE = Path(__file__).parent / "data" / "quality_mixtral_8x7b.json"
LABEL = "surrogate fitted to five published points of Mixtral-8x7B (arXiv 2512.04476)"


@dataclass(frozen=True)
class Point:
    """A published accuracy, and the mean loss that its setting has here."""

    setting: str
    accuracy_percent: float
    mean_loss: float


@dataclass(frozen=True)
class Fit:
    """The fitted surrogate. Drops are in percentage points of mean accuracy."""

    scale: float
    exponent: float
    factor: float
    """the interval is the prediction divided and multiplied by this"""
    largest_loss: float
    """the largest mean loss that was fitted"""
    full_precision_percent: float
    points: tuple[Point, ...]
    residual: float
    """standard deviation of ln(drop), two degrees of freedom used"""
    leave_one_out: float
    """root mean square of ln(drop) error of each point from a fit to the others"""

    def drop(self, mean_loss: float) -> float:
        """Percentage points of accuracy lost."""
        return self.scale * mean_loss**self.exponent if mean_loss > 0 else 0.0


@dataclass(frozen=True)
class Quality:
    """A predicted change of accuracy in percentage points (negative: worse); None where it is not known."""

    accuracy_points_change: float | None
    low: float | None
    high: float | None
    inside: bool
    """whether the loss lies within what was fitted"""
    sentence: str


def mean_loss(losses: np.ndarray, bits: np.ndarray, activations: np.ndarray, resident: np.ndarray) -> float:
    """Activation-weighted mean loss of the chosen widths, over layers and experts.

    losses: float64 [layers, N, 4]; bits: int [layers, N], 1..4 (any value where resident); activations: [layers, N],
    selections of each expert, any scale per layer; resident: bool [layers, N], experts in the checkpoint's own format,
    whose loss is 0. Every layer counts the same. A layer without activations counts its experts alike.
    """
    losses, activations = np.asarray(losses, np.float64), np.asarray(activations, np.float64)
    index = np.clip(np.asarray(bits, np.int64), 1, 4) - 1
    chosen = np.take_along_axis(losses, index[:, :, None], axis=2)[:, :, 0]
    chosen = np.where(resident, 0.0, chosen)
    total = activations.sum(axis=1, keepdims=True)
    share = np.divide(activations, total, out=np.full_like(activations, 1.0 / activations.shape[1]), where=total > 0)
    return float((share * chosen).sum(axis=1).mean())


@cache
def calibration() -> dict[str, Any]:
    """The named calibration: what was published, what is assumed about it, and the fit that follows."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def points(published: Mapping[str, Any], spread: float = DEFAULT_SPREAD) -> tuple[Point, ...]:
    """The published settings with their mean loss under the surrogate losses.

    With the selector: the paper's prefix search. Without: every expert at the mean width. The resident experts lose
    nothing. The share of activations outside HBM is data; it spreads evenly over the experts there.
    """
    layers, experts, cold = published["layers"], published["experts"], published["experts"] - published["resident"]
    table = surrogate_losses(layers, experts, spread, published["seed"]).values[:, published["resident"] :]
    share = published["cold_share_of_activations"]
    found = []
    for row in published["points"]:
        if row["bits"] is None:
            loss = 0.0
        elif row["selector"]:
            loss = share * float(select_layers(table, None, row["bits"], "prefix").loss.mean()) / cold
        else:
            loss = share * float(table[:, :, row["bits"] - 1].mean())
        found.append(Point(row["setting"], row["accuracy_percent"], loss))
    return tuple(found)


def fit(given: tuple[Point, ...]) -> Fit:
    """Least squares of ln(drop) over ln(loss), with residuals and leave-one-out. The first point is full precision."""
    base = given[0].accuracy_percent
    x = np.log([point.mean_loss for point in given[1:]])
    y = np.log([base - point.accuracy_percent for point in given[1:]])
    intercept, slope = _line(x, y)
    residual = float(np.sqrt(np.square(y - intercept - slope * x).sum() / max(len(x) - 2, 1)))
    others = [np.arange(len(x)) != i for i in range(len(x))]
    lines = [_line(x[keep], y[keep]) for keep in others]
    left_out = [y[i] - a - b * x[i] for i, (a, b) in enumerate(lines)]
    leave_one_out = float(np.sqrt(np.mean(np.square(left_out))))
    return Fit(
        scale=float(math.exp(intercept)),
        exponent=float(slope),
        factor=float(math.exp(max(residual, leave_one_out))),
        largest_loss=max(point.mean_loss for point in given),
        full_precision_percent=base,
        points=given,
        residual=residual,
        leave_one_out=leave_one_out,
    )


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Intercept and slope, the slope not below zero."""
    slope = float(((x - x.mean()) * (y - y.mean())).sum() / np.square(x - x.mean()).sum())
    slope = max(slope, 0.0)
    return float(y.mean() - slope * x.mean()), slope


@cache
def fitted() -> Fit:
    """The fit as the calibration file keeps it."""
    kept = dict(calibration()["fit"])
    kept["points"] = tuple(Point(**point) for point in kept["points"])
    return Fit(**kept)


def predict(loss: float, accept_extrapolation: bool = False, using: Fit | None = None) -> Quality:
    """Predicted change of mean accuracy for an activation-weighted mean loss of the routed experts.

    Raises ValueError for a loss that is negative or not a number.
    """
    if not (math.isfinite(loss) and loss >= 0):
        raise ValueError(f"the mean loss is {loss}; accepted is a number from 0 up")
    found = using or fitted()
    inside = loss <= found.largest_loss
    fitted_to = f"fitted between no loss and {found.largest_loss:.3g}"
    if not inside and not accept_extrapolation:
        return Quality(
            None,
            None,
            None,
            False,
            f"Not known: the mean loss is {loss:.3g}, and the quality surrogate was {fitted_to}; accept extrapolation "
            "to see what it would say.",
        )
    drop = found.drop(loss)
    worst = min(drop * found.factor, found.full_precision_percent)
    drop, best = min(drop, worst), min(drop / found.factor, worst)
    away = "" if inside else f" Extrapolated: the mean loss is {loss:.3g}, {fitted_to}."
    return Quality(
        accuracy_points_change=0.0 - drop,
        low=0.0 - worst,
        high=0.0 - best,
        inside=inside,
        sentence=f"About {drop:.2g} points of accuracy lost ({best:.2g} to {worst:.2g}): a {LABEL}, not a measurement "
        f"of this model.{away}",
    )


def recomputed() -> dict[str, Any]:
    """The fit of the calibration file, computed again from what was published."""
    found = asdict(fit(points(calibration()["published"])))
    found["points"] = [dict(point) for point in found["points"]]
    return found
