"""Load prediction, prefetch, relayout and rebalancing of TriMoE, simulated over consecutive decode steps."""

from planner.layout.ablation import ablation
from planner.layout.classes import classes
from planner.layout.records import AblationRow, Series, Simulation, SimulationOptions, Utilisation
from planner.layout.simulation import DEFAULT_STEPS, loads, simulate

__all__ = [
    "DEFAULT_STEPS",
    "AblationRow",
    "Series",
    "Simulation",
    "SimulationOptions",
    "Utilisation",
    "ablation",
    "classes",
    "loads",
    "simulate",
]
