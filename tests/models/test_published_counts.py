"""Parameter counts equal the published totals, row by row of ``published_counts.csv``."""

from __future__ import annotations

import csv
import json

import pytest

import models
from models.library import CATALOG

FOLDER = CATALOG / "published"
ROWS = {row["name"]: row for row in csv.DictReader((FOLDER / "published_counts.csv").open(encoding="utf-8"))}
MAPPING = json.loads((FOLDER / "published_rows.json").read_text(encoding="utf-8"))
MAIN = "closed_form_main_model (no MTP, no scales)"
COUNTED = [(name, model_id) for name, row in MAPPING.items() for model_id in row.get("ids", ())]

# Component tables of the same source, copied by hand: they hold the parts to account, not only the sums.
COMPONENTS = {
    "mistralai/Mixtral-8x7B-v0.1": {
        "embed": 131_072_000,
        "lm_head": 131_072_000,
        "attn": 1_342_177_280,
        "router": 1_048_576,
        "routed": 45_097_156_608,
        "norms": 266_240,
    },
    "deepseek-ai/DeepSeek-V3": {
        "embed": 926_679_040,
        "lm_head": 926_679_040,
        "attn": 11_413_547_008,
        "dense_mlp": 1_189_085_184,
        "router": 106_430_464,
        "router_bias": 14_848,
        "routed": 653_908_770_816,
        "shared": 2_554_331_136,
        "norms": 881_664,
        "mtp": 11_610_068_224,
        "mtp_dup_tables": 1_853_358_080,
    },
    "deepseek-ai/DeepSeek-V3.2": {"indexer": 851_524_864, "mtp": 11_624_027_648},
    "deepseek-ai/DeepSeek-V4-Flash": {
        "attn": 4_599_123_136,
        "compressor": 261_464_576,
        "indexer": 225_730_176,
        "hyper_conn": 33_884_439,
        "router_bias": 10_240,
        "mtp": 6_610_048_891,
        "hash_tables_int": 2_327_040,
    },
    "deepseek-ai/DeepSeek-V4-Pro": {
        "attn": 18_293_589_632,
        "compressor": 670_128_640,
        "indexer": 501_384_960,
        "hyper_conn": 84_069_603,
        "mtp": 25_840_145_979,
    },
    "Qwen/Qwen3-Next-80B-A3B-Instruct": {
        "attn_full": 327_161_856,
        "attn_linear": 1_213_864_704,
        "shared": 151_093_248,
        "mtp": 1_650_471_424,
    },
    "moonshotai/Kimi-K3": {
        "attn_kda": 30_618_086_496,
        "attn_mla": 5_572_706_304,
        "latent_proj": 4_727_310_336,
        "norms": 4_021_248,
        "shared": 12_155_092_992,
    },
    "zai-org/GLM-5.2": {"indexer": 196_809_984, "mtp": 9_952_920_576},
    "MiniMaxAI/MiniMax-M1-80k": {"attn_full": 1_132_462_080, "attn_linear": 17_616_650_240},
    "ai21labs/AI21-Jamba-Large-1.5": {"mamba": 26_480_920_032, "attn_full": 1_358_954_496, "dense_mlp": 21_743_271_936},
    "Snowflake/snowflake-arctic-instruct": {"residual_mlp": 5_394_923_520, "norms": 759_808},
    "openai/gpt-oss-120b": {"attn": 955_805_184, "router": 13_275_648, "routed": 114_701_598_720},
    "microsoft/Phi-3.5-MoE-instruct": {"lm_head": 131_366_208, "attn": 1_342_504_960, "norms": 532_480},
    "xai-org/grok-1": {"attn": 5_637_144_576, "routed": 309_237_645_312, "norms": 1_579_008},
}


def test_every_row_is_mapped_or_says_what_is_missing() -> None:
    assert set(MAPPING) == set(ROWS)
    for name, row in MAPPING.items():
        assert row.get("ids") or row.get("missing"), name
        if "missing" in row:
            assert ROWS[name]["closed_form_total"] == "", f"{name} has a closed form but is listed as missing"


def test_every_row_with_a_closed_form_is_counted() -> None:
    counted = {name for name, row in MAPPING.items() if row.get("ids")}
    assert {name for name, row in ROWS.items() if row["closed_form_total"]} <= counted


@pytest.mark.parametrize(("row", "model_id"), COUNTED, ids=[model_id for _, model_id in COUNTED])
def test_counts_equal_the_published_row(row: str, model_id: str) -> None:
    arch, published = models.load(model_id), ROWS[row]
    counts = models.parameters(arch)
    scales = models.scale_count(arch) if MAPPING[row].get("scales") else 0
    if published["closed_form_total"]:
        assert counts.total + scales == int(published["closed_form_total"])
    if published[MAIN]:
        assert counts.main == int(published[MAIN])
        assert counts.active == int(published["closed_form_active_incl_embed"])
        without = counts.active - models.work(arch).embed_parameters
        assert without == int(published["closed_form_active_excl_input_embedding"])


@pytest.mark.parametrize(("model_id", "expected"), COMPONENTS.items(), ids=list(COMPONENTS))
def test_components_equal_the_published_table(model_id: str, expected: dict[str, int]) -> None:
    found = models.parameters(models.load(model_id)).by_component
    assert {name: found[name] for name in expected} == expected


def test_a_pasted_config_counts_declared_mtp_once_without_second_tables() -> None:
    config = json.loads((CATALOG / "deepseek-ai__DeepSeek-V3.json").read_text(encoding="utf-8"))
    pasted, stored = models.read_config(config), models.load("deepseek-ai/DeepSeek-V3")
    assert models.parameters(pasted).by_component["mtp"] == 11_610_068_224
    assert "mtp_dup_tables" not in models.parameters(pasted).by_component
    assert models.parameters(stored).total - models.parameters(pasted).total == 1_853_358_080
    assert models.parameters(pasted).main == models.parameters(stored).main


def test_mtp_that_a_config_declares_but_the_checkpoint_lacks_is_noted() -> None:
    config = json.loads((CATALOG / "MiniMaxAI__MiniMax-M2.7.json").read_text(encoding="utf-8"))
    assert models.read_config(config).mtp_layers == 3
    noted = models.load("MiniMaxAI/MiniMax-M2.7")
    assert noted.mtp_layers == 0
    assert any("MTP" in note for note in noted.notes)


def test_catalog_names_its_sources() -> None:
    assert len(models.catalog()) == len(models.model_ids()) == len(set(models.model_ids()))
    for entry in models.catalog():
        arch = models.load(entry.id)
        assert arch.provenance, entry.id
        assert arch.native.source, entry.id
        assert entry.plannable == (entry.why_not is None)


def test_models_that_published_rows_do_not_cover_are_known() -> None:
    covered = {model_id for _, model_id in COUNTED}
    assert set(models.model_ids()) - covered == {
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
        "nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4",
    }
