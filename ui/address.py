"""The address codec: a whole scenario in one parameter of the page's address.

The text is URL-safe base64, without padding, of a frame that never changes: one version byte, the first four bytes
of SHA-256 over version and payload, the payload. In version 1 the payload is zlib-compressed JSON of what differs
from :data:`BASELINE_1`. The baseline is frozen here and is not ``Scenario()``: when a default of the schema changes
in a later release, an old link still means what its sender saw.

Pure Python over planner; no Streamlit, no store.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from typing import Any

from planner.fields import ScenarioError, validated
from planner.scenario import Scenario

VERSION = 1
SAFE_CHARS = 6_000  # browsers, proxies and chat programs carry addresses of this length
MAX_JSON_BYTES = 256_000
MAX_TEXT_CHARS = 400_000
_FRAME_BYTES = 5
_ALPHABET = re.compile(r"[A-Za-z0-9_-]+")

#: What a version 1 address leaves unsaid. Never edit it: a changed default needs no change here, a field that the
#: schema dropped needs version 2 with a baseline of its own.
BASELINE_1: dict[str, Any] = {
    "schema_version": 1,
    "model": {"id": "mistralai/Mixtral-8x7B-v0.1", "config": None, "weight_format": "native", "kv_format": "bf16"},
    "system": {"id": "2x-h100-sxm", "overrides": {}},
    "workload": {
        "preset": None,
        "batch": 32,
        "prompt_tokens": 1024,
        "output_tokens": 256,
        "prefix_hit_share": 0.0,
        "draft_tokens": 0,
        "draft_acceptance": 0.7,
        "requests_per_s": None,
        "output_tokens_per_day": None,
        "target_utilisation": 0.7,
        "spare_systems": 0,
        "slo_ttft_s": None,
        "slo_tpot_s": None,
    },
    "routing": {
        "source": "generated",
        "trace": None,
        "distribution": "lognormal",
        "sigma": 0.7,
        "domain_share": 0.5,
        "sigma_request": 0.5,
        "sigma_phase": 0.34,
        "seed": 0,
        "steps": 0,
    },
    "policy": {
        "id": "all-gpu",
        "weight_bits": None,
        "expert_format": None,
        "gpu_experts_per_layer": None,
        "kv_location": "auto",
        "attention_device": "auto",
        "prefill": "auto",
        "prefill_chunk_tokens": 8192,
        "micro_batches": 1,
        "cuda_graphs": True,
        "tensor_parallel": None,
        "expert_parallel": None,
        "pipeline_parallel": None,
        "data_parallel": None,
        "options": {},
    },
    "economics": {
        "mode": "owned",
        "life_years": 4.0,
        "busy_share": 0.6,
        "electricity_usd_per_kwh": 0.0929,
        "pue": 1.25,
        "grid_gco2e_per_kwh": 369.0,
        "rent_usd_per_hour": None,
        "other_usd_per_month": 0.0,
    },
}


class AddressError(Exception):
    """The text is no scenario; ``str(error)`` is one sentence to show."""


def encode(scenario: Scenario) -> str:
    """*scenario* as text for an address. Raises :class:`AddressError` beyond what :func:`decode` takes."""
    try:
        difference = _difference(json.loads(scenario.canonical_json()))
        plain = _json(difference).encode()
    except (ValueError, RecursionError) as error:
        raise AddressError(
            "This scenario cannot be written as a link; its pasted config is nested too deep."
        ) from error
    if len(plain) > MAX_JSON_BYTES:
        raise AddressError(_too_large_sentence(scenario, len(plain)))
    return _frame(VERSION, zlib.compress(plain, 9))


def decode(text: str) -> Scenario:
    """The scenario that :func:`encode` wrote. Raises :class:`AddressError`, and nothing else, for any other text."""
    payload = _payload(text)
    try:
        difference = json.loads(payload)
        if not isinstance(difference, dict):
            raise AddressError("The scenario in this address is damaged: it is not an object.")
        scenario = validated(_apply(difference))
        scenario.canonical_json()  # what cannot be written again cannot be planned, saved or sent on either
    except ScenarioError as error:
        raise AddressError(f"The scenario in this address cannot be used: {error}") from error
    except (ValueError, RecursionError) as error:
        raise AddressError("The scenario in this address is damaged: its content cannot be read.") from error
    return scenario


def too_large(scenario: Scenario) -> str | None:
    """A sentence that offers Save when *scenario* is too large for an address, else None."""
    try:
        size = len(encode(scenario))
    except AddressError as error:
        return str(error)
    return _too_large_sentence(scenario, size) if size > SAFE_CHARS else None


def _difference(data: dict[str, Any]) -> dict[str, Any]:
    """Top-level values and fields of sections that are not the baseline's; a field is kept or left out whole."""
    difference: dict[str, Any] = {}
    for section, value in data.items():
        base = BASELINE_1.get(section)
        if isinstance(value, dict) and isinstance(base, dict):
            changed = {k: v for k, v in value.items() if k not in base or _json(v) != _json(base[k])}
            if changed:
                difference[section] = changed
        elif section not in BASELINE_1 or _json(value) != _json(base):
            difference[section] = value
    return difference


