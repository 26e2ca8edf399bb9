"""Calibration throughput and memory on a synthetic checkpoint; the selectors of 58 x 256 experts against two solvers.

Each calibration runs in a process of its own, so that its peak memory is its own. Two
checkpoints of few and more experts show that their number does not matter for it.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import models
from benchmarks.report import Row, median_s, show
from planner.bitwidth import increments, select_layers
from planner.losses import surrogate_losses
from planner.selection import select_global

WIDTH, INNER = 2048, 1024
LAYERS, EXPERTS, BITS = 58, 256, 2.5
SOLVER_LIMIT_S = 60.0
CATALOG = Path(models.__path__[0]) / "catalog"


# --- calibration ---
def write_checkpoint(folder: Path, experts: int) -> int:
    """A one-layer Qwen3-MoE in BF16; returns the bytes of its experts."""
    config = json.loads((CATALOG / "Qwen__Qwen3-30B-A3B.json").read_text())
    config |= {"hidden_size": WIDTH, "moe_intermediate_size": INNER, "num_hidden_layers": 1}
    config |= {"num_experts": experts, "num_experts_per_tok": 2}
    (folder / "config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(0)
    noise = (rng.standard_normal(WIDTH * INNER, np.float32) * 0.02).view(np.uint32) >> 16
    header: dict[str, Any] = {}
    size, offset = WIDTH * INNER * 2, 0
    for expert in range(experts):
        for part, shape in (("gate_proj", [INNER, WIDTH]), ("up_proj", [INNER, WIDTH]), ("down_proj", [WIDTH, INNER])):
            name = f"model.layers.0.mlp.experts.{expert}.{part}.weight"
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
            offset += size
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for i in range(len(header)):
            file.write(np.roll(noise, 7919 * i).astype("<u2").tobytes())
    return offset


def child(folder: str, method: str) -> None:
    """Measure in this process and print seconds, bytes, and the peak of resident memory above that of the imports."""
    from planner.calibrate import command, gptq

    gptq.warm()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = json.loads(command.run([folder, "--out", f"{folder}/t.csv", "--method", method, "--json"]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({**answer, "peak_mb": (peak - before) * 1024 / 1e6}))


def calibrate(method: str, experts: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(Path(folder), experts)
        ran = subprocess.run(
            [sys.executable, "-m", "benchmarks.calibration", "--child", folder, method],
            cwd=Path(__file__).resolve().parent.parent,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def calibration_rows() -> list[Row]:
    rows = []
    expert_mb = 3 * WIDTH * INNER * 4 / 1e6
    hessian_mb = 3 * 8 * WIDTH**2 / 1e6
    for method, counts in (("rtn", (4, 24)), ("gptq", (2, 6))):
        few, many = (calibrate(method, count) for count in counts)
        name = f"{method}, {counts[1]} experts of {WIDTH} x {INNER}, 1 to 4 bits"
        rows.append(Row(name, many["read_mb_per_s"], "MB/s", note=f"{many['read_bytes'] / 1e6:.0f} MB of BF16 weights"))
        rows.append(
            Row(
                "  peak memory above the imports",
                many["peak_mb"],
                "MB",
                many["peak_mb"] / few["peak_mb"],
                f"that with {counts[0]} experts",
                note=f"one expert as float32 is {expert_mb:.0f} MB"
                + (f", three Hessians as float64 {hessian_mb:.0f} MB" if method == "gptq" else ""),
            )
        )
    return rows


# --- selectors ---
def losses() -> np.ndarray:
    """Surrogate losses with noise of each expert and width, falling: rows are not convex, and layers differ."""
    rng = np.random.default_rng(0)
    table = surrogate_losses(LAYERS, EXPERTS, 0.8).values * np.exp(0.3 * rng.standard_normal((LAYERS, EXPERTS, 4)))
    return -np.sort(-table * np.exp(0.5 * rng.standard_normal((LAYERS, 1, 1))), axis=2)


def cp_sat(layer: np.ndarray, budget: int) -> float:
    """Least loss of one layer by OR-tools CP-SAT, whose objective is whole numbers: billionths."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    pick = [[model.new_bool_var("") for _ in range(4)] for _ in layer]
    for row in pick:
        model.add_exactly_one(row)
    model.add(sum(b * row[b] for row in pick for b in range(4)) <= budget)
    scale = 1e9
    pairs = zip((p for row in pick for p in row), layer.ravel(), strict=True)
    model.minimize(sum(round(scale * float(value)) * picked for picked, value in pairs))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = SOLVER_LIMIT_S
    solver.parameters.num_workers = 2
    if solver.solve(model) != cp_model.OPTIMAL:
        raise RuntimeError("CP-SAT did not prove its optimum in time")
    return float(solver.objective_value) / scale


