"""Files that lie: one sentence each, nothing read that is not there, and never more memory than one tensor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.calibrate import safetensors
from planner.calibrate.errors import CalibrationError
from planner.calibrate.safetensors import Checkpoint, read_header
from tests.losses import checkpoints as make

ROOT = Path(planner.__path__[0]).parent


def save(folder: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path = folder / "model.safetensors"
    path.write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)
    return path


def refused(path: Path) -> str:
    with pytest.raises(CalibrationError) as error:
        read_header(path)
    text = str(error.value)
    assert "\n" not in text and text.endswith(".") and len(text) < 400
    assert str(path.parent) not in text
    return text


def tensor(begin: int, end: int, shape: list[int], dtype: str = "BF16") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


GOOD = {"a": tensor(0, 8, [2, 2]), "b": tensor(8, 12, [2])}


def test_a_good_header_gives_names_types_shapes_and_places(tmp_path: Path) -> None:
    path = save(tmp_path, {"__metadata__": {"format": "pt"}, **GOOD}, bytes(range(12)))
    found = read_header(path)
    assert set(found) == {"a", "b"}
    assert found["a"].shape == (2, 2) and found["a"].bytes == 8
    assert found["b"].read().tolist() == [0x0908, 0x0B0A]
    assert found["a"].read(1, 1).tolist() == [[0x0504, 0x0706]]
    assert isinstance(found["a"].read(), np.memmap)
    with pytest.raises(CalibrationError, match="no row 2"):
        found["a"].read(2, 1)


def test_a_scalar_and_an_empty_tensor_can_be_read(tmp_path: Path) -> None:
    header = {"s": tensor(0, 4, [], "F32"), "e": tensor(4, 4, [0, 7], "F32")}
    found = read_header(save(tmp_path, header, np.float32(2.5).tobytes()))
    assert float(found["s"].read().reshape(())) == 2.5
    assert found["e"].read().shape == (0, 7)


@pytest.mark.parametrize(
    ("header", "data", "words"),
    [
        ({"a": tensor(0, 8, [2, 2]), "b": tensor(4, 8, [2])}, 8, '"a" and "b" overlap'),
        ({"a": tensor(0, 8, [2, 2]), "b": tensor(0, 8, [2, 2])}, 8, "overlap"),
        ({"a": tensor(0, 8, [2, 2])}, 7, "holds only 7"),
        ({"a": tensor(0, 2**60, [2**59])}, 8, "cut off or the header lies"),
        ({"a": tensor(0, 8, [2, 3])}, 8, "not the size of BF16 of shape [2, 3]"),
        ({"a": tensor(0, 8, [2**62, 2**62])}, 8, "not the size"),
        ({"a": tensor(8, 0, [2, 2])}, 8, "not a begin and an end"),
        ({"a": tensor(-8, 0, [2, 2])}, 8, "not a begin and an end"),
        ({"a": {**tensor(0, 8, [2, 2]), "shape": [2, -2]}}, 8, "a shape that is not"),
        ({"a": {**tensor(0, 8, [2, 2]), "shape": [2, 2.0]}}, 8, "a shape that is not"),
        ({"a": {**tensor(0, 8, [2, 2]), "shape": [True, 4]}}, 8, "a shape that is not"),
        ({"a": {**tensor(0, 8, [2, 2]), "shape": [1] * 9}}, 8, "up to 8"),
        ({"a": {**tensor(0, 8, [2, 2]), "dtype": 7}}, 8, "the dtype 7"),
        ({"a": {"dtype": "BF16", "shape": [2, 2]}}, 8, "without dtype, shape and data_offsets"),
        ({"a": [0, 8]}, 8, "without dtype, shape and data_offsets"),
        ({"a": tensor(4, 12, [2, 2])}, 12, "4 bytes before"),
        ({"a": tensor(0, 8, [2, 2])}, 9, "1 bytes that its header does not name"),
        ([1, 2], 0, "not an object"),
        (b"{a}", 0, "not JSON"),
        (b"\xff\xfe", 0, "not JSON"),
        (b"[" * 100_000, 0, "not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", 0, "not JSON"),
        (
            b'{"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}, "a": {"dtype": "U8", "shape": [1], '
            b'"data_offsets": [0, 1]}}',
            1,
            "names something twice",
        ),
    ],
)
def test_a_header_that_lies_is_one_sentence(tmp_path: Path, header: Any, data: int, words: str) -> None:
    assert words in refused(save(tmp_path, header, bytes(data)))


def test_a_length_that_lies(tmp_path: Path) -> None:
    assert "claims 100,000,001 bytes" in refused(save(tmp_path, GOOD, bytes(12), length=100_000_001))
    assert "up to 100,000,000 are accepted" in refused(save(tmp_path, GOOD, bytes(12), length=2**64 - 1))
    assert "it is cut off" in refused(save(tmp_path, GOOD, bytes(12), length=5000))
    assert "not JSON" in refused(save(tmp_path, GOOD, bytes(12), length=3))
    short = tmp_path / "short.safetensors"
    short.write_bytes(b"abc")
    assert "3 bytes" in refused(short)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**65) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
entries = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["BF16", "F32", "U8", "F8_E4M3", "Q9"]) | json_like,
        "shape": st.lists(st.integers(-1, 5), max_size=3) | json_like,
        "data_offsets": st.lists(st.integers(-1, 40), min_size=2, max_size=2) | json_like,
    }
)


def header_or_sentence(path: Path) -> dict[str, safetensors.Entry]:
    """What the header names, or nothing when it was refused in one sentence."""
    sentence = "."
    found: dict[str, safetensors.Entry] = {}
    try:
        found = read_header(path)
    except CalibrationError as error:
        sentence = str(error)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return found


@settings(max_examples=150)
@given(st.dictionaries(st.text(max_size=4), entries | json_like, max_size=4), st.binary(max_size=40))
def test_any_header_is_read_safely_or_refused(tmp_path_factory: Any, header: dict[str, Any], data: bytes) -> None:
    path = save(tmp_path_factory.getbasetemp(), header, data)
    size = path.stat().st_size
    for entry in header_or_sentence(path).values():
        assert 8 <= entry.begin <= entry.end <= size
        if entry.dtype in safetensors.STORAGE:
            assert entry.read().nbytes in (entry.bytes, 0)


@settings(max_examples=100)
@given(st.binary(max_size=120))
def test_any_bytes_are_refused_or_read(tmp_path_factory: Any, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.safetensors"
    path.write_bytes(data)
    header_or_sentence(path)


# --- folders and indices ---------------------------------------------------------------------------------------------
def opened(folder: Path) -> str:
    with pytest.raises(CalibrationError) as error:
        Checkpoint(folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_missing_shards_are_named(tmp_path: Path) -> None:
    make.mixtral(tmp_path, shards=4)
    (tmp_path / "model-00002-of-00004.safetensors").unlink()
    text = opened(tmp_path)
    assert text.startswith("1 of the 4 shards")
    assert "model-00002-of-00004.safetensors" in text
    (tmp_path / "model-00004-of-00004.safetensors").unlink()
    assert opened(tmp_path).startswith("2 of the 4 shards")


@pytest.mark.parametrize(
    "file",
    ["../../etc/passwd", "/etc/passwd", "sub/model.safetensors", "..\\a.safetensors", 7, "a.bin", "a\0.safetensors"],
)
def test_an_index_cannot_point_elsewhere(tmp_path: Path, file: Any) -> None:
    make.mixtral(tmp_path)
    index = {"weight_map": {"x": file}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "beside the index is accepted" in opened(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": []}', '{"weight_map": {}}'])
def test_an_index_that_is_none(tmp_path: Path, text: str) -> None:
    make.mixtral(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert "model.safetensors.index.json" in opened(tmp_path)


def test_an_index_that_names_what_the_shard_lacks(tmp_path: Path) -> None:
    make.mixtral(tmp_path)
    index = {"weight_map": {"ghost": "model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CalibrationError, match=r'"ghost" into "model\.safetensors", which lacks it'):
        Checkpoint(tmp_path).entry("ghost")


def test_other_folders(tmp_path: Path) -> None:
    assert "no safetensors file" in opened(tmp_path)
    assert "cannot be read" in opened(tmp_path / "none")
    assert "cannot be read" in opened(Path("a\0b"))
    make.mixtral(tmp_path)
    (tmp_path / "copy.safetensors").write_bytes((tmp_path / "model.safetensors").read_bytes())
    assert "no index says which counts" in opened(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}.safetensors.index.json").write_text("{}")
    assert "2 indices" in opened(tmp_path)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    assert opened(tmp_path) == '"model.safetensors" is not a file.'


# --- memory ----------------------------------------------------------------------------------------------------------
CODE = """
import resource, sys
from pathlib import Path
import numpy as np
from models import read_config, parse_config_file
from planner.calibrate.layouts import ExpertReader
from planner.calibrate.safetensors import Checkpoint

