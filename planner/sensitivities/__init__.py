"""What an answer hangs on: how far each input's range moves it, what one per cent more gives, where a choice flips."""

from planner.sensitivities.elasticities import Elasticities, Elasticity, elasticities
from planner.sensitivities.flips import Flip, FlipReport, flip_points
from planner.sensitivities.inputs import Input, inputs
from planner.sensitivities.tornado import Bar, Tornado, tornado

__all__ = [
    "Bar",
    "Elasticities",
    "Elasticity",
    "Flip",
    "FlipReport",
    "Input",
    "Tornado",
    "elasticities",
    "flip_points",
    "inputs",
    "tornado",
]
