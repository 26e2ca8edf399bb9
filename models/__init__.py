"""Mixture-of-Experts architectures: the catalog, the config reader, and everything that is counted from them."""

from models.architecture import KINDS, Architecture, Layer, Mixer, NativeFormat, Tensor
from models.cache import (
    attention_flops,
    indexer_bytes_per_token,
    kv_bytes_held,
    kv_bytes_per_token,
    kv_bytes_read,
    kv_replicated,
    recurrent_state_bytes,
)
from models.counts import LayerWork, Parameters, parameters, work
from models.errors import ModelError
from models.formats import (
    DEVICE_CLASSES,
    FORMATS,
    KV_FORMATS,
    ComputePath,
    KvFormat,
    WeightFormat,
    compute_path,
    format_for_bits,
    kv_format,
    weight_format,
)
from models.library import CatalogEntry, catalog, load, model_ids, published_config, sentence
from models.parse import parse_config_file, parse_config_text
from models.reader import read_config
from models.show import show
from models.sizes import checkpoint_bytes, component_bytes, expert_bytes, scale_count, stored_bytes

__all__ = [
    "DEVICE_CLASSES",
    "FORMATS",
    "KINDS",
    "KV_FORMATS",
    "Architecture",
    "CatalogEntry",
    "ComputePath",
    "KvFormat",
    "Layer",
    "LayerWork",
    "Mixer",
    "ModelError",
    "NativeFormat",
    "Parameters",
    "Tensor",
    "WeightFormat",
    "attention_flops",
    "catalog",
    "checkpoint_bytes",
    "component_bytes",
    "compute_path",
    "expert_bytes",
    "format_for_bits",
    "indexer_bytes_per_token",
    "kv_bytes_held",
    "kv_bytes_per_token",
    "kv_bytes_read",
    "kv_format",
    "kv_replicated",
    "load",
    "model_ids",
    "parameters",
    "parse_config_file",
    "parse_config_text",
    "published_config",
    "read_config",
    "recurrent_state_bytes",
    "scale_count",
    "sentence",
    "show",
    "stored_bytes",
    "weight_format",
    "work",
]