folder = Path(sys.argv[1])
in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + int(sys.argv[2]), resource.RLIM_INFINITY))
reader = ExpertReader(Checkpoint(folder), read_config(parse_config_file(folder / "config.json"), "large"))
print(sum(float(np.abs(reader.load(0, e).up[0, :4]).sum()) for e in range(0, reader.experts(0), 6)))
"""


@pytest.mark.parametrize("layout", ["fused", "each"])
def test_a_checkpoint_larger_than_memory_is_read_expert_by_expert(tmp_path: Path, layout: str) -> None:
    """512 MB of experts, 92 MB of them read, under a limit of 64 MB more than the process has at the start."""
    experts, hidden, inner = 64, 1024, 1365
    sizes = {"hidden_size": hidden, "num_hidden_layers": 1}
    if layout == "each":
        config = make.config_of("mistralai/Mixtral-8x7B-v0.1", **sizes, intermediate_size=inner)
        config["num_local_experts"] = experts
    else:
        config = make.config_of("Qwen/Qwen3.5-35B-A3B", **sizes, moe_intermediate_size=inner, num_experts=experts)
        config["text_config"] |= {"num_experts_per_tok": 2, "layer_types": ["full_attention"]}
    tmp_path.joinpath("config.json").write_text(json.dumps(config))
    prefix = "model.layers.0.block_sparse_moe.experts." if layout == "each" else "model.layers.0.mlp.experts."
    each = hidden * inner * 2
    shapes: dict[str, list[int]] = {"gate_up_proj": [experts, 2 * inner, hidden], "down_proj": [experts, hidden, inner]}
    if layout == "each":
        one = {"w1": [inner, hidden], "w3": [inner, hidden], "w2": [hidden, inner]}
        shapes = {f"{e}.{part}.weight": shape for e in range(experts) for part, shape in one.items()}
    header, offset = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape)) * 2
        header[prefix + name] = tensor(offset, offset + size, shape)
        offset += size
    path = save(tmp_path, header)
    assert offset == 3 * experts * each > 512_000_000
    start = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(start + offset)  # a hole: reads as zeros and takes no disk
        for expert in range(experts):  # the first four values of each up matrix are 1.0
            place = (3 * expert + 1) * each if layout == "each" else (2 * expert + 1) * each
            file.seek(start + place)
            file.write(np.full(4, 0x3F80, "<u2").tobytes())
    ran = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path), str(64_000_000)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr[-800:]
    assert float(ran.stdout) == 4.0 * 11
