"""The economics sheet computes what the plan says, and follows when a price is changed: as in a spreadsheet."""

from __future__ import annotations

import io
from pathlib import Path

import formulas
import openpyxl
import pytest

import planner
from planner.brief import Brief, brief, export
from planner.brief.economics import lines
from planner.fields import set_paths
from planner.result import Result
from planner.scenario import Scenario
from tests.brief import brief_cases as cases


def quick(scenario: Scenario) -> Result:
    return planner.plan(scenario, with_ranges=False, with_marginals=False)


def computed(made: Brief, folder: Path, changes: dict[str, float] | None = None) -> dict[str, float]:
    """The sheet's values by line, evaluated by a spreadsheet engine, after typing ``changes`` over inputs."""
    book = openpyxl.load_workbook(io.BytesIO(export(made, "xlsx")))
    page = book["Economics"]
    rows = {line.key: row for row, line in enumerate(lines(made), 3) if line.key}
    for key, value in (changes or {}).items():
        assert page.cell(rows[key], 2).data_type != "f", f"{key} is a formula"
        page.cell(rows[key], 2).value = value
    for name in set(book.sheetnames) - {"Economics"}:
        del book[name]
    path = folder / "book.xlsx"
    book.save(path)
    model = formulas.ExcelModel().loads(str(path)).finish()
    solution = model.calculate()
    found = {}
    for key, row in rows.items():
        cell = solution.get(f"'[book.xlsx]ECONOMICS'!B{row}")
        if cell is not None:
            value = cell.value[0, 0]
            found[key] = float(value) if isinstance(value, (int, float)) else float("nan")
    return found


@pytest.mark.parametrize("make", [cases.hostile, cases.rented])
def test_formulas_give_what_the_plan_says(make, tmp_path: Path) -> None:
    made = make()
    found = computed(made, tmp_path)
    results = [line for line in lines(made) if line.kind == "result"]
    assert {line.key for line in results} >= {"usd_out", "usd_in", "usd_month", "systems", "kw", "carbon"}
    for line in results:
        assert found[line.key] == pytest.approx(line.planned, rel=1e-9), line.label
    cached = openpyxl.load_workbook(io.BytesIO(export(made, "xlsx")), data_only=True)["Economics"]
    for row, line in enumerate(lines(made), 3):
        if line.formula:
            assert cached.cell(row, 2).value == pytest.approx(found[line.key], rel=1e-9), line.label


def test_formulas_follow_a_changed_price_as_the_engine_does(tmp_path: Path) -> None:
    made = cases.hostile()
    other = set_paths(
        cases.TARGETS,
        {"economics.life_years": 3, "economics.electricity_usd_per_kwh": 0.3, "economics.busy_share": 0.4,
         "workload.requests_per_s": 9, "economics.pue": 1.4, "economics.grid_gco2e_per_kwh": 50,
         "system.overrides.gpu.price_usd": 30_000},
    )  # fmt: skip
    result = quick(other)
    gpu = next(index for index, line in enumerate(made.bill) if line.unit_price_usd == 21_000)
    found = computed(made, tmp_path, {"life": 3, "power_price": 0.3, "busy": 0.4, "load": 9, "pue": 1.4, "grid": 50,
                                      f"p{gpu}": 30_000})  # fmt: skip
    assert result.cost and result.energy and result.capacity
    assert found["usd_out"] == pytest.approx(result.cost.usd_per_million_output_tokens, rel=1e-9)
    assert found["usd_in"] == pytest.approx(result.cost.usd_per_million_input_tokens, rel=1e-9)
    assert found["capex"] == pytest.approx(result.cost.capex_usd, rel=1e-9)
    assert found["systems"] == result.capacity.systems_needed
    assert found["usd_month"] == pytest.approx(result.capacity.usd_per_month, rel=1e-9)
    assert found["kw"] == pytest.approx(result.capacity.average_kw, rel=1e-9)
    assert found["carbon"] == pytest.approx(result.energy.gco2e_per_million_output_tokens, rel=1e-9)


def test_without_a_load_one_system_at_the_busy_share(tmp_path: Path) -> None:
    plain = set_paths(cases.TARGETS, {"workload.requests_per_s": None, "workload.spare_systems": 0})
    found = computed(brief(plain, planned=quick, with_flips=False), tmp_path)
    result = quick(plain)
    assert result.capacity
    assert found["systems"] == 1
    assert found["usd_month"] == pytest.approx(result.capacity.usd_per_month, rel=1e-9)


def test_no_cost_no_formulas() -> None:
    book = openpyxl.load_workbook(io.BytesIO(export(cases.unfit(), "xlsx")))
    assert "has no cost" in str(book["Economics"]["A1"].value)
    assert not [c for row in book["Economics"].iter_rows() for c in row if c.data_type == "f"]
