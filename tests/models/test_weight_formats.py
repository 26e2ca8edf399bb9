"""Formats against the arithmetic of their blocks, and bytes of whole models in them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import models
from models.formats import FORMATS, KV_FORMATS

# field sizes in bytes of the ggml block structs: (weights, scales and minima, quants)
GGUF = {
    "q8_0": (32, (2,), 32),
    "q6_k": (256, (2, 16), 128 + 64),
    "q5_k": (256, (2, 2, 12), 128 + 32),
    "q5_1": (32, (2, 2), 16 + 4),
    "q5_0": (32, (2,), 16 + 4),
    "q4_k": (256, (2, 2, 12), 128),
    "q4_1": (32, (2, 2), 16),
    "q4_0": (32, (2,), 16),
    "q3_k": (256, (2, 12), 64 + 32),
    "q2_k": (256, (2, 2, 16), 64),
    "iq4_nl": (32, (2,), 16),
    "iq4_xs": (256, (2, 2, 4), 128),
    "iq3_s": (256, (2, 4), 64 + 8 + 32),
    "iq3_xxs": (256, (2,), 96),
    "iq2_s": (256, (2, 8), 64 + 8),
    "iq2_xs": (256, (2, 8), 64),
    "iq2_xxs": (256, (2,), 64),
    "iq1_m": (256, (8,), 32 + 16),
    "iq1_s": (256, (2,), 32 + 16),
    "tq2_0": (256, (2,), 64),
    "tq1_0": (256, (2,), 48 + 4),
}


@pytest.mark.parametrize("name", GGUF)
def test_gguf_blocks(name: str) -> None:
    weights, scales, quants = GGUF[name]
    form = FORMATS[f"gguf-{name}"]
    assert form.bits_per_weight == (sum(scales) + quants) * 8 / weights
    assert form.matrix_bytes(10, 2 * weights) == 20 * (sum(scales) + quants)


def test_every_gguf_type_is_checked() -> None:
    assert {key for key in FORMATS if key.startswith("gguf-")} == {f"gguf-{name}" for name in GGUF}


@pytest.mark.parametrize(
    ("format_id", "bits"),
    [
        ("bf16", 16),
        ("fp16", 16),
        ("fp8-block", 8 + 32 / 128**2),
        ("int4-g128", 4 + (16 + 4) / 128),
        ("int4-g32", 4 + 16 / 32),
        ("mxfp4", 4.25),
        ("nvfp4", 4.5),
        ("gptq-4-g128", 4 + (16 + 4) / 128),
        ("gptq-3-g128", 3 + (16 + 3) / 128),
        ("gptq-2-g128", 2 + (16 + 2) / 128),
        ("gptq-1-g128", 1 + (16 + 1) / 128),
    ],
)
def test_bits_per_weight(format_id: str, bits: float) -> None:
    assert FORMATS[format_id].bits_per_weight == bits
    assert FORMATS[format_id].matrix_bytes(1024, 4096) == 1024 * 4096 * bits / 8


def test_int4_group_128_is_written_4_16() -> None:
    assert round(FORMATS["int4-g128"].bits_per_weight, 2) == 4.16


def test_partial_fp8_blocks_have_a_scale_each() -> None:
    # kv_a_proj_with_mqa of DeepSeek-V3 has 576 rows: 4.5 blocks, 5 scales per block column
    assert FORMATS["fp8-block"].scale_count(576, 7168) == 5 * 56
    assert FORMATS["fp8-block"].matrix_bytes(576, 7168) == 576 * 7168 + 4 * 5 * 56


@given(st.sampled_from(sorted(FORMATS)), st.integers(1, 5000), st.integers(1, 5000))
def test_a_matrix_takes_at_least_its_weights_and_less_than_a_padded_one(format_id: str, rows: int, cols: int) -> None:
    form = FORMATS[format_id]
    size = form.matrix_bytes(rows, cols)
    assert size >= rows * cols * form.nominal_bits / 8 * 0.84  # ternary TQ1_0 packs below its nominal two bits
    padded_cols = math.ceil(cols / (form.group_size or 1)) * (form.group_size or 1)
    assert size <= rows * padded_cols * form.bits_per_weight / 8 + 4 * rows + 4 * padded_cols + 4
    assert form.matrix_bytes(rows + 1, cols) > size


def test_bare_widths_have_a_named_format() -> None:
    named = {bits: models.format_for_bits(bits) for bits in (16, 8, 4, 3, 2, 1)}
    assert {bits: FORMATS[key].nominal_bits for bits, key in named.items()} == {bits: bits for bits in named}
    for wrong in (0, 5, 7, 32, True):
        with pytest.raises(models.ModelError, match="16, 8, 4, 3, 2, 1"):
            models.format_for_bits(wrong)


def test_unknown_formats_name_the_nearest() -> None:
    with pytest.raises(models.ModelError, match="gguf-q4_k"):
        models.weight_format("q4_k")
    with pytest.raises(models.ModelError, match="fp8"):
        models.kv_format("fp7")
    with pytest.raises(models.ModelError, match="hopper"):
        models.compute_path("bf16", "hoper")
    with pytest.raises(models.ModelError, match="routed"):
        models.component_bytes(models.load("mistralai/Mixtral-8x7B-v0.1"), {"experts": "bf16"})


def test_who_computes_what() -> None:
    def how(format_id: str, device: str) -> str:
        return models.compute_path(format_id, device).how

    assert {d for d in models.DEVICE_CLASSES if how("fp8-block", d) == "native"} == {
        "ada",
        "hopper",
        "blackwell",
        "cdna3",
        "cdna4",
    }
    assert {d for d in models.DEVICE_CLASSES if how("mxfp4", d) == "native"} == {"blackwell", "cdna4"}
    assert {d for d in models.DEVICE_CLASSES if how("nvfp4", d) == "native"} == {"blackwell"}
    assert models.compute_path("nvfp4", "blackwell").rate == "fp4"
    assert models.compute_path("fp8-block", "amx").rate == "bf16"
    assert models.compute_path("int8", "amx").rate == "int8"
    assert models.compute_path("gguf-iq2_xxs", "dimm_ndp").rate is None


def test_the_compute_table_is_complete_and_sourced() -> None:
    for format_id in FORMATS:
        for device in models.DEVICE_CLASSES:
            path = models.compute_path(format_id, device)
            assert path.source
            assert (path.rate is None) == (path.how == "no")


def test_native_bytes_of_deepseek_v3_equal_the_published_dtype_split() -> None:
    # BF16 3,918,786,560 + F8_E4M3 680,571,043,840 + F32 41,555,600 values
    expected = 2 * 3_918_786_560 + 680_571_043_840 + 4 * 41_555_600
    assert models.checkpoint_bytes(models.load("deepseek-ai/DeepSeek-V3"))["native"] == expected


def test_native_expert_bytes() -> None:
    v3 = models.load("deepseek-ai/DeepSeek-V3")
    assert models.expert_bytes(v3) == 3 * (2048 * 7168 + 4 * 16 * 56)
    oss = models.load("openai/gpt-oss-120b")
    assert models.expert_bytes(oss) == 3 * 2880 * 2880 * 4.25 / 8 + 2 * 3 * 2880
    k2 = models.load("moonshotai/Kimi-K2.5")
    assert models.expert_bytes(k2) == 44_040_192 * 4.5 / 8
    assert models.component_bytes(k2, "native")["shared"] == 2 * 2_642_411_520


def test_notes_decide_where_a_config_is_silent() -> None:
    nano = models.load("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4")
    assert nano.native.label == "nvfp4"
    assert nano.native.format_of("mamba", 0) == "nvfp4"
    assert nano.native.format_of("mamba", 4) == "bf16"
    assert nano.native.format_of("attn_full", 5) == "bf16"
    assert models.load("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8").native.label == "fp8-tensor"
    assert models.load("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16").native.label == "bf16"


def test_the_name_decides_nothing() -> None:
    import json

    from models.library import CATALOG

    text = (CATALOG / "nvidia__NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4.json").read_text(encoding="utf-8")
    assert models.read_config(json.loads(text), "Nemotron-NVFP4").native.label == "bf16"


@pytest.mark.parametrize("model_id", models.model_ids())
def test_bytes_of_a_checkpoint(model_id: str) -> None:
    arch = models.load(model_id)
    sizes = models.checkpoint_bytes(arch)
    assert list(sizes) == ["native", "16", "8", "4", "3", "2", "1"]
    assert sizes["16"] == 2 * models.parameters(arch).total
    widths = [sizes[key] for key in ("16", "8", "4", "3", "2", "1")]
    assert widths == sorted(widths, reverse=True)
    assert all(math.isfinite(size) and size > 0 for size in sizes.values())
    per_component = models.component_bytes(arch, "native")
    assert sum(per_component.values()) == sizes["native"]
    assert sum(models.stored_bytes(arch, "native").values()) == pytest.approx(sizes["native"], rel=1e-12)


def test_a_mapping_changes_only_what_it_names() -> None:
    arch = models.load("deepseek-ai/DeepSeek-V3")
    native = models.component_bytes(arch, "native")
    mixed = models.component_bytes(arch, {"routed": "int4-g128"})
    assert mixed["routed"] == arch.expert_parameters * 256 * 58 / 2
    assert {k: v for k, v in mixed.items() if k not in ("routed", "scales")} == {
        k: v for k, v in native.items() if k not in ("routed", "scales")
    }
    embedded = models.component_bytes(arch, {"embed": "int8"})
    assert embedded["embed"] == native["embed"] / 2


def test_kv_formats() -> None:
    arch = models.load("mistralai/Mixtral-8x7B-v0.1")
    scale = 2 * 8 * 32 * 2  # one 16-bit scale per token, head, key or value, and layer
    assert models.kv_bytes_per_token(arch, "fp8") == 65_536
    assert models.kv_bytes_per_token(arch, "int8") == 65_536 + scale
    assert models.kv_bytes_per_token(arch, "int4") == 32_768 + scale
    assert list(KV_FORMATS) == ["bf16", "fp8", "int8", "int4"]


def test_show_has_the_contract_of_the_command_line() -> None:
    import json

    shown = json.loads(json.dumps(models.show(models.load("deepseek-ai/DeepSeek-V3.2")), allow_nan=False))
    assert set(shown["parameters"]) == {"total", "main", "active", "by_component"}
    assert set(shown["bytes"]) == {"native", "16", "8", "4", "3", "2", "1"}
    assert shown["kv_bytes_per_token"] == 70_272
    assert shown["indexer_bytes_per_token"] == 61 * 132
    assert shown["recurrent_state_bytes_per_sequence"] == 0
    assert shown["plannable"] is True


def test_an_encoder_decoder_is_shown_and_not_planned() -> None:
    for model_id, total in (("google/switch-base-128", 7_415_217_408), ("facebook/nllb-moe-54b", 54_500_569_088)):
        shown = models.show(models.load(model_id))
        assert shown["parameters"]["total"] == total
        assert shown["plannable"] is False
        assert "encoder-decoder" in shown["why_not"]
