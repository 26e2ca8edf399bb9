"""What tiers, parts of a step, lanes and bounds are called for people; the same words everywhere."""

from __future__ import annotations

from planner.result import TIERS

BOUNDS: dict[str, str] = {
    "gpu_compute": "GPU compute",
    "hbm": "GPU HBM bandwidth",
    "cpu_compute": "CPU compute",
    "dram": "host DRAM bandwidth",
    "ndp_compute": "NDP compute",
    "ndp_memory": "NDP memory bandwidth",
    "link": "the link between host and GPU",
    "collective": "traffic between the GPUs",
    "overhead": "launch and synchronisation",
}

TIER_NAMES: dict[str, str] = {
    "gpu": "GPU HBM",
    "host": "CPU DRAM",
    "dimm_ndp": "DIMM-NDP",
    "cxl_ndp": "CXL-NDP",
    "streamed": "streamed to the GPU",
    "nvme": "NVMe",
}

# Short enough to be written inside a band of the map.
TIER_SHORT: dict[str, str] = {
    "gpu": "GPU",
    "host": "CPU",
    "dimm_ndp": "NDP",
    "cxl_ndp": "CXL-NDP",
    "streamed": "streamed",
    "nvme": "NVMe",
}

PARTS: dict[str, str] = {
    "attention": "attention",
    "dense_shared": "dense and shared",
    "routed_gpu": "routed on GPU",
    "routed_cpu": "routed on CPU",
    "routed_ndp": "routed on NDP",
    "link": "link",
    "collective": "between GPUs",
    "overhead": "launch and sync",
}

# The words inside a bar.
PART_BAR: dict[str, str] = {
    "attention": "attention",
    "dense_shared": "dense and shared",
    "routed_gpu": "experts",
    "routed_cpu": "experts",
    "routed_ndp": "experts",
    "link": "fetch",
    "collective": "between GPUs",
    "overhead": "launch and sync",
}

LANES: dict[str, str] = {
    "gpu": "GPU",
    "cpu": "CPU",
    "dram": "Host DRAM",
    "ndp": "NDP",
    "link": "Link",
    "cxl_link": "CXL link",
    "network": "GPU to GPU",
    "overhead": "Overhead",
}

# The same inside a sentence.
LANES_INLINE: dict[str, str] = {
    **LANES,
    "dram": "host DRAM",
    "link": "link",
    "network": "GPU-to-GPU",
    "overhead": "launch",
}

PREFILL_MODES: dict[str, str] = {
    "gpu": "on the GPU",
    "cpu": "on the CPU",
    "stream": "streamed to the GPU",
    "ndp": "on the NDP",
    "auto": "chosen by the policy",
}

# Figures of the headline: (name, unit or denominator). Prices and energy carry theirs in the unit.
HEADLINE: dict[str, tuple[str, str]] = {
    "ttft_s": ("time to first token", "s"),
    "tpot_s": ("time per output token", "s"),
    "tokens_per_s_user": ("output tokens per second and user", "tok/s per user"),
    "tokens_per_s_system": ("output tokens per second and system", "output tok/s per system"),
    "tokens_per_s_end_to_end": ("output tokens per second and system, prefill included", "output tok/s per system"),
    "prefill_tokens_per_s": ("prompt tokens per second and system", "prompt tok/s per system"),
    "energy_j_per_output_token": ("energy at the wall per output token", "J/token"),
    "usd_per_million_input_tokens": ("cost of a million input tokens", "USD"),
    "usd_per_million_output_tokens": ("cost of a million output tokens", "USD"),
    "usd_per_month": ("cost per month, all systems", "USD"),
    "systems_needed": ("systems needed", "systems"),
}


def bound(name: str | None) -> str:
    """What limits the step, in words."""
    return BOUNDS.get(name or "", (name or "nothing in particular").replace("_", " "))


def tier(name: str | int) -> str:
    """The name of a tier, by id or by index into :data:`planner.result.TIERS`."""
    key = TIERS[name] if isinstance(name, int) else name
    return TIER_NAMES.get(key, str(key).replace("_", " "))


def plain_tier(name: str) -> str:
    """The name of a tier of the ledger without what stands in brackets behind it."""
    return name.split(" (", 1)[0]


def part(name: str) -> str:
    """The name of a part of a step."""
    return PARTS.get(name, name.replace("_", " "))


def lane(name: str) -> str:
    """The name of a lane: one device, memory or link over the step."""
    return LANES.get(name, name.replace("_", " "))


def prefill_mode(name: str) -> str:
    """How prefill runs, in words; a mode that the policy names itself stays as it is."""
    return PREFILL_MODES.get(name, name.replace("_", " "))
