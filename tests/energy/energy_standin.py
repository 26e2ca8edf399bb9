"""A small system and random passes for the tests of energy and cost: the same methods as a catalog system."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from planner.activity import Activity, Mix
from planner.energy import Consumption, consumption
from planner.scenario import Economics

# Orders of magnitude only; the catalog's own figures are tested where the catalog is used.
FIGURES: dict[str, float] = {
    "node.count": 1.0,
    "gpu.count_per_node": 2.0,
    "gpu.power_limit_w": 700.0,
    "gpu.idle_w": 75.0,
    "gpu.busy_overhead_w": 100.0,
    "gpu.energy_j_per_flop": 5e-13,
    "gpu.hbm_energy_j_per_byte": 4e-11,
    "gpu.rent_usd_per_hour": 2.95,
    "cpu.sockets": 2.0,
    "cpu.idle_w": 100.0,
    "cpu.busy_w": 250.0,
    "cpu.tdp_w": 350.0,
    "cpu.energy_j_per_flop": 1e-11,
    "dram.dimms": 16.0,
    "dram.dimm_idle_w": 3.0,
    "dram.dimm_busy_w": 7.0,
    "dram.energy_j_per_byte": 9.6e-11,
    "ndp.count": 16.0,
    "ndp.power_w": 6.0,
    "ndp.energy_j_per_byte": 4.8e-11,
    "ndp.energy_j_per_flop": 1e-12,
    "dimm_link.energy_j_per_byte": 1e-11,
    "cxl.count": 1.0,
    "cxl.idle_w": 40.0,
    "cxl.power_w": 116.0,
    "cxl.energy_j_per_byte": 3.2e-11,
    "cxl.energy_j_per_flop": 9e-13,
    "pcie.energy_j_per_byte": 3.5e-11,
    "scaleup.energy_j_per_byte": 1e-11,
    "network.energy_j_per_byte": 4e-11,
    "nic.count": 1.0,
    "nic.power_w": 20.0,
    "chassis.idle_w": 150.0,
    "chassis.psu_factor": 1.1,
}


class MissingFigure(KeyError):
    pass


class StandIn:
    def __init__(self, **changed: float | None) -> None:
        edits = {path.replace("__", "."): value for path, value in changed.items()}
        self.figures = {k: v for k, v in {**FIGURES, **edits}.items() if v is not None}

    def value(self, path: str) -> float:
        if path not in self.figures:
            raise MissingFigure(path)
        return self.figures[path]

    def get(self, path: str) -> float | None:
        return self.figures.get(path)


@dataclass(frozen=True)
class Row:
    id: str
    total_usd: float | None


BILL = (
    Row("gpu", 60_000.0),
    Row("cpu", 20_000.0),
    Row("dimm", 12_000.0),
    Row("ndp", 3_000.0),
    Row("cxl", 5_000.0),
    Row("nic", 1_000.0),
    Row("chassis", 6_000.0),
)

# Never busy, or for a share of the pass that is worth a time measurement.
share = st.one_of(st.just(0.0), st.floats(0.01, 1))
amount = st.one_of(st.just(0.0), st.floats(1e3, 1e15))
seconds = st.floats(1e-4, 1e3)


@st.composite
def passes(draw: st.DrawFn) -> Activity:
    wall = draw(seconds)
    busy = {f"{device}_busy_s": draw(share) * wall for device in ("gpu", "cpu", "ndp", "cxl")}
    amounts = {
        name: draw(amount)
        for name in (
            *("gpu_flop", "hbm_bytes", "cpu_flop", "dram_bytes", "ndp_flop", "ndp_bytes", "cxl_flop", "cxl_bytes"),
            *("pcie_bytes", "cxl_link_bytes", "scaleup_bytes", "network_bytes", "dimm_link_bytes"),
        )
    }
    return Activity(seconds=wall, tokens=draw(st.floats(1, 1e5)), **busy, **amounts)


@st.composite
def systems(draw: st.DrawFn) -> StandIn:
    """The stand-in with any group of devices absent, and another power limit and power supply."""
    gone: dict[str, float | None] = {
        path: 0.0
        for path in ("gpu__count_per_node", "cpu__sockets", "dram__dimms", "ndp__count", "cxl__count", "nic__count")
        if draw(st.booleans())
    }
    return StandIn(
        gpu__power_limit_w=draw(st.floats(100, 1000)),
        chassis__psu_factor=draw(st.floats(1, 1.3)),
        node__count=draw(st.sampled_from([1.0, 2.0, 9.0])),
        **gone,
    )


economics = st.builds(
    Economics,
    mode=st.sampled_from(["owned", "rented"]),
    life_years=st.floats(0.5, 10),
    busy_share=st.floats(0.01, 1),
    electricity_usd_per_kwh=st.floats(0, 1),
    pue=st.floats(1, 2),
    rent_usd_per_hour=st.one_of(st.none(), st.floats(0, 1000)),
    other_usd_per_month=st.floats(0, 1e5),
)


@st.composite
def consumptions(draw: st.DrawFn, system: StandIn | None = None) -> Consumption:
    decode, prefill = draw(passes()), draw(passes())
    mix = Mix.of(decode, prefill, draw(st.integers(1, 10_000)), draw(st.integers(1, 10_000)))
    return consumption(system or StandIn(), decode, prefill, mix)
