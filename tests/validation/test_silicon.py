"""The silicon table: reading, mapping, held-out fit and stored run, on a synthetic table of the same columns."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from validation.silicon import fit, store, table
from validation.silicon.mapping import Case, Layout, UnmappableError, layout_of, mapped
from validation.silicon.page import markdown
from validation.silicon.predict import Prediction, predict
from validation.silicon.run import Run, cases_of, whole
from validation.silicon.score import Scored, errors, noise

PLAIN = {
    "id": "a", "silicon_data_source": "source_file=2026-04-06.csv; silicon_concurrency=8; measured=2026-03-27",
    "backend": "vllm", "backend_version": "0.18.0", "model_path": "openai/gpt-oss-120b", "system": "h200_sxm",
    "precision": "fp4", "mode": "agg", "isl": "1024", "osl": "1024", "gemm_quant_mode": "nvfp4",
    "moe_quant_mode": "nvfp4", "batch_size": "8", "tp_size": "4", "pp_size": "1", "attention_dp_size": "1",
    "moe_tp_size": "4", "moe_ep_size": "1", "silicon_ttft_ms": "73.519", "silicon_tpot_ms": "5.4321",
}  # fmt: skip
R1 = {**PLAIN, "model_path": "deepseek-ai/DeepSeek-R1", "precision": "fp8", "gemm_quant_mode": "fp8"}
TRT = {**R1, "backend": "trtllm", "tp_size": "64", "moe_tp_size": "8", "moe_ep_size": "8"}
TRT_SOURCE = "image=nvcr.io/nvidia/tensorrt-llm/release:1.1.0rc2.post2; measured="
QWEN = {
    **PLAIN, "silicon_data_source": "source_file=/Users/a/b.csv; silicon_concurrency=4", "precision": "fp8",
    "model_path": "Qwen/Qwen3-235B-A22B-FP8", "batch_size": "4", "attention_dp_size": "", "isl": "512", "osl": "128",
}  # fmt: skip


def written(path: Path, rows: Sequence[dict[str, str]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, list(PLAIN))
        out.writeheader()
        out.writerows(rows)
    return path


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def found(*rows: dict[str, str]) -> tuple[table.Row, ...]:
        return table.read(written(tmp_path / "table.csv", rows))

    return found


def test_a_row_is_read_in_si_units(read: Any) -> None:
    (row,) = read(PLAIN)
    assert (row.ttft_s, row.tpot_s) == pytest.approx((0.073519, 0.0054321))
    assert (row.prompt_tokens, row.tensor, row.moe_expert, row.concurrency_stated) == (1024, 4, 1, 8)
    assert row.measured_on == "2026-03-27"


def test_what_is_wrong_with_a_table_is_said(tmp_path: Path, read: Any) -> None:
    short = tmp_path / "short.csv"
    short.write_text("id,isl\na,1\n", encoding="utf-8")
    with pytest.raises(table.TableError, match="no column silicon_data_source"):
        table.read(short)
    with pytest.raises(table.TableError, match="line 2: isl is 'many'"):
        read({**PLAIN, "isl": "many"})
    with pytest.raises(table.TableError, match="cannot be read"):
        table.read(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("cells", "layout"),
    [
        (PLAIN, Layout(4, False, False)),
        (TRT, Layout(8, True, False)),  # tp 8, ep 8 multiplied by the import
        ({**TRT, "tp_size": "1", "attention_dp_size": "64", "batch_size": "2"}, Layout(8, True, True)),
        ({**TRT, "tp_size": "8", "moe_ep_size": "1"}, Layout(8, True, False)),  # its recipe sets ep = tp
        ({**R1, "tp_size": "8", "moe_tp_size": "8"}, Layout(8, False, False)),
        ({**QWEN, "tp_size": "2", "moe_tp_size": "4"}, Layout(4, False, True)),
        ({**QWEN, "moe_tp_size": "1", "moe_ep_size": "4"}, Layout(4, True, False)),
    ],
)
def test_gpus_of_a_row(read: Any, cells: dict[str, str], layout: Layout) -> None:
    (row,) = read(cells)
    assert layout_of(row) == layout


def test_a_row_becomes_a_scenario_and_its_clients(read: Any) -> None:
    (case,) = [mapped(r) for r in read(PLAIN)]
    w = case.scenario.workload
    assert (w.batch, w.prompt_tokens, w.output_tokens) == (8, 922, 922)  # uniform from 0.8 of the length to all of it
    assert (case.clients.count, case.clients.prompt_tokens, case.clients.shortest) == (8, 1024, 0.8)
    assert case.scenario.system.gpu == "h200-sxm-141gb"
    assert case.scenario.model.weight_format == "native"
    (own,) = [mapped(r) for r in read(QWEN)]
    assert (own.scenario.workload.prompt_tokens, own.clients.shortest) == (512, 1.0)


def test_drafted_tokens_come_from_the_recipe_of_that_day(read: Any) -> None:
    drafted = []
    for day, extra in (
        ("2026-01-14", {}),
        ("2026-01-14", {"tp_size": "1", "attention_dp_size": "64"}),
        ("2025-12-15", {}),
    ):
        (row,) = read({**TRT, **extra, "silicon_data_source": TRT_SOURCE + day})
        drafted.append(mapped(row).scenario.workload.draft_tokens)
    assert drafted == [3, 1, 0]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"mode": "disagg"}, "mode disagg"),
        ({"system": "b200_sxm"}, "system b200_sxm"),
        ({"model_path": "Qwen/Qwen3-32B"}, "without experts"),
        ({"model_path": "someone/unknown"}, "not in the catalog"),
        ({"precision": "fp5"}, "precision 'fp5'"),
        ({"batch_size": ""}, "no batch size"),
        ({"tp_size": ""}, "not one stage"),
    ],
)
def test_rows_without_a_scenario_have_a_reason(read: Any, cells: dict[str, str], reason: str) -> None:
    (row,) = read({**PLAIN, **cells})
    with pytest.raises(UnmappableError, match=reason):
        mapped(row)


def test_outcomes_are_no_inputs(read: Any) -> None:
    one, other = [mapped(r) for r in read(PLAIN, {**PLAIN, "silicon_ttft_ms": "9", "silicon_tpot_ms": "9"})]
    assert one.key == other.key
    assert (one.scenario, one.clients) == (other.scenario, other.clients)


def invented(read: Any, truth: np.ndarray, slow: str = "") -> tuple[list[fit.Sample], Any]:
    """Samples of three architectures on two engines that a known linear law gives, and that law as a linearisation."""
    random = np.random.default_rng(3)
    cells = [
        {**c, "backend": b, "batch_size": str(n)}
        for c in (PLAIN, R1, QWEN)
        for b in ("vllm", "sglang")
        for n in range(1, 13)
    ]
    cases = [mapped(r) for r in read(*cells)]
    jacobian = random.normal(0.0, 0.6, (len(cases), len(fit.PATHS), 2))
    at, value = np.log([f.start for f in fit.FITTED]), random.normal(-3.0, 0.5, (len(cases), 2))
    measured = value + np.einsum("rfk,f->rk", jacobian, truth - at)
    measured += np.array([[1.0 if c.architecture == slow else 0.0] * 2 for c in cases])
    known = [fit.Sample(c, float(np.exp(m[0])), float(np.exp(m[1])), 1) for c, m in zip(cases, measured, strict=True)]

    def linearise(some: Sequence[fit.Sample], x: np.ndarray) -> fit.Linear:
        return fit.Linear(x, value + np.einsum("rfk,f->rk", jacobian, x - at), jacobian)

    return known, linearise


def off(figures: Any, truth: np.ndarray) -> float:
    return float(np.abs(np.log([figures[p] for p in fit.PATHS]) - truth).mean())


def test_the_fit_finds_the_figures_that_made_the_runs(read: Any) -> None:
    start = np.log([f.start for f in fit.FITTED])
    truth = np.minimum(start + 0.3, np.log([f.high for f in fit.FITTED]) - 0.01)
    known, linearise = invented(read, truth)
    found = fit.fit(known, linearise)
    for held_out in ("", "DeepSeek-V3", "gpt-oss-120b"):
        assert off(found.of(held_out, "vllm"), truth) < 0.25 * float(np.abs(start - truth).mean())


def test_what_is_judged_has_no_say_in_its_figures(read: Any) -> None:
    start = np.log([f.start for f in fit.FITTED])
    known, linearise = invented(read, start + 0.1 * (np.log([f.high for f in fit.FITTED]) > start + 0.2))
    found = fit.fit(known, linearise, rounds=1)
    spoilt = [replace(s, tpot_s=9 * s.tpot_s) if s.case.architecture == "DeepSeek-V3" else s for s in known]
    again = fit.fit(spoilt, linearise, rounds=1)
    assert again.of("DeepSeek-V3", "vllm") == found.of("DeepSeek-V3", "vllm")
    assert again.of("", "vllm") != found.of("", "vllm")


def test_a_group_of_runs_that_went_wrong_is_left_behind(read: Any) -> None:
    start = np.log([f.start for f in fit.FITTED])
    known, linearise = invented(read, start, slow="Qwen3-235B")
    found = fit.fit(known, linearise)
    assert off(found.of("gpt-oss-120b", "vllm"), start) < 0.25


def test_errors_and_noise_by_hand(read: Any) -> None:
    cases = [mapped(r) for r in read(PLAIN, PLAIN, {**PLAIN, "silicon_tpot_ms": "5.97531"})]
    found = noise(cases)
    assert found is not None and (found.pairs, found.identical) == (1, 1)
    assert found.tpot_median == pytest.approx(0.1)
    row = Scored(cases[0], Prediction(2 * 0.073519, 0.0054321, 0.004, 0.05))
    assert row.ttft_error == pytest.approx(1.0) and row.tpot_error == pytest.approx(0.0, abs=1e-12)
    assert errors([]) is None
    seen = errors([-0.1, 0.2, 0.3])
    assert seen is not None and (seen.median, seen.signed) == (0.2, 0.2)


def test_a_run_is_stored_without_measurements(read: Any) -> None:
    rows = read(PLAIN, {**PLAIN, "mode": "disagg"}, QWEN)
    fitted = fit.Fitted({(held, ""): fit.START for held in ("", "gpt-oss-120b", "Qwen3-235B")})
    run: Run = whole(rows, fitted=fitted)
    assert len(run.after) == 2 and not run.refused
    stored = store.record(run, {"version": "0", "sha256": "0" * 64, "rows": 3, "scored": 2})
    text = json.dumps(stored)
    assert "73.519" not in text and "0.073519" not in text and "5.4321" not in text and "0.0054321" not in text
    assert sum(stored["left_out"].values()) == 1
    page = markdown(stored)
    assert "| gpt-oss-120b | vllm | H200 | 1 |" in page
    served = run.after[run.cases[0].key]
    assert served.tpot_s >= served.step_s and served.ttft_s > 0


def test_without_the_package_the_command_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from validation.silicon.__main__ import main

    monkeypatch.setattr(table, "PACKAGE", "no_such_package_here")
    assert main([]) == 2
    assert "pip install aiconfigurator-core" in capsys.readouterr().err


@pytest.mark.parametrize("stored", store.snapshot()["cases"][::100], ids=lambda c: c["run"]["model"].split("/")[-1])
def test_stored_predictions_are_those_of_this_engine(stored: dict[str, Any]) -> None:
    case: Case = mapped(store.row_of(stored))
    figures = store.fitted_of(store.snapshot()).of(case.architecture, case.engine)
    now = predict(case, figures)
    assert now.tpot_s == pytest.approx(stored["tpot_s"], rel=1e-3)
    assert now.ttft_s == pytest.approx(stored["ttft_s"], rel=1e-3)


def test_the_page_is_that_of_the_stored_run() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "silicon.md"
    assert page.read_text(encoding="utf-8") == markdown(store.snapshot())


def test_every_scored_row_has_a_model_in_the_catalog(tmp_path: Path) -> None:
    """On a synthetic table, and on the real one where the package is installed."""
    paths = [written(tmp_path / "table.csv", [PLAIN, R1, TRT, QWEN])]
    if (real := table.installed()) is not None:
        paths.append(real)
    for path in paths:
        cases, left_out = cases_of(table.read(path))
        assert cases and all("not in the catalog" not in reason for reason in left_out)
        stored = store.snapshot()["table"]
        if table.digest(path) == stored["sha256"]:
            assert len(cases) == stored["scored"]
