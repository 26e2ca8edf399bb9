"""``calibrate-losses`` and ``import-losses``, from the words to the file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import planner
from planner import loss_tables
from planner.calibrate import gptq
from planner.calibrate.activations import Drawn, Given
from planner.calibrate.errors import CalibrationError
from planner.calibrate.experts import Activation, Expert, activation_of, hidden, output, relative_error
from planner.calibrate.layouts import ExpertReader
from planner.calibrate.measure import expert_losses, measure, split
from planner.calibrate.safetensors import Checkpoint
from planner.cli.main import main
from planner.loss_table_io import read_table
from tests.losses import checkpoints as make

ROOT = Path(planner.__path__[0]).parent


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Runs a command with ``--json`` that must succeed."""

    def running(*arguments: object) -> dict[str, Any]:
        capsys.readouterr()
        code = main([*map(str, arguments), "--json"])
        out, err = capsys.readouterr()
        assert (code, err) == (0, "")
        return json.loads(out)

    return running


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must be refused in one sentence."""

    def refusing(*arguments: object) -> str:
        capsys.readouterr()
        code = main(list(map(str, arguments)))
        out, err = capsys.readouterr()
        assert (code, out, err.count("\n")) == (2, "", 1), (code, out, err)
        assert err.endswith((".\n", "?\n")) and len(err) < 700
        return err.strip()

    return refusing


def correlated_file(path: Path, width: int, samples: int = 800, rho: float = 0.95) -> Path:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((samples, width))
    for i in range(1, width):
        x[:, i] = rho * x[:, i - 1] + (1 - rho**2) ** 0.5 * x[:, i]
    np.save(path, x.astype(np.float32))
    return path


def test_a_table_is_measured_kept_and_read_again(home: Path, run: Callable[..., dict[str, Any]]) -> None:
    made = make.mixtral(home / "small-moe", shards=2)
    given = correlated_file(home / "x.npy", make.HIDDEN)
    out = home / "table.csv"
    answer = run("calibrate-losses", made.folder, "--out", out, "--activations", given, "--register")
    table = read_table(out)
    assert table.digest == answer["digest"] == loss_tables.get(answer["digest"]).digest
    assert (table.layers, table.experts, table.surrogate) == ((0, 1), make.EXPERTS, False)
    assert (np.diff(table.values, axis=2) < 0).all(), "losses fall with bits"
    assert table.values.min() > 0 and table.values.max() < 1.5
    assert answer["mean_loss"]["2"] == pytest.approx(table.values[:, :, 1].mean())
    about = table.provenance
    assert about.model == "small-moe" and about.group_size == 128
    assert "gptq" in about.method and "held out" in about.method
    assert "x.npy" in about.calibration and "800" in about.calibration
    assert about.software.startswith("Tierline ") and len(about.date) == 10
    assert answer["read_bytes"] == sum(w.size * 2 for e in made.experts.values() for w in e.values())
    listed = os.listdir(home)
    assert sorted(listed) == ["data", "small-moe", "table.csv", "x.npy"], "nothing is left beside the table"


def test_gptq_beats_rounding_on_activations_that_go_together(home: Path, run: Callable[..., dict[str, Any]]) -> None:
    made = make.mixtral(home / "model")
    given = correlated_file(home / "x.npy", make.HIDDEN)
    losses = {}
    for method in ("rtn", "gptq"):
        out = home / f"{method}.parquet"
        run("calibrate-losses", made.folder, "--out", out, "--activations", given, "--method", method, "--repair")
        losses[method] = read_table(out).values
    ratio = losses["gptq"] / losses["rtn"]
    assert (ratio.mean(axis=(0, 1)) < [0.9, 0.8, 0.75, 0.75]).all()
    assert (ratio[:, :, 1:] < 1).mean() > 0.95


@pytest.mark.parametrize("method", ["rtn", "gptq"])
def test_the_same_again_is_the_same_and_another_seed_is_not(
    home: Path, run: Callable[..., dict[str, Any]], method: str
) -> None:
    made = make.mixtral(home / "model")
    found = []
    for i, seed in enumerate((3, 3, 4)):
        out = home / f"{i}.csv"
        run("calibrate-losses", made.folder, "--out", out, "--method", method, "--seed", seed, "--samples", 64)
        found.append(read_table(out))
    assert found[0].digest == found[1].digest
    assert not np.array_equal(found[0].values, found[2].values)
    assert "64 drawn activations, not of this model" in found[0].provenance.calibration
    assert "seed 3" in found[0].provenance.calibration


@pytest.mark.parametrize("method", ["rtn", "gptq"])
def test_other_layouts_and_activations_are_measured(
    home: Path, run: Callable[..., dict[str, Any]], method: str
) -> None:
    for name, maker, kind in (("oss", make.gpt_oss, "gpt-oss"), ("dbrx", make.dbrx, "silu")):
        made = maker(home / name)
        answer = run("calibrate-losses", made.folder, "--out", home / "t.csv", "--method", method, "--samples", 128)
        losses = list(answer["mean_loss"].values())
        assert losses == sorted(losses, reverse=True) and 0 < losses[-1] < losses[0] < 1.2
        assert any(f"activation {kind}" in note for note in answer["provenance"]["notes"])


def test_a_loss_is_the_error_of_the_output(tmp_path: Path) -> None:
    """By hand, for one expert, rounded."""
    from planner.calibrate.quantise import round_to_nearest

    made = make.mixtral(tmp_path)
    weights = {k: v.astype(np.float64) for k, v in made.experts[1, 2].items()}
    x = Drawn(50, 0.5, 9).of_layer(1, make.HIDDEN, 1)

    def compute(gate: np.ndarray, up: np.ndarray, down: np.ndarray) -> np.ndarray:
        g = x @ gate.T
        return (g / (1 + np.exp(-g)) * (x @ up.T)) @ down.T

    exact = compute(**weights)
    reader = ExpertReader(Checkpoint(tmp_path), planner_model(tmp_path))
    found = measure(reader, [1], Drawn(50, 0.5, 9), Activation("silu"), (3, 1), "rtn", 16)
    for i, bits in enumerate((3, 1)):
        rounded = compute(**{k: round_to_nearest(v, bits, 16) for k, v in made.experts[1, 2].items()})
        expected = ((rounded - exact) ** 2).sum() / (exact**2).sum()
        assert found.losses[0, 2, i] == pytest.approx(expected, rel=1e-4)


def planner_model(folder: Path) -> Any:
    from models import parse_config_file, read_config

    return read_config(parse_config_file(folder / "config.json"), "test")


def test_a_part_is_written_as_a_part(
    home: Path, run: Callable[..., dict[str, Any]], refused: Callable[..., str]
) -> None:
    made = make.mixtral(home / "model")
    out = home / "part.csv"
    answer = run("calibrate-losses", made.folder, "--out", out, "--layers", "1", "--bits", "2-3", "--samples", 16)
    assert (answer["complete"], answer["digest"], answer["bits"]) == (False, None, [2, 3])
    assert len(out.read_text().splitlines()) == 2 + make.EXPERTS * 2
    assert "lacks layer 1, expert 0 at 1 bits" in refused("import-losses", out)
    part = ("calibrate-losses", made.folder, "--out", out, "--bits", "2")
    assert "whole tables only" in refused(*part, "--register")


def test_losses_that_rise_are_reported_and_levelled_only_when_asked(
    home: Path, run: Callable[..., dict[str, Any]], refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make.mixtral(home / "model")
    monkeypatch.setattr("planner.calibrate.measure.relative_error", iter_errors([0.5, 0.1, 0.2, 0.05]))
    out = home / "t.csv"
    measured = ("calibrate-losses", made.folder, "--out", out, "--method", "rtn", "--samples", 8)
    answer = run(*measured)
    assert (answer["rises"], answer["repaired"]) == (8, 0)
    assert "8 of 32 losses rise with bits, the first in layer 0, expert 0, from 2 to 3 bits." in out.read_text()
    assert "rises from 0.1 at 2 bits to 0.2 at 3 (and at 7 more places)" in refused("import-losses", out)
    assert "rises from 0.1" in refused(*measured, "--register")
    assert run(*measured, "--repair")["repaired"] == 8
    table = read_table(out)
    assert table.values[1, 3].tolist() == pytest.approx([0.5, 0.15, 0.15, 0.05])
    assert "Levelled by least squares" in table.provenance.notes[-1]


def iter_errors(values: list[float]) -> Callable[..., float]:
    calls = [0]

    def error(*_: object) -> float:
        calls[0] += 1
        return values[(calls[0] - 1) % len(values)]

    return error


# --- bad input -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "t.txt"], "must end in .csv or .parquet"),
        (["--out", "none/t.csv"], "there is no folder"),
        (["--out", "t.csv", "--bits", "0,2"], "--bits is"),
        (["--out", "t.csv", "--bits", "5"], "whole number from 1 to 4"),
        (["--out", "t.csv", "--bits", "3-1"], "from the smaller to the larger"),
        (["--out", "t.csv", "--bits", ""], "--bits is"),
        (["--out", "t.csv", "--method", "gtpq"], "the nearest is gptq"),
        (["--out", "t.csv", "--group-size", "100"], "The group size is 100"),
        (["--out", "t.csv", "--group-size", "x"], "--group-size is"),
        (["--out", "t.csv", "--samples", "0"], "--samples is"),
        (["--out", "t.csv", "--samples", "3"], "GPTQ needs at least 4 samples"),
        (["--out", "t.csv", "--samples", "100000"], "accepted is 1 to 65,536"),
        (["--out", "t.csv", "--seed", "-1"], "--seed is"),
        (["--out", "t.csv", "--correlation", "1"], "0 to below 1"),
        (["--out", "t.csv", "--correlation", "much"], "0 to below 1"),
        (["--out", "t.csv", "--layers", "7"], "--layers is"),
        (["--out", "t.csv", "--model", "mistralai/Mixtral-8x7B"], "the nearest is mistralai/Mixtral-8x7B-v0.1"),
        (["--out", "t.csv", "--model", "deepseek-ai/DeepSeek-V3"], "no tensor of the experts of layer 3"),
        (["--out", "t.csv", "--model", "google/switch-base-128"], "cannot be calibrated: an encoder-decoder"),
        (["--out", "t.csv", "--activations", "none.npy"], "There is no activation file"),
        (["--out", "t.csv", "--activations", "none.npy", "--seed", "1"], "--seed is for drawn activations"),
        ([], "--out is missing"),
        (["--out", "t.csv", "--layer", "1"], "the nearest is --layers"),
    ],
)
def test_bad_options_are_one_sentence(
    home: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    make.mixtral(home / "model")
    monkeypatch.chdir(home)
    assert words in refused("calibrate-losses", "model", *arguments)
    assert sorted(os.listdir(home)) == ["model"]


def test_bad_checkpoints_are_one_sentence(home: Path, refused: Callable[..., str]) -> None:
    out = ("--out", home / "t.csv")
    assert "There is no checkpoint folder" in refused("calibrate-losses", home / "none", *out)
    made = make.mixtral(home / "model", shards=2)
    (made.folder / "model-00001-of-00002.safetensors").unlink()
    assert "1 of the 2 shards" in refused("calibrate-losses", made.folder, *out)
    (made.folder / "config.json").write_text("{")
    assert "config.json" in refused("calibrate-losses", made.folder, *out)
    (made.folder / "config.json").write_text('{"model_type": "llama"}')
    assert "dense model" in refused("calibrate-losses", made.folder, *out)
    (made.folder / "config.json").unlink()
    assert "no config.json; name the model with --model" in refused("calibrate-losses", made.folder, *out)
    assert not (home / "t.csv").exists()


def test_an_activation_function_that_is_not_understood_is_named() -> None:
    with pytest.raises(CalibrationError, match='the activation "gelu"'):
        activation_of("mixtral", {"hidden_act": "gelu"})
    with pytest.raises(CalibrationError, match="swiglu_limit -1"):
        activation_of("gpt_oss", {"swiglu_limit": -1})


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.ones((5, 7), np.float32), r"\[5, 7\]; the experts of layer 0 take \[samples, 64\]"),
        (np.ones(64, np.float32), r"shape \[64\]"),
        (np.ones((0, 64), np.float32), r"\[0, 64\]"),
        (np.ones((5, 64), np.int32), "int32"),
        (np.full((5, 64), np.nan), "not finite"),
        (np.full((5, 64), 1e300), "not finite"),
        (np.array([[object()]]), "cannot be read"),
    ],
)
def test_bad_activations_are_one_sentence(tmp_path: Path, array: np.ndarray, words: str) -> None:
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(CalibrationError, match=words):
        Given(tmp_path / "x.npy").of_layer(0, 64, 1)


def test_activations_by_layer(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, layer_1=np.full((6, 4), 2.0), **{"2": np.full((6, 4), 3.0, np.float16)})
    given = Given(path, samples=5)
    assert given.of_layer(1, 4, 1).tolist() == [[2.0] * 4] * 5
    assert given.of_layer(2, 4, 1).max() == 3.0
    assert "first 5 rows" in given.sentence
    with pytest.raises(CalibrationError, match="no array layer_0 for layer 0"):
        given.of_layer(0, 4, 1)
    with pytest.raises(CalibrationError, match="7 samples are asked for"):
        Given(path, samples=7).of_layer(1, 4, 1)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(CalibrationError, match="cannot be read"):
        Given(path)
    (tmp_path / "y.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'shape': (999999, 999999)}")
    with pytest.raises(CalibrationError, match="cannot be read"):
        Given(tmp_path / "y.npy")


def test_drawn_activations_have_the_stated_covariance() -> None:
    drawn = Drawn(20_000, 0.6, 1)
    x = drawn.of_layer(3, 6, 1)
    found = x.T @ x / len(x)
    moment = drawn.second_moment(6)
    assert moment is not None
    np.testing.assert_allclose(found, moment, atol=0.03)
    assert np.array_equal(x[:50, :4], Drawn(50, 0.6, 1).of_layer(3, 4, 1)), "an activation keeps its value"
    assert not np.array_equal(x[:50], Drawn(50, 0.6, 1).of_layer(4, 6, 1)), "every layer has its own"


# --- experts ---------------------------------------------------------------------------------------------------------
def test_activations_of_the_families() -> None:
    g, u = np.array([[-3.0, 0.5, 20.0]], np.float32), np.array([[2.0, -0.5, 30.0]], np.float32)

    def sigmoid(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    cut_g, cut_u = np.minimum(g, 7), np.clip(u, -7, 7)
    expected = {
        "silu": g * sigmoid(g) * u,
        "clamped": cut_g * sigmoid(cut_g) * cut_u,
        "gpt-oss": cut_g * sigmoid(1.702 * cut_g) * (cut_u + 1),
        "situ": 4 * np.tanh(g / 4) * sigmoid(g) * 25 * np.tanh(u / 25),
    }
    figures = {"clamped": (7, 0), "gpt-oss": (7, 1.702), "situ": (25, 4)}
    for kind, value in expected.items():
        limit, alpha = figures.get(kind, (0, 0))
        np.testing.assert_allclose(Activation(kind, limit, alpha)(g, u), value, rtol=1e-5)
    np.testing.assert_allclose(Activation("relu2")(None, u), np.maximum(u, 0) ** 2)
    assert activation_of("deepseek_v4", {"swiglu_limit": 10.0, "hidden_act": "silu"}) == Activation("clamped", 10.0)
    assert activation_of("gpt_oss", {"hidden_act": "silu", "swiglu_limit": 7.0}) == Activation("gpt-oss", 7.0, 1.702)
    assert activation_of("kimi_linear", None) == Activation("situ", 25.0, 4.0)
    assert activation_of("nemotron_h", {"mlp_hidden_act": "relu2"}) == Activation("relu2")
    assert activation_of("qwen3_5_moe_text", {"text_config": {"hidden_act": "silu"}}) == Activation("silu")


def test_biases_count_and_stay_exact() -> None:
    rng = np.random.default_rng(0)
    up, down = rng.standard_normal((6, 4)).astype(np.float32), rng.standard_normal((4, 6)).astype(np.float32)
    expert = Expert(up, down, None, np.arange(6, dtype=np.float32), np.arange(4, dtype=np.float32))
    x = rng.standard_normal((9, 4)).astype(np.float32)
    inner = hidden(expert, x, Activation("relu2"))
    np.testing.assert_allclose(inner, np.maximum(x @ up.T + np.arange(6), 0) ** 2, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(output(expert, inner), inner @ down.T + np.arange(4), rtol=1e-5, atol=1e-4)


def test_the_error_of_nothing_is_nothing() -> None:
    zero = np.zeros((2, 2), np.float32)
    assert relative_error(zero, zero) == 0.0
    with pytest.raises(CalibrationError, match="zero throughout"):
        relative_error(zero + 1, zero)


def test_output_that_overflows_is_refused() -> None:
    big = np.full((4, 4), 1e19, np.float32)
    with np.errstate(over="raise", invalid="raise"), pytest.raises(CalibrationError, match="not finite"):
        expert_losses(Expert(big, big, big), split(np.ones((8, 4), np.float32)), Activation("silu"), (2,), 0)


@pytest.mark.parametrize("size", [0.0, 1e-30])
def test_activations_that_move_no_output_give_no_loss_of_zero(size: float) -> None:
    """Nothing went through the expert, so nothing was measured; an expert of zeros alone is exact at any width."""
    rng = np.random.default_rng(0)
    matrices = [rng.standard_normal((4, 4)).astype(np.float32) for _ in range(3)]
    still = split(np.full((8, 4), size, np.float32))
    with pytest.raises(CalibrationError, match="zero throughout"):
        expert_losses(Expert(*matrices), still, Activation("silu"), (2,), 0)
    nothing = np.zeros((4, 4), np.float32)
    assert expert_losses(Expert(nothing, nothing, nothing), still, Activation("silu"), (1, 4), 0) == [0.0, 0.0]


# --- whole or not at all ---------------------------------------------------------------------------------------------
KILLED = """
import os, signal, sys
import planner.files as io
def dies(*arguments, **named):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(io.os, sys.argv[1], dies)
from planner.cli.main import main
main(sys.argv[2:])
"""


def test_a_kill_leaves_no_half_table(tmp_path: Path) -> None:
    """Killed when all is written but not yet in its place."""
    made = make.mixtral(tmp_path / "model")
    out = tmp_path / "t.csv"
    out.write_text("the old table\n")
    command = [sys.executable, "-c", KILLED, "fsync", "calibrate-losses", str(made.folder), "--out", str(out)]
    ran = subprocess.run([*command, "--method", "rtn", "--samples", "8"], cwd=ROOT, capture_output=True, check=False)
    assert ran.returncode == -signal.SIGKILL, ran.stderr[-500:]
    assert out.read_text() == "the old table\n"


def test_an_error_half_way_leaves_nothing(home: Path, refused: Callable[..., str]) -> None:
    made = make.mixtral(home / "model")
    path = made.folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-2:] = b"\x80\x7f"  # the last weight becomes infinite
    path.write_bytes(bytes(data))
    sentence = refused("calibrate-losses", made.folder, "--out", home / "t.csv", "--method", "rtn", "--samples", 8)
    assert "experts.3." in sentence and "not finite" in sentence
    assert sorted(os.listdir(home)) == ["model"]


def test_memory_is_that_of_one_expert_and_its_hessian(tmp_path: Path) -> None:
    """24 experts of 0.4 MB each as float32: the peak is a few of them, not all."""
    hidden_size, inner, experts = 256, 128, 24
    config = make.config_of("mistralai/Mixtral-8x7B-v0.1", hidden_size=hidden_size, intermediate_size=inner)
    config |= {"num_hidden_layers": 1, "num_local_experts": experts}
    rng = np.random.default_rng(0)
    pattern = "model.layers.0.block_sparse_moe.experts.{}.{}.weight"
    shapes = {"w1": (inner, hidden_size), "w3": (inner, hidden_size), "w2": (hidden_size, inner)}
    tensors = {
        pattern.format(e, part): make.bf16(rng.standard_normal(shape).astype(np.float32))
        for e in range(experts)
        for part, shape in shapes.items()
    }
    make.write(tmp_path, tensors, config)
    reader = ExpertReader(Checkpoint(tmp_path), planner_model(tmp_path))
    gptq.warm()
    tracemalloc.start()
    measure(reader, (0,), Drawn(128), Activation("silu"), (2,), "gptq")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    one_expert, all_experts = 3 * hidden_size * inner * 4, 3 * hidden_size * inner * 4 * experts
    hessians = 3 * 8 * (hidden_size**2 + inner**2)
    activations = 2 * 128 * (hidden_size + 3 * inner) * 4 * 2
    assert peak < 3 * one_expert + hessians + activations < 0.5 * all_experts
