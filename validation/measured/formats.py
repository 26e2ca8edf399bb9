"""Which stored form a run's weights had, from bits per weight and the label that the source gives."""

from __future__ import annotations

import re

from models import formats

TOLERANCE = 0.02
"""A named format stands for a run's bits when it is no farther away than this."""
_LABELS = (
    ("nvfp4", "nvfp4"),
    ("mxfp4", "mxfp4"),
    ("native int4", "int4-g32"),
    ("int4", "int4-g128"),
    ("int8", "int8"),
    ("fp8", "fp8-block"),
    ("bf16", "bf16"),
    ("q8_0", "gguf-q8_0"),
    ("q6_k", "gguf-q6_k"),
    ("q4_k", "gguf-q4_k"),
    ("q5_k", "gguf-q5_k"),
    ("iq4_xs", "gguf-iq4_xs"),
    ("iq3_s", "gguf-iq3_s"),
)
_PLAIN = {16.0: "bf16", 8.0: "fp8-block", 4.25: "mxfp4", 4.5: "gguf-q4_k", 8.5: "gguf-q8_0", 4.0: "int4-g128"}


_GGUF = re.compile(r"\b(?:UD-)?I?Q\d_?", re.IGNORECASE)


def whole_model(bits: float | None, label: str) -> str:
    """Format of a model that is stored in one form throughout; ``native`` when nothing is said."""
    if bits is None:
        return "native"
    text = label.casefold()
    for word, fmt in _LABELS:
        if word in text and abs(formats.FORMATS[fmt].bits_per_weight / bits - 1.0) < 0.15:
            return fmt
    if bits in _PLAIN:
        return _PLAIN[bits]
    return min(
        (f for f in formats.FORMATS if f not in ("fp32", "fp16")),
        key=lambda f: abs(formats.FORMATS[f].bits_per_weight - bits),
    )


def experts(bits: float | None, label: str) -> dict[str, object]:
    """Policy fields that store the routed experts off the GPU at ``bits`` on average."""
    if bits is None:
        return {}
    named = whole_model(bits, label)
    if any(word in label.casefold() and named == fmt for word, fmt in _LABELS):
        # The label names the form, within 15 % of the bits: these leave out scales, or are of the whole file.
        return {"expert_format": named}
    if _GGUF.search(label):
        blocks = [f for f in formats.FORMATS if f.startswith("gguf-")]
        named = min(blocks, key=lambda f: abs(formats.FORMATS[f].bits_per_weight - bits))
        return {"expert_format": named}  # a mix of block formats: the nearest one stands for it
    if abs(formats.FORMATS[named].bits_per_weight / bits - 1.0) <= TOLERANCE:
        return {"expert_format": named}
    return {"weight_bits": mixed_bits(bits)}


def mixed_bits(bits: float) -> float:
    """Nominal mean bits whose mix of the two neighbouring widths stores ``bits`` per weight, scales included."""
    steps = (1, 2, 3, 4, 8, 16)
    stored = [formats.FORMATS[formats.format_for_bits(s)].bits_per_weight for s in steps]
    if bits <= stored[0]:
        return float(steps[0])
    for low, high, a, b in zip(steps, steps[1:], stored, stored[1:], strict=False):
        if bits <= b:
            return low + (high - low) * max(bits - a, 0.0) / (b - a)
    return 16.0
