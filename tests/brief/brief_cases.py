"""Briefs of a small plan, made once for all tests of this folder."""

from __future__ import annotations

from datetime import date
from functools import lru_cache

import planner
from planner.brief import Brief, brief
from planner.fields import set_paths
from planner.result import Result
from planner.scenario import Scenario
from tests.compare.compare_cases import BASE

HOSTILE = '=HYPERLINK("http://evil.example","x") </style><script>alert(1)</script> \u202e {{ 7*7 }} $x$ \U0001f600'
AUTHOR = "+1 <img src=x onerror=alert(2)> & Sons"
LINK = "https://planner.example/?scenario=abc"
TARGETS = set_paths(
    BASE,
    {
        "workload.slo_tpot_s": 0.2,
        "workload.slo_ttft_s": 0.0001,
        "system.overrides.gpu.price_usd": 21_000,
        "workload.requests_per_s": 3,
        "workload.spare_systems": 1,
        "economics.other_usd_per_month": 120,
    },
)
RENTED = set_paths(BASE, {"economics.mode": "rented"})
UNFIT = set_paths(BASE, {"workload.batch": 60_000})


@lru_cache(maxsize=8)
def planned(scenario: str) -> Result:
    return planner.plan(Scenario.model_validate_json(scenario))


def result_of(scenario: Scenario) -> Result:
    return planned(scenario.canonical_json())


@lru_cache(maxsize=1)
def hostile() -> Brief:
    return brief(TARGETS, title=HOSTILE, author=AUTHOR, version="version 3", link=LINK, made_on=date(2026, 1, 2),
                 planned=result_of, with_flips=False)  # fmt: skip


@lru_cache(maxsize=1)
def rented() -> Brief:
    return brief(RENTED, made_on=date(2026, 1, 2), planned=result_of, with_flips=False)


@lru_cache(maxsize=1)
def unfit() -> Brief:
    return brief(UNFIT, made_on=date(2026, 1, 2), planned=result_of)
