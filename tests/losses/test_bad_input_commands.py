"""Bad input of the two papers' policies, from the command line: one sentence each, and nothing half-written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.cli.main import main
from tests.losses import checkpoints as make

MIXTRAL = "mistralai/Mixtral-8x7B-v0.1"
ROWS = [(layer, expert, bits, 0.5**bits) for layer in range(32) for expert in range(8) for bits in (1, 2, 3, 4)]
W1 = "model.layers.0.block_sparse_moe.experts.0.w1.weight"
NAN = float("nan")
Row = tuple[int, int, int, float]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must be refused in one sentence."""

    def refusing(*arguments: object) -> str:
        capsys.readouterr()
        code = main(list(map(str, arguments)))
        out, err = capsys.readouterr()
        assert (code, out, err.count("\n")) == (2, "", 1), (code, out, err)
        assert "Traceback" not in err and err.endswith((".\n", "?\n")) and len(err) < 700
        return err.strip()

    return refusing


def change(where: tuple[int, int, int], loss: float) -> list[Row]:
    return [(*row[:3], loss) if row[:3] == where else row for row in ROWS]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([r for r in ROWS if r[:2] != (3, 5)], "lacks expert 5 of layer 3"),
        ([r for r in ROWS if r[0] < 20], "lacks layers 20, 21, 22, 23 and 8 more"),
        ([r for r in ROWS if r[1] < 4], "has 4 experts in each layer; the model has 8"),
        ([r for r in ROWS if r[:3] != (1, 2, 3)], "lacks layer 1, expert 2 at 3 bits"),
        ([*ROWS, (0, 0, 5, 0.1)], "bits 5; accepted is a whole number from 1 to 4"),
        ([*ROWS, ROWS[0]], "2 times; once is accepted"),
        (change((0, 0, 2), -0.1), "at 2 bits is -0.1; accepted is a number from 0 up"),
        (change((0, 0, 2), NAN), "accepted is a number from 0 up"),
        (change((4, 1, 3), 0.9), "layer 4, expert 1 rises from 0.25 at 2 bits to 0.9 at 3"),
    ],
)
def test_a_loss_table(home: Path, refused: Callable[..., str], rows: list[Row], words: str) -> None:
    """Missing experts or layers, another shape, negative, no number, rising with bits: refused, and nothing is kept."""
    text = "layer,expert,bits,loss\n" + "\n".join(",".join(map(str, row)) for row in rows) + "\n"
    (home / "t.csv").write_text(text)
    assert words in refused("import-losses", home / "t.csv", "--model", MIXTRAL)
    assert sorted(os.listdir(home)) == ["t.csv"]


@pytest.mark.parametrize("columns", ["layer,expert,bits", "layer;expert;bits;loss", "a,b", ""])
def test_a_loss_table_of_other_columns(home: Path, refused: Callable[..., str], columns: str) -> None:
    (home / "t.csv").write_text(columns + "\n")
    refused("import-losses", home / "t.csv")
    assert sorted(os.listdir(home)) == ["t.csv"]


def rewritten(folder: Path, name: str, tensor: make.Tensor | None, rename: str = "") -> Path:
    """A small Mixtral whose tensor ``name`` is another, or whose experts have another name."""
    made: dict[str, make.Tensor] = {}
    original = make.file_bytes

    def taking(tensors: dict[str, make.Tensor], metadata: Any = None) -> bytes:
        made.update(tensors)
        return original(tensors, metadata)

    patch = pytest.MonkeyPatch()
    with patch.context() as inside:
        inside.setattr(make, "file_bytes", taking)
        make.mixtral(folder)
    if tensor is not None:
        assert name in made
        made[name] = tensor
    if rename:
        made = {n.replace("experts.", rename): t for n, t in made.items()}
    (folder / "model.safetensors").write_bytes(original(made))
    return folder


def calibrated(home: Path, folder: Path, refused: Callable[..., str]) -> str:
    said = refused("calibrate-losses", folder, "--out", home / "t.csv", "--samples", 8)
    assert sorted(os.listdir(home)) == [folder.name]
    return said


def test_a_checkpoint_that_lacks_a_shard(home: Path, refused: Callable[..., str]) -> None:
    folder = make.mixtral(home / "model", shards=3).folder
    (folder / "model-00002-of-00003.safetensors").unlink()
    assert "1 of the 3 shards" in calibrated(home, folder, refused)


@pytest.mark.parametrize("dtype", ["Q4_K", "F8_E5M2", "I64"])
def test_a_checkpoint_of_an_unknown_dtype(home: Path, refused: Callable[..., str], dtype: str) -> None:
    size = {"I64": 8}.get(dtype, 1) * make.INNER * make.HIDDEN
    folder = rewritten(home / "model", W1, (dtype, [make.INNER, make.HIDDEN], bytes(size)))
    assert dtype in calibrated(home, folder, refused)


