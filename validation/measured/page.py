"""``docs/validation.md``: predictions held against published measurements, generated from the stored run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from planner import accuracy, calibration
from planner.accuracy import Residual
from validation.measured.coverage import coverage, inside
from validation.measured.why import WHY

SNAPSHOT = Path(__file__).parent / "snapshot.json"
PAGE = Path(__file__).parents[2] / "docs" / "validation.md"
BARS: dict[tuple[str, str], tuple[int, int] | None] = {
    ("cpu_experts", "decode"): (15, 40),
    ("cpu_only", "decode"): (25, 50),
    ("cpu_experts", "prefill"): (25, 50),
    ("pcie_stream", "prefill"): (40, 80),
    ("gpu_expert_cache", "decode"): (50, 130),
    ("all_gpu", "e2e"): (20, 50),
    ("all_gpu", "decode"): (25, 45),
}
"""Median and 90th percentile, %, that a very good planner was expected to reach on machines never fitted."""
POOR = "C"
"""Quality of a source that leaves a key quantity to be assumed (memory speed, architecture, approximate value)."""
ORDER = ("cpu_experts", "cpu_only", "pcie_stream", "gpu_expert_cache", "all_gpu", "unified_memory")


def table(rows: Sequence[Residual]) -> list[dict[str, Any]]:
    """By regime, phase and quality of the source: rows, machines, median, p75, p90, coverage, and the bar.

    Runs with an assumed key quantity (quality C) are cells of their own, without a bar.
    """
    found = []
    for regime, phase, poor in sorted({_cell(r) for r in rows}, key=lambda k: (ORDER.index(k[0]), *k[1:])):
        cell = [r for r in rows if _cell(r) == (regime, phase, poor)]
        missed = accuracy.missed([math.expm1(-r.log_ratio) for r in cell])
        within = [value for value in (inside(row, rows) for row in cell) if value is not None]
        found.append(
            {
                "regime": regime,
                "phase": phase,
                "quality": POOR if poor else "",
                "rows": len(cell),
                "groups": len({r.group for r in cell}),
                "median": missed.median,
                "p75": missed.p75,
                "p90": missed.p90,
                "coverage": float(np.mean(within)) if within else None,
                "bar": None if poor else BARS.get((regime, phase)),
            }
        )
    return found


def _cell(row: Residual) -> tuple[str, str, bool]:
    return row.regime, row.phase, row.quality == POOR


def misses(cell: Mapping[str, Any]) -> bool:
    """Whether a cell is over its bar, as shown: whole per cent."""
    bar = cell["bar"]
    return bar is not None and (round(100 * cell["median"]) > bar[0] or round(100 * cell["p90"]) > bar[1])


def cell_name(cell: Mapping[str, Any]) -> str:
    """Regime, phase and quality, as the table names them."""
    return f"{cell['regime'].replace('_', ' ')}, {cell['phase']}" + (", quality C" if cell["quality"] else "")


def snapshot() -> dict[str, Any]:
    """The stored run: a prediction for every published measurement."""
    found: dict[str, Any] = json.loads(SNAPSHOT.read_text(encoding="utf-8"))
    return found


def summary_table(rows: Sequence[Residual]) -> str:
    """The table as Markdown."""
    lines = [
        "| regime, phase | rows | machines | median error | p75 | p90 | bar (median, p90) | in the 80 % interval |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in table(rows):
        bar = "report only" if cell["bar"] is None else f"{cell['bar'][0]} %, {cell['bar'][1]} %"
        inside_share = "" if cell["coverage"] is None else f"{100 * cell['coverage']:.0f} %"
        lines.append(
            f"| {cell_name(cell)} | {cell['rows']} | {cell['groups']} | "
            f"{100 * cell['median']:.0f} % | {100 * cell['p75']:.0f} % | {100 * cell['p90']:.0f} % | {bar} | "
            f"{inside_share} |"
        )
    return "\n".join(lines)


def reasons(rows: Sequence[Residual]) -> str:
    """A sentence for each cell over its bar, as a Markdown list."""
    over = [cell for cell in table(rows) if misses(cell)]
    if not over:
        return "Every cell with a bar reaches it."
    lines = [f"* **{cell_name(cell)}**: {WHY[cell['regime'], cell['phase']]}" for cell in over]
    return "\n".join(["Cells over their bar, and what their worst rows have in common:", "", *lines])


def coverage_sentence(rows: Sequence[Residual]) -> str:
    """Coverage over all runs with its error, in words."""
    found = coverage(rows)
    return (
        f"{found.rows} runs on {found.groups} machines: with each machine counted once, {100 * found.share:.0f} % lie "
        f"in their 80 % interval when their machine is left out of fit and interval (binomial error over machines: "
        f"±{100 * found.error:.0f} points); with each run counted once, {100 * found.of_runs:.0f} %."
    )


def markdown() -> str:
    """The whole page."""
    rows, stored, shipped = accuracy.residuals(), snapshot(), calibration.shipped()
    usable = [row for row in stored["rows"] if row["usable"]]
    missing = [row for row in stored["rows"] if row["predicted_tokens_per_s"] is None]
    counts = len(stored["rows"]), len(rows), len({r.group for r in rows})
    parts = [
        "# Predictions held against published measurements",
        "<!-- Written by `python -m validation.measured`; change the code or the points, not this page. -->",
        f"{counts[0]} published measurements of MoE inference (`validation/measured/points.csv`, each with its source) "
        f"were mapped to scenarios; {counts[1]} usable ones on {counts[2]} machines or experiments are scored. "
        "`python -m planner validate measured` computes all of them anew; `python -m planner validate FILE.csv` does "
        "the same for your own runs.",
        "## Errors on machines that were never fitted",
        "Absolute error of tokens/s, predicted / measured - 1. **Held out**: every coefficient is fitted again without "
        "any run of the machine (or experiment) that is judged, so no figure below has seen what it is compared with. "
        "An engine family that only this machine ran falls back to the generic coefficients. Bars are what a very good "
        "planner was expected to reach; cells that miss them are shown like the others.",
        summary_table(rows),
        "Rows of quality C (the source leaves a key quantity to be assumed: memory speed, architecture, an approximate "
        "value) are cells of their own, without a bar; bars are judged on qualities A and B.",
        reasons(rows),
        coverage_sentence(rows),
        "Noise floor: the same engine with other flags differs by 4 % in the median, two engines on the same model, "
        "machine and workload by 25 % (70 % at the 90th percentile).",
        "What five runs of a machine's own are worth: [calibrated with five runs](validation_per_machine.md).",
        "## Intervals",
        "Grouped conformal prediction: the held-out errors of the runs nearest in kind (same regime, phase and engine "
        f"family; pooled over families, then phases, until at least {accuracy.LEAST_GROUPS} machines), each machine "
        "with weight one and one machine assumed beyond either end. Outside the measured shapes an interval is wider "
        f"by {accuracy.OUTSIDE:g} in ln. Where the ranges of the inputs give a wider end, that one is taken and named. "
        "Nothing with near-data processing was measured in silicon: there the inputs' ranges are all there is.",
        "The rule was held against runs of known truth (machines that scatter by a heavy-tailed offset, runs of one "
        "machine around it): with 5 to 14 machines it covers 80 to 86 %, the quantiles without a further machine 69 to "
        "76 %. It promises that the next machine lies inside, so coverage counts each machine once; machines with "
        "many runs are predicted better, which is why more of the runs lie inside.",
        "## Coefficients",
        f"Calibration {shipped.name!r}, engine {shipped.engine_version}, {shipped.date}: {shipped.fitted_on}. Robust "
        "(soft L1), held towards the catalog's figures, families towards the generic ones; machines count with the "
        "square root of their runs.",
        _coefficients(),
        f"Figures with 0 runs are not fitted on these runs: {_not_fitted()}.",
        "## Rows kept out of the cells",
        f"{len(stored['rows']) - len(usable)} points are predicted but not scored, because their source contradicts "
        "itself or another one, exceeds what its hardware can do, or does not say enough (column `unusable_reason` of "
        "the points). Found wrong in their source: M332 against M792 and M793 (three rates for one run), M424 to M430 "
        "and M709 (faster than memory or link). M442 states a memory speed that its CPU does not have; it is kept, as "
        "quality C.",
        "None of the points is a run of the silicon table that `docs/silicon.md` is about: the two have different "
        "sources, and no served point has the TPOT (within 0.5 %) and lengths of any of its rows.",
        "## Rows without a prediction",
        _missing(missing),
    ]
    return "\n\n".join(parts) + "\n"


def _coefficients() -> str:
    shipped = calibration.shipped()
    lines = ["| family | figure | value | range | runs | machines |", "|---|---|---|---|---|---|"]
    names = [calibration.GENERIC, *sorted(f for f in shipped.families if f != calibration.GENERIC)]
    for name in names:
        for path, c in sorted(shipped.families[name].items()):
            lines.append(f"| {name} | `{path}` | {c.value:g} | {c.low:g} to {c.high:g} | {c.rows} | {c.groups} |")
    return "\n".join(lines)


def _not_fitted() -> str:
    """What the calibration states and does not fit, with where it comes from."""
    return (
        "`pcie.host_crossings` (copies through a staging buffer), `cpu.thread_sync_s` (about 50 barriers per layer, "
        "0.1 us per thread) follow from how engines of a kind are built; `gpu.request_overhead_s` and "
        "`gpu.kernel_launch_eager_s` of the serving engines are those that `validation.silicon` fits on first-token "
        "times, which rates of tokens say nothing about"
    )


def _missing(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "None."
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row["reason"], []).append(row["id"])
    lines = ["| rows | reason |", "|---|---|"]
    for reason, idents in sorted(by_reason.items(), key=lambda item: -len(item[1])):
        shown = ", ".join(idents[:6]) + (f" and {len(idents) - 6} more" if len(idents) > 6 else "")
        lines.append(f"| {shown} | {reason.replace('|', '/')} |")
    return "\n".join(lines)


def write(rows: Sequence[dict[str, Any]], engine_version: str) -> None:
    """Store a run and write the page from it."""
    kept = ("id", "regime", "phase", "usable", "predicted_tokens_per_s", "bound_by", "in_validated_range", "reason")
    lines = ",\n".join("  " + json.dumps({name: _short(row[name]) for name in kept}) for row in rows)
    SNAPSHOT.write_text(
        f'{{\n "engine_version": {json.dumps(engine_version)},\n "rows": [\n{lines}\n ]\n}}\n', encoding="utf-8"
    )
    PAGE.write_text(markdown(), encoding="utf-8")


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value
