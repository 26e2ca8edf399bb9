"""Colours: tiers by hue, bits by lightness, parts without a tier in ink; chart ink for the light and dark theme."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

Mode = Literal["light", "dark"]

# Okabe and Ito's palette: told apart under the common kinds of colour blindness.
TIERS: dict[str, str] = {
    "gpu": "#0072B2",
    "host": "#E69F00",
    "dimm_ndp": "#009E73",
    "cxl_ndp": "#CC79A7",
    "streamed": "#D55E00",
    "nvme": "#7A7A7A",
}
LINK = "#56B4E9"

# How far a colour is mixed with white, by bits per weight: 16 bit is the tier's own colour.
BITS_MIX: tuple[tuple[float, float], ...] = ((16, 0.0), (8, 0.18), (4, 0.42), (3, 0.58), (2, 0.73), (1, 0.86))
SLATE = "#2B3A55"
NEAR_BLACK = "#0B0E14"  # the page's ink is too pale on the blue of 8-bit experts in HBM

# Ten steps of viridis: the one sequential scale, for load.
VIRIDIS: tuple[str, ...] = (
    "#440154", "#482878", "#3E4A89", "#31688E", "#26828E", "#1F9E89", "#35B779", "#6DCD59", "#B4DE2C", "#FDE725",
)  # fmt: skip


@dataclass(frozen=True)
class Ink:
    """What charts and tables are drawn with on one background."""

    mode: Mode
    background: str
    text: str
    muted: str
    grid: str
    track: str  # behind a lane: the time in which it waits
    over: str  # over capacity
    attention: str
    dense: str
    overhead: str
    kv: str
    activations: str
    hatch: str


LIGHT = Ink(
    mode="light",
    background="#FFFFFF",
    text="#1B2230",
    muted="#5A6475",
    grid="#E6E9EE",
    track="#EEF0F4",
    over="#B33A00",
    attention="#3C475C",
    dense="#8C97AB",
    overhead="#C9CED8",
    kv="#C9B8E4",
    activations="#DDCFA0",
    hatch="#C9CED8",
)
DARK = Ink(
    mode="dark",
    background="#12161D",
    text="#E8EBF0",
    muted="#A7B0BF",
    grid="#2B323E",
    track="#1F2530",
    over="#FF8A5B",
    attention="#C3CCDB",
    dense="#808CA3",
    overhead="#4A5464",
    kv="#B8A2D9",
    activations="#DDCFA0",
    hatch="#5A6475",
)


def ink(mode: str | None) -> Ink:
    """The ink of a theme; the light one where the browser did not say."""
    return DARK if mode == "dark" else LIGHT


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def mix(colour: str, other: str, share: float) -> str:
    """``colour`` with ``share`` of ``other`` mixed in."""
    pairs = zip(_rgb(colour), _rgb(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)


def lightness_for(bits: float) -> float:
    """Share of white for a number of bits, read off the scale between its neighbours."""
    if bits >= BITS_MIX[0][0]:
        return BITS_MIX[0][1]
    for (high, mixed_high), (low, mixed_low) in itertools.pairwise(BITS_MIX):
        if bits >= low:
            return mixed_low + (mixed_high - mixed_low) * (bits - low) / (high - low)
    return BITS_MIX[-1][1]


def tier_colour(tier: str, bits: float = 16) -> str:
    """Hue of the tier, lightness of the bits."""
    return mix(TIERS.get(tier, "#7A7A7A"), "#FFFFFF", lightness_for(bits))


def bits_colour(bits: float) -> str:
    """The slate ramp of the view by bits: no hue, so it cannot be read as a tier."""
    return mix(SLATE, "#FFFFFF", lightness_for(bits))


def _luminance(colour: str) -> float:
    def channel(value: int) -> float:
        part = value / 255
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    red, green, blue = (channel(value) for value in _rgb(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours as WCAG 2 defines it, 1 to 21."""
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def text_on(*colours: str) -> str:
    """White or near black, whichever is read better on the worst of ``colours``."""
    return max(("#FFFFFF", NEAR_BLACK), key=lambda text: min(contrast(text, colour) for colour in colours))


def rgba(colour: str, alpha: float) -> str:
    """``colour`` with an alpha channel, as CSS writes it."""
    red, green, blue = _rgb(colour)
    return f"rgba({red},{green},{blue},{alpha:g})"


def part_colour(part: str, pen: Ink, ndp_tier: str = "dimm_ndp") -> str:
    """The colour of a part of the step: the same part has the same colour everywhere."""
    return {
        "attention": pen.attention,
        "dense_shared": pen.dense,
        "routed_gpu": TIERS["gpu"],
        "routed_cpu": TIERS["host"],
        "routed_ndp": TIERS.get(ndp_tier, TIERS["dimm_ndp"]),
        "link": LINK,
        "collective": mix(LINK, "#FFFFFF", 0.5),
        "overhead": pen.overhead,
    }.get(part, pen.dense)


def device_colour(device: str, pen: Ink) -> str:
    """The colour of a device or a cost in the energy and money bars."""
    return {
        "gpu": TIERS["gpu"],
        "cpu": TIERS["host"],
        "dimms": mix(TIERS["host"], "#FFFFFF", 0.5),
        "ndp": TIERS["dimm_ndp"],
        "cxl": TIERS["cxl_ndp"],
        "links": LINK,
        "chassis": pen.activations,
        "electricity": pen.hatch,
        "electricity_idle": pen.hatch,
        "rent": pen.dense,
        "other": pen.overhead,
    }.get(device, pen.overhead)


# Drawn hatched, so that they are told apart without colour.
HATCHED = frozenset({"electricity", "electricity_idle", "reserve"})
