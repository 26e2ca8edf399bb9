"""A machine as the physics sees it: the achieved rates of its devices (peak x achieved share), and what was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hardware import Figure, System
from planner.errors import PlanError


@dataclass
class Figures:
    """Reads figures of a system and remembers which were used; stands in for the system wherever it is read."""

    system: System
    used: dict[str, None] = field(default_factory=dict)

    def __call__(self, path: str) -> float:
        return self.value(path)

    def value(self, path: str) -> float:
        self.used[path] = None
        return self.system.value(path)

    def get(self, path: str) -> float | None:
        value = self.system.get(path)
        if value is not None:
            self.used[path] = None
        return value

    def has(self, path: str) -> bool:
        return self.system.has(path)

    @property
    def figures(self) -> Mapping[str, Figure]:
        return self.system.figures

    @property
    def gpu_name(self) -> str | None:
        return self.system.gpu_name

    @property
    def cpu_name(self) -> str | None:
        return self.system.cpu_name

    def count(self, path: str) -> int:
        return round(self.system.get(path) or 0)


@dataclass(frozen=True)
class Gpu:
    per_node: int
    nodes: int
    device_class: str | None
    peak_flop_per_s: dict[str, float | None]  # by number format of the product, power limit applied
    compute_efficiency_max: float
    compute_half_tokens: float
    peak_bandwidth_bytes_per_s: float
    bandwidth_efficiency: float
    kv_bandwidth_efficiency: float
    overlap: float
    capacity_bytes: float
    reserve_bytes: float
    layer_launch_s: float
    layer_launch_tp_s: float
    layer_launch_eager_s: float
    layer_uncaptured_s: float
    serving_efficiency: float
    step_overhead_s: float
    sequence_overhead_s: float
    kernel_launch_s: float
    kernel_launch_eager_s: float
    request_overhead_s: float
    request_serial_s: float
    captured_batch_max: float

    @property
    def count(self) -> int:
        return self.per_node * self.nodes

    @property
    def bandwidth_bytes_per_s(self) -> float:
        return self.peak_bandwidth_bytes_per_s * self.bandwidth_efficiency

    @property
    def kv_bandwidth_bytes_per_s(self) -> float:
        return self.peak_bandwidth_bytes_per_s * self.kv_bandwidth_efficiency

    def flop_per_s(self, rate: str) -> float:
        """Peak FLOP/s of products in ``rate`` ("bf16", "fp8", "int8", "fp4"); PlanError where the silicon lacks it."""
        value = self.peak_flop_per_s.get(rate)
        if not value:
            raise PlanError(f"this GPU has no {rate.upper()} rate; choose a weight format that it can compute")
        return value


@dataclass(frozen=True)
class Cpu:
    sockets: int
    device_class: str | None
    matrix_flop_per_s: float | None  # achieved, all sockets of a node
    vector_flop_per_s: float  # achieved, all sockets of a node
    block_flop_per_s: float  # achieved with weights in blocks (GGUF), all sockets of a node
    cores: int  # of a node
    peak_flop_per_s: float  # best peak, all sockets of a node
    tile_rows: float
    vector_tokens_max: float
    overlap: float
    low_bit_extra_bits: float
    layer_sync_s: float
    thread_sync_s: float
    reserve_bytes: float


@dataclass(frozen=True)
class Dram:
    peak_bandwidth_bytes_per_s: float  # of a node
    bandwidth_bytes_per_s: float  # achieved by all host readers of a node together
    cpu_bandwidth_bytes_per_s: float  # achieved by expert kernels of the CPUs of a node: NUMA losses included
    cpu_kv_bandwidth_bytes_per_s: float  # achieved by the CPUs' attention on the KV cache, likewise
    capacity_bytes: float  # of a node
    dimms: int
    channels: int
    ranks_per_dimm: int

    @property
    def channel_bandwidth_bytes_per_s(self) -> float:
        """Achieved by a read that lies on one DIMM: its channel."""
        return self.bandwidth_bytes_per_s / max(self.channels, 1)


@dataclass(frozen=True)
class Ndp:
    """Near-data units of one kind on one node: ``units`` DIMMs, or CXL devices, each with its own memory."""

    kind: str  # "dimm_ndp" or "cxl_ndp"
    units: int
    peak_flop_per_s: float  # of one unit
    flop_per_s: float  # achieved
    peak_bandwidth_bytes_per_s: float  # inside one unit
    bandwidth_bytes_per_s: float  # achieved
    rank_bandwidth_bytes_per_s: float  # what a host read of this unit occupies: ranks x rank rate
    tile_rows: float
    overlap: float
    command_s: float  # per layer and direction
    capacity_bytes: float  # of one unit
    buffer_bytes: float | None = None  # of one unit, for activations; None = not known, no limit


@dataclass(frozen=True)
class Link:
    peak_bytes_per_s: float  # per direction
    bytes_per_s: float  # achieved
    latency_s: float


@dataclass(frozen=True)
class Machine:
    figures: Figures
    nodes: int
    gpu: Gpu | None
    cpu: Cpu | None
    dram: Dram | None
    dimm_ndp: Ndp | None
    cxl_ndp: Ndp | None
    pcie: Link | None  # host to one GPU
    host_crossings: float  # of the host channels by each byte copied to a GPU
    host_to_gpus_bytes_per_s: float  # achieved, host to all GPUs of a node together (shared uplinks count once)
    cxl_link: Link | None  # GPU to CXL device: two ports in series, the slower sets the rate
    scaleup: Link | None  # GPU to GPU in a node, per GPU
    network: Link | None  # between nodes, per GPU
    unified_memory: bool

    @property
    def gpus(self) -> int:
        return self.gpu.count if self.gpu else 0