def highs(rows: np.ndarray, budget: int) -> float:
    """Least loss under one budget by HiGHS."""
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import csr_array, eye_array, kron

    count = len(rows)
    one_each = kron(eye_array(count), np.ones((1, 4)), format="csr")
    cost = csr_array(np.tile(np.arange(4.0), count)[None])
    found = milp(
        rows.ravel(),
        constraints=[LinearConstraint(one_each, 1, 1), LinearConstraint(cost, -np.inf, budget)],
        integrality=np.ones(rows.size),
        bounds=(0, 1),
        options={"mip_rel_gap": 1e-9, "time_limit": SOLVER_LIMIT_S},
    )
    return float(found.fun)


def timed(work: Any) -> tuple[float, float]:
    start = time.perf_counter()
    value = float(work())
    return value, time.perf_counter() - start


def selector_rows() -> list[Row]:
    table = losses()
    budget = increments(EXPERTS, BITS)
    select_layers(table, None, BITS, "exact")
    select_layers(table, None, BITS, "prefix")
    exact_s = median_s(lambda: select_layers(table, None, BITS, "exact"))
    prefix_s = median_s(lambda: select_layers(table, None, BITS, "prefix"))
    exact = float(select_layers(table, None, BITS, "exact").loss.sum())
    prefix = float(select_layers(table, None, BITS, "prefix").loss.sum())
    sat, sat_s = timed(lambda: sum(cp_sat(layer, budget) for layer in table))
    mip, mip_s = timed(lambda: sum(highs(layer, budget) for layer in table))
    shared = select_global(table, BITS)
    shared_s = median_s(lambda: select_global(table, BITS), 3)
    whole, whole_s = timed(lambda: highs(table.reshape(-1, 4), shared.budget))
    size = f"{LAYERS} x {EXPERTS}, {BITS} bits"
    return [
        Row(
            f"prefix search, {size}",
            prefix_s * 1e3,
            "ms",
            note=f"importance unrelated to sensitivity: its loss is {prefix / exact - 1:+.1%} on the optimum's",
        ),
        Row(f"dynamic programme, {size}", exact_s * 1e3, "ms"),
        Row("  CP-SAT, layer by layer", sat_s * 1e3, "ms", sat_s / exact_s, "the programme's", note=same(sat, exact)),
        Row("  HiGHS, layer by layer", mip_s * 1e3, "ms", mip_s / exact_s, "the programme's", note=same(mip, exact)),
        Row(
            "one budget over all layers",
            shared_s * 1e3,
            "ms",
            note=f"proven within {shared.gap:.1e} of the optimum; saves {shared.gain:.1%} of the loss of equal budgets",
        ),
        Row("  HiGHS, one budget", whole_s * 1e3, "ms", whole_s / shared_s, "ours", note=same(whole, shared.loss)),
    ]


def same(theirs: float, ours: float) -> str:
    return f"loss {theirs:.9g}, ours {ours:.9g}: {theirs / ours - 1:+.1e}"


def main() -> int:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:4])
        return 0
    status = show("Selectors against solvers, the same losses", selector_rows())
    return status | show("Calibration from safetensors, one process each", calibration_rows())


if __name__ == "__main__":
    sys.exit(main())