def test_a_checkpoint_of_an_unknown_layout(home: Path, refused: Callable[..., str]) -> None:
    folder = rewritten(home / "model", W1, None, rename="expert_bank.")
    assert "not understood" in calibrated(home, folder, refused)


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (lambda data: (2**40).to_bytes(8, "little") + data[8:], "header"),
        (lambda data: data[:8] + b"x" + data[9:], "header"),
        (lambda data: data[:-100], "model.safetensors"),
        (lambda data: data.replace(b'"shape": [32, 64]', b'"shape": [32, 65]', 1), "model.layers.0"),
        (lambda data: data[:4], "model.safetensors"),
    ],
)
def test_a_checkpoint_whose_header_lies(
    home: Path, refused: Callable[..., str], lie: Callable[[bytes], bytes], words: str
) -> None:
    file = make.mixtral(home / "model").folder / "model.safetensors"
    before = file.read_bytes()
    file.write_bytes(lie(before))
    assert file.read_bytes() != before
    assert words in calibrated(home, file.parent, refused)


PLANS = {
    "a budget below 1 bit": ("context-aware", "h100-cxl-ndp", ["policy.weight_bits=0.5"], "weight_bits is 0.5"),
    "a budget above 4 bits": ("context-aware", "h100-cxl-ndp", ["policy.weight_bits=4.5"], "from 1 to 4 bits"),
    "a budget far above": ("context-aware", "h100-cxl-ndp", ["policy.weight_bits=17"], "weight_bits is 17"),
    "alpha above 1": ("context-aware", "h100-cxl-ndp", ["policy.options.alpha=1.5"], "a number from 0 to 1"),
    "alpha below 0": ("context-aware", "h100-cxl-ndp", ["policy.options.alpha=-0.1"], "a number from 0 to 1"),
    "TriMoE's alpha": ("trimoe", "trimoe-server", ["simulation.alpha=1.5"], "alpha"),
    "more hot experts than exist": (
        "context-aware", "h100-cxl-ndp", ["policy.gpu_experts_per_layer=9"], "the model has 8 routed experts",
    ),
    "more top-H experts than exist": (
        "monde", "h100-cxl-ndp", ["policy.gpu_experts_per_layer=9"], "the model has 8 routed experts",
    ),
    "CXL-NDP without memory": (
        "context-aware", "h100-cxl-ndp", ['system.overrides={"cxl.capacity_bytes": 0}'], "must be between",
    ),
    "CXL-NDP without bandwidth": (
        "monde", "h100-cxl-ndp", ['system.overrides={"cxl.internal_bandwidth_bytes_per_s": 0}'], "must be between",
    ),
    "NDP DIMMs without memory": (
        "trimoe", "trimoe-server", ['system.overrides={"dram.capacity_bytes_per_dimm": 0}'], "must be between",
    ),
    "thresholds that cross": (
        "hobbit", "h100-amx-server", ["policy.options.t1=0.9", "policy.options.t2=0.5"], "the thresholds cross",
    ),
    "a loss table that nobody has": (
        "context-aware", "h100-cxl-ndp", ["policy.options.loss_table=" + "a" * 64], "loss table",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANS)
def test_a_plan(home: Path, refused: Callable[..., str], case: str) -> None:
    policy, system, values, words = PLANS[case]
    command = "simulate" if any(v.startswith("simulation.") for v in values) else "plan"
    chosen = [part for value in values for part in ("--set", value)]
    said = refused(command, "--model", MIXTRAL, "--system", system, "--policy", policy, "--batch", 1, *chosen)
    assert words in said
    assert not any(p.is_file() for p in home.rglob("*"))


def test_the_widths_of_all_experts_alike_are_still_taken(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for bits in ("4", "8", "16"):
        arguments = ["--model", MIXTRAL, "--system", "h100-cxl-ndp", "--policy", "context-aware", "--batch", "1"]
        assert main(["plan", *arguments, "--set", f"policy.weight_bits={bits}", "--json"]) == 0
        capsys.readouterr()


def test_rows_are_what_the_command_accepts(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The table that the cases above spoil is a good one."""
    text = "layer,expert,bits,loss\n" + "\n".join(",".join(map(str, row)) for row in ROWS) + "\n"
    (home / "t.csv").write_text(text)
    assert main(["import-losses", str(home / "t.csv"), "--model", MIXTRAL]) == 0
    assert "t.csv" in os.listdir(home) and np.isfinite([row[3] for row in ROWS]).all()
    capsys.readouterr()
