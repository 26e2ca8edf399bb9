"""The one door to the engine. Tests put another planner behind it; results are shared, because they never change."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import streamlit as st

import planner
from hardware import HardwareError
from models import ModelError
from planner.errors import PlanError
from planner.result import Result
from planner.scenario import Scenario

MOST_RESULTS = 24


class CannotPlanError(Exception):
    """The scenario cannot be planned; ``str(error)`` is one sentence for people."""


def stamp() -> tuple[str, str]:
    """Engine version and catalog digest: with the scenario's hash they name a result."""
    digest = cast(Callable[[], str], planner.catalog_digest)
    return planner.ENGINE_VERSION, digest()


def run_plan(scenario: Scenario) -> Result:
    """The result of a scenario. Raises CannotPlanError."""
    try:
        return _planned((scenario.content_hash(), *stamp()), scenario)
    except (PlanError, ModelError, HardwareError) as error:
        text = str(error)
        raise CannotPlanError(text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")) from error


# Keyed by content, never by Streamlit's own hashing: that samples large arrays and would return stale results.
# A resource, not data: a Result is immutable, so all sessions share it and nothing is pickled.
@st.cache_resource(max_entries=MOST_RESULTS, show_spinner=False)
def _planned(key: tuple[str, str, str], _scenario: Scenario) -> Result:
    return planner.plan(_scenario)
