"""What a probe timed, before anything is made of it: seconds by repeat, with the bytes and FLOP that they took."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Amount = Annotated[float, Field(ge=0, le=1e18, allow_inf_nan=False)]
Seconds = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Word = Annotated[str, Field(max_length=60)]
Text = Annotated[str, Field(max_length=400)]
Number = Annotated[int, Field(ge=0, le=1_000_000)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Point(_Record):
    """One thing done several times: ``x`` is what the series varies (threads, tokens, bytes)."""

    x: Amount
    bytes: Amount = Field(0.0, description="moved each time")
    flop: Amount = Field(0.0, description="computed each time, a multiply-add as two")
    seconds: tuple[Seconds, ...] = Field(min_length=1, max_length=1000, description="by repeat")

    @property
    def median_s(self) -> float:
        ordered = sorted(self.seconds)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

    @property
    def best_s(self) -> float:
        """The fastest repeat: whatever else runs on the machine can only slow one down."""
        return min(self.seconds)

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.best_s

    @property
    def flop_per_s(self) -> float:
        return self.flop / self.best_s


class Series(_Record):
    """Points of one kind.

    kind: read (x threads), remote_read, smt_read, huge_read, small_read, product (x tokens), dense (x rows),
    unpack (x bits), hbm_read, hbm_copy (x bytes), copy (x bytes), layer_graph, layer_eager (x kernels), sync (x 1).
    """

    kind: Word
    device: Literal["cpu", "gpu"]
    how: Text = Field("", description="library or kernel that did it")
    precision: Word | None = None
    node: int | None = Field(None, ge=0, le=4096)
    direction: Literal["to_gpu", "to_host"] | None = None
    memory: Literal["pinned", "pageable"] | None = None
    parameters: Amount | None = Field(None, description="weights of a product")
    points: tuple[Point, ...] = Field(min_length=1, max_length=200)


class HostFacts(_Record):
    """What the operating system says about CPU and memory; None where it does not say it without root."""

    cpu_name: Text
    flags: tuple[Word, ...] = Field((), max_length=100, description="instruction sets that matter here")
    online_cpus: Number
    allowed_cpus: Number = Field(description="of this process")
    cores: Number = Field(description="physical cores behind the allowed CPUs")
    sockets: Number
    nodes: tuple[Number, ...] = Field(max_length=1024, description="allowed CPUs of each NUMA node")
    memory_bytes: Amount
    l3_bytes: Amount | None = None
    quota_cpus: Amount | None = Field(None, description="CPU time that the control group may use, in CPUs; None = all")
    governor: Word | None = None
    max_hz: Amount | None = None
    loaded_hz: Amount | None = Field(None, description="clock read while all cores worked")
    huge_pages: Word | None = Field(None, description="transparent huge pages: always, madvise or never")
    dimms: Number | None = Field(None, description="modules that the memory controller reports")
    load: Amount | None = Field(None, description="programs that wanted a CPU before the probe began (load average)")
    virtual: bool = False


class GpuFacts(_Record):
    name: Text
    count: Number
    memory_bytes: Amount
    capability: Word | None = None
    link_generation: Number | None = None
    link_lanes: Number | None = None


class Recording(_Record):
    """A whole run of the probe."""

    schema_version: Literal[1] = 1
    date: Word
    quick: bool = False
    seconds: Amount = Field(description="that the run took")
    software: dict[Word, Text] = Field(default_factory=dict, max_length=40)
    host: HostFacts
    gpu: GpuFacts | None = None
    series: tuple[Series, ...] = Field((), max_length=400)
    gaps: dict[Word, Text] = Field(default_factory=dict, max_length=100, description="what was not measured -> why")

    def find(self, kind: str, **labels: object) -> list[Series]:
        """Series of that kind with those labels."""
        return [s for s in self.series if s.kind == kind and all(getattr(s, k) == v for k, v in labels.items())]
