"""One GQA, one latent-attention and one hybrid model, worked out by hand from their sizes."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import models

ARCH_ROWS = list(csv.DictReader((Path(__file__).parent / "data" / "measured_arch.csv").open(encoding="utf-8")))


def test_mixtral_layer_by_hand() -> None:
    work = models.work(models.load("mistralai/Mixtral-8x7B-v0.1"))
    hidden, width, heads, kv_heads, dim = 4096, 14336, 32, 8, 128
    attention = hidden * heads * dim + 2 * hidden * kv_heads * dim + heads * dim * hidden
    assert work.mixer_parameters.tolist() == [attention + 2 * hidden] * 32
    assert work.expert_parameters.tolist() == [3 * hidden * width] * 32
    assert work.router_parameters.tolist() == [8 * hidden] * 32
    assert not work.dense_parameters.any()
    assert not work.shared_parameters.any()
    assert work.lm_head_parameters == 32000 * hidden


def test_mixtral_attention_at_a_context_by_hand() -> None:
    arch = models.load("mistralai/Mixtral-8x7B-v0.1")
    # scores and values: 2 FLOP each per head, dimension and token
    assert models.attention_flops(arch, 1000.0).tolist() == [4 * 32 * 128 * 1000.0] * 32
    # keys and values of 8 heads of 128 in 2 bytes
    assert models.kv_bytes_read(arch, "bf16", 1000.0).tolist() == [2 * 8 * 128 * 2 * 1000.0] * 32
    assert models.kv_bytes_held(arch, "fp8", 1000.0).sum() == 131_072 / 2 * 1000


def test_deepseek_v3_layer_by_hand() -> None:
    arch = models.load("deepseek-ai/DeepSeek-V3")
    work = models.work(arch)
    hidden, heads, q_rank, rank, nope, rope, value = 7168, 128, 1536, 512, 128, 64, 128
    attention = (
        hidden * q_rank
        + q_rank
        + q_rank * heads * (nope + rope)
        + hidden * (rank + rope)
        + rank
        + rank * heads * (nope + value)
        + heads * value * hidden
    )
    assert set(work.mixer_parameters.tolist()) == {attention + 2 * hidden}
    assert work.is_moe.tolist() == [False] * 3 + [True] * 58
    assert work.dense_parameters.tolist() == [3 * hidden * 18432] * 3 + [0] * 58
    assert work.expert_parameters[3] == 3 * hidden * 2048 == 44_040_192
    assert work.router_parameters[3] == 256 * hidden + 256
    # absorbed decode form reads the latent of 512 + 64; the expanded form has heads of 192 and 128
    assert models.attention_flops(arch, 1.0)[0] == 2 * heads * (rank + rope) + 2 * heads * rank
    assert models.attention_flops(arch, 1.0, absorbed=False)[0] == 2 * heads * (nope + rope) + 2 * heads * value
    assert models.kv_replicated(arch)


def test_qwen3_next_layers_by_hand() -> None:
    arch = models.load("Qwen/Qwen3-Next-80B-A3B-Instruct")
    work = models.work(arch)
    hidden, key, value, value_heads, kernel = 2048, 16 * 128, 32 * 128, 32, 4
    delta = (
        hidden * (2 * key + 2 * value)
        + 2 * hidden * value_heads
        + (2 * key + value) * kernel
        + 2 * value_heads
        + 128
        + value * hidden
    )
    full = hidden * 16 * 256 * 2 + 2 * hidden * 2 * 256 + 16 * 256 * hidden + 2 * 256
    assert work.mixer_parameters[:4].tolist() == [delta + 2 * hidden] * 3 + [full + 2 * hidden]
    state = models.recurrent_state_bytes(arch)
    assert state[0] == 32 * 128 * 128 * 4 + (2 * key + value) * (kernel - 1) * 2
    assert state[3] == 0
    assert models.kv_bytes_held(arch, "bf16", 10.0)[:4].tolist() == [0, 0, 0, 2 * 2 * 256 * 2 * 10]
    assert [models.KINDS[code] for code in work.kind[:4]] == ["linear"] * 3 + ["full"]


@pytest.mark.parametrize(
    ("model_id", "expected"),
    [
        ("mistralai/Mixtral-8x7B-v0.1", 131_072),
        ("Qwen/Qwen3-235B-A22B", 192_512),
        ("deepseek-ai/DeepSeek-V3", 70_272),
    ],
)
def test_kv_bytes_per_token_at_16_bit(model_id: str, expected: int) -> None:
    arch = models.load(model_id)
    assert models.kv_bytes_per_token(arch, "bf16") == expected
    assert models.kv_bytes_held(arch, "bf16", 1.0).sum() == expected


def test_a_window_caps_what_is_held_and_read() -> None:
    arch = models.load("openai/gpt-oss-20b")
    held = models.kv_bytes_held(arch, "bf16", 4096.0)
    per_token = 2 * 8 * 64 * 2
    assert held[0] == 128 * per_token
    assert held[1] == 4096 * per_token
    assert models.kv_bytes_per_token(arch, "bf16") == 24 * per_token
    assert np.array_equal(models.kv_bytes_read(arch, "bf16", 4096.0), held)


def test_a_chunk_restarts_but_stays_held() -> None:
    arch = models.load("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    per_token = 2 * 8 * 128 * 2
    read, held = models.kv_bytes_read(arch, "bf16", 8193.0), models.kv_bytes_held(arch, "bf16", 8193.0)
    assert read[0] == per_token
    assert held[0] == 8192 * per_token
    assert read[3] == held[3] == 8193 * per_token


def test_a_sparse_index_reads_its_choice_and_all_its_keys() -> None:
    arch = models.load("deepseek-ai/DeepSeek-V3.2")
    context = 100_000.0
    keys = (128 + 4) * context
    assert models.kv_bytes_read(arch, "bf16", context)[0] == 2048 * 576 * 2 + keys
    assert models.kv_bytes_held(arch, "bf16", context)[0] == context * 576 * 2 + keys
    assert models.indexer_bytes_per_token(arch) == 61 * 132
    flops = 2 * 128 * (512 + 64 + 512) * 2048 + 2 * 64 * 128 * context
    assert models.attention_flops(arch, context)[0] == flops


def test_shared_indices_hold_no_keys() -> None:
    arch = models.load("zai-org/GLM-5.2")
    assert models.indexer_bytes_per_token(arch) == 21 * 132
    assert models.kv_bytes_read(arch, "bf16", 50_000.0)[3] == 2048 * 576 * 2


def test_compressed_entries_of_deepseek_v4() -> None:
    arch = models.load("deepseek-ai/DeepSeek-V4-Flash")
    held = models.kv_bytes_held(arch, "bf16", 12_800.0)
    entry = 512 * 2
    assert held[0] == 128 * entry  # a layer without compression holds its window only
    assert held[2] == (128 + 3200) * entry + 3200 * 132
    assert held[3] == (128 + 100) * entry
    assert models.kv_bytes_read(arch, "bf16", 12_800.0)[2] == (128 + 512) * entry + 3200 * 132


@pytest.mark.parametrize(
    "row", [r for r in ARCH_ROWS if not r["arch_key"].startswith("derived")], ids=lambda r: r["arch_key"]
)
def test_sizes_agree_with_those_behind_published_measurements(row: dict[str, str]) -> None:
    arch = models.load(row["arch_key"])
    layer = arch.layers[arch.moe_layers[0]]
    expert = sum(t.parameters for t in layer.expert_tensors if t.quantised)  # that table leaves biases out
    found = {
        "layers": arch.num_layers,
        "moe_layers": len(arch.moe_layers),
        "experts": arch.experts,
        "top_k": arch.top_k,
        "hidden": arch.hidden_size,
        "params_per_expert": expert,
    }
    assert found == {key: int(row[key]) for key in found}
    if "nemotron" in row["arch_key"].lower():  # its total leaves out norms and Mamba vectors
        assert models.parameters(arch).main == pytest.approx(float(row["total_params"]), rel=1e-5)
    else:
        assert models.parameters(arch).main == float(row["total_params"])
    if row["ctx_cap"] == "" and "V4" not in row["arch_key"]:  # its row is approximate there, and says so
        full = [layer.mixer for layer in arch.layers if layer.mixer.kind in ("full", "mla") or layer.mixer.chunked]
        assert sum(mixer.kv_elements for mixer in full) == float(row["kv_elems_per_token"])
        slope = sum(2 * mixer.heads * (mixer.qk_dim + mixer.v_dim) for mixer in full)
        assert slope == float(row["attn_flops_per_token_per_ctx"])


@pytest.mark.parametrize("model_id", models.model_ids())
def test_layer_arrays_add_up_to_the_counts(model_id: str) -> None:
    arch = models.load(model_id)
    work, counts = models.work(arch), models.parameters(arch)
    head = 0 if arch.tied_embeddings else work.lm_head_parameters
    layers = (
        work.mixer_parameters.sum()
        + work.dense_parameters.sum()
        + work.shared_parameters.sum()
        + work.router_parameters.sum()
        + (work.expert_parameters * work.experts).sum()
    )
    outside = {t.name for t in arch.extra if t.component in ("norms", "hyper_conn", "attn")}
    rest = sum(t.parameters for t in arch.extra if t.name in outside)
    assert layers + work.embed_parameters + head + rest == counts.main
    idle = ((work.experts - work.top_k) * work.expert_parameters).sum()
    assert counts.main - idle == counts.active
    assert not work.mixer_parameters.flags.writeable
    for values in (
        models.attention_flops(arch, 4096.0),
        models.attention_flops(arch, 4096.0, absorbed=False),
        models.kv_bytes_held(arch, "int4", 4096.0),
        models.kv_bytes_read(arch, "int8", 4096.0),
        models.recurrent_state_bytes(arch),
    ):
        assert values.shape == (arch.num_layers,)
        assert values.dtype == np.float64
        assert np.isfinite(values).all()
        assert (values >= 0).all()


@pytest.mark.parametrize("model_id", models.model_ids())
def test_reading_never_exceeds_holding_and_both_grow(model_id: str) -> None:
    arch = models.load(model_id)
    before = np.zeros(arch.num_layers)
    for context in (1.0, 7.0, 129.0, 5000.0, 70_000.0):
        held = models.kv_bytes_held(arch, "bf16", context)
        assert (models.kv_bytes_read(arch, "bf16", context) <= held + 1e-6).all()
        assert (held >= before).all()
        before = held