def _apply(difference: dict[str, Any]) -> dict[str, Any]:
    data = dict(BASELINE_1)
    for section, value in difference.items():
        base = data.get(section)
        data[section] = {**base, **value} if isinstance(base, dict) and isinstance(value, dict) else value
    return data


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def _frame(version: int, payload: bytes) -> str:
    return _base64(bytes([version]) + _checksum(version, payload) + payload)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _checksum(version: int, payload: bytes) -> bytes:
    return hashlib.sha256(bytes([version]) + payload).digest()[:4]


def _payload(text: str) -> bytes:
    """The JSON inside the frame; every way in which the text can be wrong ends here in a sentence."""
    if not isinstance(text, str) or not (text := text.strip()):
        raise AddressError("This address holds no scenario.")
    if len(text) > MAX_TEXT_CHARS:
        raise AddressError(f"The scenario in this address is too long: up to {MAX_TEXT_CHARS:,} characters are read.")
    damaged = "This address is damaged or was cut off when it was copied; ask for the link again."
    if not _ALPHABET.fullmatch(text) or len(text) % 4 == 1:
        raise AddressError(damaged)
    frame = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    version, checksum, payload = frame[0], frame[1:_FRAME_BYTES], frame[_FRAME_BYTES:]
    # The last character may carry bits that base64 ignores; writing it again must give the same text.
    if _base64(frame) != text or checksum != _checksum(version, payload):
        raise AddressError(damaged)
    if version > VERSION:
        raise AddressError(
            f"This address was made by a newer Tierline (format {version}; this one reads up to {VERSION}); "
            "open it there, or update this one."
        )
    if version < 1:
        raise AddressError(damaged)
    unpacker = zlib.decompressobj()
    try:
        plain = unpacker.decompress(payload, MAX_JSON_BYTES)
    except zlib.error as error:
        raise AddressError(damaged) from error
    if unpacker.unconsumed_tail or (not unpacker.eof and len(plain) >= MAX_JSON_BYTES):
        raise AddressError(f"The scenario in this address unpacks to more than {MAX_JSON_BYTES // 1000} kB; not read.")
    if not unpacker.eof or unpacker.unused_data:
        raise AddressError(damaged)
    return plain


def _too_large_sentence(scenario: Scenario, size: int) -> str:
    parts = {
        "the pasted config": scenario.model.config,
        "the edited hardware figures": scenario.system.overrides,
        "the policy's options": scenario.policy.options,
    }
    largest = max(parts, key=lambda name: len(repr(parts[name])))
    return (
        f"This scenario is too large for an address because of {largest} ({size:,} characters, up to {SAFE_CHARS:,} "
        "travel safely); save it and send the link of the saved one."
    )
