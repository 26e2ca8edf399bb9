"""The stored run: predictions by case, figures and errors. It holds none of the table's measurements."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from planner import ENGINE_VERSION
from validation.silicon.fit import Fitted
from validation.silicon.run import Run
from validation.silicon.score import Errors, Scored, by, errors, noise
from validation.silicon.table import Row

FILE = Path(__file__).parent / "snapshot.json"
DIGITS = 4


def record(run: Run, table: dict[str, Any]) -> dict[str, Any]:
    """What is stored of a run. ``table``: package version, SHA-256 and rows of the file that was read."""
    before, after = run.scored(run.before), run.scored(run.after)
    seen = noise(run.cases)
    return {
        "engine_version": ENGINE_VERSION,
        "table": table,
        "left_out": dict(run.left_out),
        "refused": sorted(set(run.refused.values())),
        "errors": {"before": _errors(before), "after": _errors(after)},
        "noise": asdict(seen) if seen else None,
        "groups": _groups(before, after),
        "figures": [
            {"held_out": held_out, "engine": engine, "figures": dict(figures)}
            for (held_out, engine), figures in sorted(run.fitted.figures.items())
        ],
        "cases": _cases(run),
    }


def _errors(rows: tuple[Scored, ...]) -> dict[str, Any]:
    """Errors of unsaturated rows: as served, and of the passes alone."""
    ok = [r for r in rows if not r.saturated]
    return {
        "tpot": _round(errors(r.tpot_error for r in ok)),
        "ttft": _round(errors(r.ttft_error for r in ok)),
        "step_alone": _round(errors(r.step_error for r in ok)),
        "prompt_alone": _round(errors(r.prompt_error for r in ok)),
    }


def _round(found: Errors | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {k: v if isinstance(v, int) else round(v, DIGITS) for k, v in asdict(found).items()}


def _groups(before: tuple[Scored, ...], after: tuple[Scored, ...]) -> list[dict[str, Any]]:
    def name(row: Scored) -> str:
        case = row.case
        return f"{case.architecture}|{case.engine}|{case.row.system.removesuffix('_sxm').upper()}"

    old, found = by(before, name), []
    for key, rows in by(after, name).items():
        architecture, engine, gpu = key.split("|")
        found.append(
            {
                "architecture": architecture,
                "engine": engine,
                "gpu": gpu,
                "tpot": _round(errors(r.tpot_error for r in rows)),
                "ttft": _round(errors(r.ttft_error for r in rows)),
                "tpot_before": _round(errors(r.step_error for r in old.get(key, []))),
                "ttft_before": _round(errors(r.prompt_error for r in old.get(key, []))),
            }
        )
    return found


INPUTS = (
    "backend", "model", "system", "precision", "prompt_tokens", "output_tokens", "batch", "tensor", "pipeline",
    "attention_data", "moe_tensor", "moe_expert",
)  # fmt: skip


def _cases(run: Run) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for case in run.cases:
        if case.key in run.after and case.key not in found:
            predicted = run.after[case.key]
            found[case.key] = {
                "run": {name: getattr(case.row, name) for name in INPUTS}
                | {"drafted": case.scenario.workload.draft_tokens, "own_sweep": case.clients.shortest == 1.0},
                "rows": sum(c.key == case.key for c in run.cases),
                "ttft_s": float(f"{predicted.ttft_s:.5g}"),
                "tpot_s": float(f"{predicted.tpot_s:.5g}"),
                "step_s": float(f"{predicted.step_s:.5g}"),
            }
    return sorted(found.values(), key=lambda c: json.dumps(c["run"], sort_keys=True))


def row_of(stored: dict[str, Any]) -> Row:
    """A row with a stored case's inputs; its measurements are nought."""
    run = dict(stored["run"])
    drafted, own = run.pop("drafted"), run.pop("own_sweep")
    source = "source_file=/Users/" if own else "InferenceX"
    if drafted:
        source += "; measured=2026-01-14; tensorrt-llm/release:1.1.0rc2"
    return Row(
        id="", source=source, version="", mode="agg", gemm_mode="", moe_mode="", ttft_s=0.0, tpot_s=0.0, **run
    )  # fmt: skip


def fitted_of(stored: dict[str, Any]) -> Fitted:
    return Fitted({(f["held_out"], f["engine"]): f["figures"] for f in stored["figures"]})


def snapshot() -> dict[str, Any]:
    """The stored run."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def write(stored: dict[str, Any]) -> None:
    """Keep a run: one case, group and set of figures to a line."""
    lines = []
    for key, value in stored.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            inner = ",\n".join("  " + json.dumps(v, ensure_ascii=False) for v in value)
            lines.append(f" {json.dumps(key)}: [\n{inner}\n ]")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
