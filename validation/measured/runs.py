"""One measured run: what was run, on what, and how fast it was. Read from a CSV with the published columns or a few."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

Per = Literal["request", "total"]
Counted = Literal["output", "input", "input+output"]


@dataclass(frozen=True)
class Run:
    """What was run and where, and the rate that was measured. None where the source says nothing.

    Rates are tokens/s of one request or of all listed GPUs together (``per``), of the tokens of ``tokens_counted``.
    """

    id: str
    model: str
    tokens_per_s: float | None = None
    per: Per = "request"
    tokens_counted: Counted = "output"
    phase: Literal["decode", "prefill", "e2e"] = "decode"
    regime: str | None = None
    system_family: str = "unknown"
    system_version: str = ""
    split_unit: str = ""
    usable: bool = True
    quality: str = ""
    weight_bits: float | None = None
    weight_bits_note: str = ""
    kv_bits: float | None = None
    kv_location: str | None = None
    top_k_used: int | None = None
    gpu: str | None = None
    n_gpu: int = 0
    parallelism: str = ""
    cpu: str | None = None
    sockets: int | None = None
    cores_per_socket: int | None = None
    numa_mode: str | None = None
    mem_channels: float | None = None
    mem_MTs: float | None = None
    mem_GBps_theoretical: float | None = None
    mem_GBps_measured: float | None = None
    pcie_gen: float | None = None
    gpu_experts_per_layer: float | None = None
    gpu_layers_with_experts: float | None = None
    cpu_layers_with_experts: float | None = None
    cpu_buffer_MiB: float | None = None
    cache_fraction: float | None = None
    miss_path: str | None = None
    stream_set: str | None = None
    prefill_mode: str | None = None
    ubatch_tokens: float | None = None
    batch: float | None = None
    concurrency: float | None = None
    n_requests: float | None = None
    input_len: float | None = None
    output_len: float | None = None
    context_depth: float | None = None
    software_mode: str = ""
    resident_part: str = ""
    # Outcomes, for comparison only; further ones (hit_rate, duration_s, batch_running_est) are not even read.
    ttft_ms: float | None = None
    tpot_ms: float | None = None


COLUMNS = tuple(field.name for field in fields(Run))
