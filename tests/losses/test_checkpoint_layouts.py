"""Every layout and stored type of the catalog's models: what was written is what is read, expert by expert."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from models import read_config
from planner.calibrate.errors import CalibrationError
from planner.calibrate.layouts import ExpertReader
from planner.calibrate.safetensors import Checkpoint
from tests.losses import checkpoints as make
from tests.losses.checkpoints import EXPERTS, HIDDEN, INNER, Made

SMALL = {"hidden_size": HIDDEN, "moe_intermediate_size": INNER}
ROUTED = {"n_routed_experts": EXPERTS, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1}
DEEPSEEK = {**SMALL, **ROUTED, "num_hidden_layers": 3, "first_k_dense_replace": 1}
PACKED = partial(make.mxfp4, names=(".weight_packed", ".weight_scale", "U8"))


def qwen(folder: Path) -> Made:
    config = make.config_of("Qwen/Qwen3-30B-A3B", **SMALL, num_hidden_layers=2, num_experts=4, num_experts_per_tok=2)
    pattern = "model.layers.{layer}.mlp.experts.{expert}.{part}"
    return make.each(folder, config, pattern, make.HUGGING, make.plain, shards=3)


def qwen_fp8(folder: Path) -> Made:
    config = make.config_of(
        "Qwen/Qwen3-30B-A3B-FP8", hidden_size=192, moe_intermediate_size=INNER, num_hidden_layers=2, num_experts=4
    )
    pattern = "model.layers.{layer}.mlp.experts.{expert}.{part}"
    return make.each(folder, config | {"num_experts_per_tok": 2}, pattern, make.HUGGING, make.fp8, width=192)


def deepseek(folder: Path) -> Made:
    """A dense first layer, shared experts, and a multi-token-prediction block as one layer more: all left alone."""
    config = make.config_of("deepseek-ai/DeepSeek-V3", **DEEPSEEK)
    other = make.bf16(np.ones((2, 2)))
    extra = {
        "model.layers.0.mlp.down_proj.weight": other,
        "model.layers.1.mlp.shared_experts.down_proj.weight": other,
        "model.layers.3.mlp.experts.0.down_proj.weight": other,
        "mtp.layers.1.mlp.experts.down_proj": other,
    }
    pattern = "model.layers.{layer}.mlp.experts.{expert}.{part}"
    return make.each(folder, config, pattern, make.HUGGING, make.fp8, (1, 2), extra, shards=2)


def deepseek_own(folder: Path) -> Made:
    config = make.config_of("deepseek-ai/DeepSeek-V4-Flash", **SMALL, num_hidden_layers=2, num_hash_layers=0)
    config |= {"n_routed_experts": EXPERTS, "num_experts_per_tok": 2, "compress_ratios": [0, 0, 0]}
    store = partial(make.mxfp4, names=(".weight", ".scale", "I8"))
    return make.each(folder, config, "layers.{layer}.ffn.experts.{expert}.{part}", make.NUMBERED, store)


def minimax(folder: Path) -> Made:
    config = make.config_of("MiniMaxAI/MiniMax-M2.5", hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=2)
    config |= {"num_local_experts": EXPERTS, "num_experts_per_tok": 2, "attn_type_list": [1, 1]}
    pattern = "model.layers.{layer}.block_sparse_moe.experts.{expert}.{part}"
    return make.each(folder, config, pattern, make.NUMBERED, make.fp8)


def jamba(folder: Path) -> Made:
    config = make.config_of("ai21labs/AI21-Jamba-Mini-1.5", hidden_size=HIDDEN, intermediate_size=INNER)
    config |= {"num_hidden_layers": 4, "num_experts": EXPERTS}
    pattern = "model.layers.{layer}.feed_forward.experts.{expert}.{part}"
    return make.each(folder, config, pattern, make.HUGGING, make.plain, (1, 3))


def nemotron(folder: Path, model: str, store: Callable[..., make.Stored], latent: int | None = None) -> Made:
    """No gate; in the larger one the experts work on a narrower latent."""
    config = make.config_of(model, **SMALL, **ROUTED, num_hidden_layers=4, hybrid_override_pattern="ME*E")
    if latent:
        config["moe_latent_size"] = latent
    pattern = "backbone.layers.{layer}.mixer.experts.{expert}.{part}"
    parts = {"up": "up_proj", "down": "down_proj"}
    return make.each(folder, config, pattern, parts, store, (1, 3), width=latent or HIDDEN)


def kimi_k2(folder: Path) -> Made:
    config = make.config_of("moonshotai/Kimi-K2.5", **DEEPSEEK)
    pattern = "language_model.model.layers.{layer}.mlp.experts.{expert}.{part}"
    return make.each(folder, config, pattern, make.HUGGING, make.int4, (1, 2))


def kimi_k3(folder: Path) -> Made:
    full = json.loads((make.CATALOG / "moonshotai__Kimi-K3.json").read_text())["text_config"]["linear_attn_config"]
    attention = full | {"full_attn_layers": [3], "kda_layers": [1, 2]}
    config = make.config_of("moonshotai/Kimi-K3", **SMALL, num_hidden_layers=3, num_experts=4, num_experts_per_token=2)
    config["text_config"] |= {"linear_attn_config": attention, "routed_expert_hidden_size": 96}
    pattern = "language_model.model.layers.{layer}.block_sparse_moe.experts.{expert}.{part}"
    return make.each(folder, config, pattern, make.NUMBERED, PACKED, (1, 2), width=96)


def llama4(folder: Path) -> Made:
    config = make.config_of(
        "meta-llama/Llama-4-Scout-17B-16E-Instruct", hidden_size=HIDDEN, intermediate_size=INNER, num_local_experts=4
    )
    config["text_config"] |= {"intermediate_size_mlp": 48, "num_hidden_layers": 2, "no_rope_layers": [1, 1]}
    for key in ("layer_types", "moe_layers"):
        config["text_config"].pop(key, None)
    return make.fused(folder, config, "language_model.model.layers.{layer}.feed_forward.experts.{part}", True)


def qwen_vl(folder: Path, inner: int = INNER) -> Made:
    """inner = HIDDEN: shapes alone do not tell which way the last matrix lies."""
    config = make.config_of(
        "Qwen/Qwen3-VL-235B-A22B-Instruct", hidden_size=HIDDEN, moe_intermediate_size=inner, num_hidden_layers=2
    )
    config["text_config"] |= {"num_experts": EXPERTS, "num_experts_per_tok": 2}
    pattern = "model.language_model.layers.{layer}.mlp.experts.{part}"
    return make.fused(folder, config, pattern, True, inner=inner, shards=2)


def qwen35(folder: Path, inner: int = INNER) -> Made:
    config = make.config_of(
        "Qwen/Qwen3.5-35B-A3B", hidden_size=HIDDEN, moe_intermediate_size=inner, num_hidden_layers=2, num_experts=4
    )
    config["text_config"] |= {"num_experts_per_tok": 2, "layer_types": ["linear_attention", "full_attention"]}
    return make.fused(folder, config, "model.language_model.layers.{layer}.mlp.experts.{part}", False, inner=inner)


def gpt_oss_bf16(folder: Path) -> Made:
    """The upcast form: inputs first, gate and up alternating, biases."""
    made = make.gpt_oss(folder)
    config = json.loads((folder / "config.json").read_text())
    config.pop("quantization_config")
    (made.folder / "model.safetensors").unlink()
    return make.fused(folder, config, "model.layers.{layer}.mlp.experts.{part}", True, interleaved=True, bias=True)


NANO, SUPER = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"
MAKERS: dict[str, Callable[[Path], Made]] = {
    "mixtral, bf16": make.mixtral,
    "mixtral, fp16": partial(make.mixtral, store=partial(make.plain, kind=make.f16)),
    "mixtral, fp32": partial(make.mixtral, store=partial(make.plain, kind=make.f32)),
    "mixtral, fp8 per channel": partial(make.mixtral, store=partial(make.fp8, scale="channel")),
    "qwen3, three shards": qwen,
    "qwen3, fp8 blocks over the edge": qwen_fp8,
    "deepseek-v3, fp8 blocks, mtp": deepseek,
    "deepseek-v4, fp4 bytes": deepseek_own,
    "minimax-m2, fp8": minimax,
    "jamba": jamba,
    "nemotron nano": partial(nemotron, model=NANO, store=make.plain),
    "nemotron super, fp8 per tensor, latent": partial(
        nemotron, model=SUPER, store=partial(make.fp8, scale="tensor"), latent=96
    ),
    "nemotron nano, nvfp4": partial(nemotron, model=NANO, store=make.nvfp4),
    "kimi-k2.5, packed int4": kimi_k2,
    "kimi-k3, packed mxfp4, latent": kimi_k3,
    "llama 4, fused": llama4,
    "qwen3-vl, fused": qwen_vl,
    "qwen3-vl, fused, square": partial(qwen_vl, inner=HIDDEN),
    "qwen3.5, fused": qwen35,
    "qwen3.5, fused, square": partial(qwen35, inner=HIDDEN),
    "qwen3.5, fused, gate_up square": partial(qwen35, inner=HIDDEN // 2),
    "gpt-oss, mxfp4": make.gpt_oss,
    "gpt-oss, bf16": gpt_oss_bf16,
    "dbrx": make.dbrx,
}


def reader_of(made: Made) -> ExpertReader:
    config = json.loads((made.folder / "config.json").read_text())
    return ExpertReader(Checkpoint(made.folder), read_config(config, "test"))


@pytest.mark.parametrize("name", MAKERS)
def test_what_was_written_is_what_is_read(tmp_path: Path, name: str) -> None:
    made = MAKERS[name](tmp_path)
    reader = reader_of(made)
    reader.require(made.layers)
    for (layer, index), written in made.experts.items():
        read = reader.load(layer, index)
        for part in ("gate", "up", "down", "gate_bias", "up_bias", "down_bias"):
            found, meant = getattr(read, part), written.get(part)
            assert (found is None) == (meant is None), (layer, index, part)
            if meant is not None:
                assert found.dtype == np.float32
                np.testing.assert_allclose(found, meant, rtol=1e-6, atol=0, err_msg=f"{layer} {index} {part}")


@pytest.mark.parametrize("name", MAKERS)
def test_bytes_of_an_expert_add_up_to_the_experts_of_the_file(tmp_path: Path, name: str) -> None:
    made = MAKERS[name](tmp_path)
    reader = reader_of(made)
    counted = sum(reader.stored_bytes(layer, index) for layer, index in made.experts)
    inside = [n for n in reader.checkpoint.names if ".experts." in n and "input_scale" not in n]
    mine = [n for n in inside if not n.startswith("mtp") and any(f"s.{layer}." in n for layer in made.layers)]
    assert counted == sum(reader.checkpoint.entry(n).bytes for n in mine)


def test_fp4_table_and_fp8_table_are_those_of_the_formats() -> None:
    from planner.calibrate.decode import E2M1, E4M3, E8M0

    assert E2M1.tolist() == make.E2M1.tolist()
    for code in range(256):
        if code & 127 == 127:
            assert np.isnan(E4M3[code])
        else:
            assert E4M3[code] == make.e4m3(code)
    assert (E8M0[0], E8M0[127], E8M0[254]) == (2.0**-127, 1.0, 2.0**127)
    assert np.isnan(E8M0[255])
    assert E4M3[0x7E] == 448.0, "the largest value of the format"


# --- what is refused -------------------------------------------------------------------------------------------------
def refusal(made: Made, layer: int = 0, expert: int = 0) -> str:
    with pytest.raises(CalibrationError) as error:
        reader_of(made).load(layer, expert)
    text = str(error.value)
    assert "\n" not in text and text.endswith((".", "?"))
    return text


def broken(folder: Path, name: str, tensor: make.Tensor | None, store: Callable[..., make.Stored] = make.plain) -> Made:
    """A Mixtral whose tensor ``name`` is another, or gone."""
    made = make.mixtral(folder, store)
    tensors = read_back(folder / "model.safetensors")
    assert name in tensors
    tensors[name] = tensor or ("BF16", [0], b"")
    if tensor is None:
        del tensors[name]
    (folder / "model.safetensors").write_bytes(make.file_bytes(tensors))
    return made


def read_back(path: Path) -> dict[str, make.Tensor]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return {
        name: (t["dtype"], t["shape"], data[8 + length + t["data_offsets"][0] : 8 + length + t["data_offsets"][1]])
        for name, t in header.items()
    }


W1 = "model.layers.0.block_sparse_moe.experts.0.w1.weight"


def test_an_unknown_dtype_is_named_with_its_tensor(tmp_path: Path) -> None:
    codes = np.zeros((INNER, HIDDEN), np.uint8)
    text = refusal(broken(tmp_path / "a", W1, ("F8_E5M2", [INNER, HIDDEN], codes.tobytes())))
    assert W1 in text and "F8_E5M2" in text and "MXFP4" in text
    text = refusal(broken(tmp_path / "b", W1, ("Q4_K", [INNER, HIDDEN], b"abc")))
    assert W1 in text and "Q4_K" in text and "BF16" in text
    assert "I64" in refusal(broken(tmp_path / "c", W1, ("I64", [4, 4], bytes(128))))


def test_fp8_without_scales_is_refused(tmp_path: Path) -> None:
    assert "no scales" in refusal(broken(tmp_path, W1.replace(".weight", ".weight_scale_inv"), None, make.fp8))


def test_fp8_with_scales_of_another_shape_is_refused(tmp_path: Path) -> None:
    scale = W1.replace(".weight", ".weight_scale_inv")
    text = refusal(broken(tmp_path, scale, make.f32(np.ones((3, 5), np.float32)), make.fp8))
    assert W1 in text and "[3, 5]" in text


def test_another_shape_is_refused_with_both(tmp_path: Path) -> None:
    text = refusal(broken(tmp_path, W1, make.bf16(np.zeros((INNER, HIDDEN - 2)))))
    assert W1 in text and "[32, 62]" in text and "[32, 64]" in text
    text = refusal(broken(tmp_path / "large", W1, make.bf16(np.zeros((INNER, 5 * HIDDEN)))))
    assert "[32, 320]" in text


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    weights = np.zeros((INNER, HIDDEN), np.float32)
    weights[3, 5] = value
    text = refusal(broken(tmp_path, W1, make.f32(weights)))
    assert W1 in text and "not finite" in text


def test_a_missing_matrix_is_named(tmp_path: Path) -> None:
    assert refusal(broken(tmp_path, W1, None)) == f'The checkpoint lacks the tensor "{W1}".'


def test_an_unknown_layout_is_named(tmp_path: Path) -> None:
    made = make.mixtral(tmp_path)
    strange = {
        name.replace("experts.", "expert_bank."): tensor
        for name, tensor in read_back(tmp_path / "model.safetensors").items()
    }
    (tmp_path / "model.safetensors").write_bytes(make.file_bytes(strange))
    text = refusal(made)
    assert "expert_bank.0.w1.weight" in text and "not understood" in text and "gate_up_proj" in text


def test_no_experts_at_all(tmp_path: Path) -> None:
    made = make.mixtral(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(make.file_bytes({"lm_head.weight": make.bf16(np.zeros((2, 2)))}))
    assert refusal(made) == "The checkpoint has no tensor of the experts of layer 0."


def test_experts_in_two_places_are_not_guessed(tmp_path: Path) -> None:
    made = make.mixtral(tmp_path)
    tensors = read_back(tmp_path / "model.safetensors")
    tensors |= {"other.layers.0.mlp.experts.0.down_proj.weight": make.bf16(np.zeros((2, 2)))}
    (tmp_path / "model.safetensors").write_bytes(make.file_bytes(tensors))
    text = refusal(made)
    assert "layer 0 both under" in text and "other.layers.0" in text


def test_a_fused_tensor_of_another_number_of_experts_is_refused(tmp_path: Path) -> None:
    made = qwen35(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["text_config"]["num_experts"] = 8
    (tmp_path / "config.json").write_text(json.dumps(config))
    text = refusal(made)
    assert "[4, 64, 64]" in text and "[8, 64, 64]" in text
