"""What every record of a Result is, and the words for tiers, lanes and parts."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Interval = tuple[float, float]
Bound = Literal[
    "gpu_compute", "hbm", "cpu_compute", "dram", "ndp_compute", "ndp_memory", "link", "collective", "overhead"
]
TierId = Literal["gpu", "host", "dimm_ndp", "cxl_ndp", "streamed", "nvme"]
PartId = Literal[
    "attention", "dense_shared", "routed_gpu", "routed_cpu", "routed_ndp", "link", "collective", "overhead"
]
Lane = Literal["gpu", "cpu", "dram", "ndp", "link", "cxl_link", "network", "overhead"]

TIERS: tuple[TierId, ...] = ("gpu", "host", "dimm_ndp", "cxl_ndp", "streamed", "nvme")


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
