"""From a recording to figures of the hardware catalog, and to what could not be measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hardware import Device, devices, path_schema
from hardware.derive import lane_rate_bytes_per_s
from planner.measured_machine import MeasuredFigure
from planner.physics.operation import Array
from planner.probe import laws
from planner.probe.recording import Point, Recording, Series

FULL_SHARE = 1.0


@dataclass
class Found:
    """Figures by path, and the paths that keep their datasheet value with the reason."""

    figures: dict[str, MeasuredFigure] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def put(self, path: str, value: float, source: str, low: float | None = None, high: float | None = None) -> None:
        """A figure, its range at least the value itself and inside what the catalog accepts."""
        spec = _SPECS[path]
        if not spec.lower <= value <= spec.upper:
            self.missing[path] = f"measured as {value:.4g} {spec.unit}, which the catalog does not accept"
            return
        ends = [value, *(e for e in (low, high) if e is not None)]
        below, above = max(min(ends), spec.lower), min(max(ends), spec.upper)
        self.figures[path] = MeasuredFigure(value=value, low=below, high=above, source=source)
        self.missing.pop(path, None)

    def gap(self, why: str, *paths: str) -> None:
        for path in paths:
            if path not in self.figures:
                self.missing[path] = why


_SPECS = {spec.path: spec for spec in path_schema()}


def catalog_device(kind: str, name: str) -> Device | None:
    """The one catalog device that a name of the operating system or driver means, or None.

    All words of the device's name (maker, form and memory size apart) must stand in ``name``; the device with the most
    words there wins, and of several with as many none does.
    """
    words = _words(name)
    ranked = []
    for device in devices():
        if device.kind != kind:
            continue
        for alias in (device.name, *device.aliases):
            alike = _words(alias)
            wanted = {w for w in alike - _LOOSE if not _is_size(w)}
            if wanted and wanted <= words and any(any(c.isdigit() for c in w) for w in wanted):
                ranked.append((len(alike & words), device.id, device))
    if not ranked:
        return None
    most = max(ranked, key=lambda r: r[0])[0]
    best = {device_id: device for count, device_id, device in ranked if count == most}
    return next(iter(best.values())) if len(best) == 1 else None


_LOOSE = {"nvidia", "amd", "intel", "tesla", "gpu", "one", "platinum", "gold", "sxm", "sxm4", "sxm5", "per"}


def _is_size(word: str) -> bool:
    return word.endswith("gb") and word[:-2].isdigit()


def _words(name: str) -> set[str]:
    text = name.lower().replace("(r)", " ").replace("(tm)", " ")
    for mark in "(),/-_@":
        text = text.replace(mark, " ")
    return {w for w in text.split() if w not in ("cpu", "processor")}


def figures_of(recording: Recording, precision: str | None = None, tokens: Sequence[float] = ()) -> Found:
    """Everything that the recording supports; with ``precision`` the law of the CPU's products in that one.

    Without it, bytes are read as the fastest kernel at few tokens reads them, which is what engines aim at. A library
    can be far slower between few and many tokens; with ``precision`` its own curve decides on the bytes as well,
    each point with the weight of the ``tokens`` per expert that lie nearest to it.
    """
    found = Found()
    _memory(found, recording)
    _cpu(found, recording, precision, tokens)
    _gpu(found, recording)
    _link(found, recording)
    found.gap(
        "the cores of an engine, its hand-over and attention kernels are its own",
        "cpu.layer_sync_s",
        "cpu.low_bit_extra_bits",
        "cpu.kv_bandwidth_efficiency",
        "gpu.kv_bandwidth_efficiency",
        "gpu.step_overhead_s",
    )
    return found


def _memory(found: Found, recording: Recording) -> None:
    host = recording.host
    if host.memory_bytes:
        found.put("dram.capacity_bytes", host.memory_bytes, "read from the operating system")
    else:
        found.gap("the operating system does not say", "dram.capacity_bytes")
    nodes = [s for s in recording.find("read", device="cpu") if s.node is not None]
    if not nodes:
        found.gap("no streaming read was timed", "dram.bandwidth_bytes_per_s", "dram.read_efficiency")
        return
    best = [max(s.points, key=lambda p: p.bytes_per_s) for s in nodes]
    alone = sum(p.bytes_per_s for p in best)
    usual = sum(p.bytes / p.median_s for p in best)
    threads = sum(round(p.x) for p in best)
    where = f"{len(nodes)} NUMA node{'s, each alone, summed' if len(nodes) > 1 else ''}"
    found.put(
        "dram.bandwidth_bytes_per_s", alone, f"streaming read, {threads} threads, {where}; fastest repeat", low=usual
    )
    together = [s for s in recording.find("read", device="cpu") if s.node is None]
    if together and host.sockets > 1:
        share = min(1.0, together[0].points[0].bytes_per_s / alone)
        found.put(
            "cpu.numa_pair_efficiency", share, "all nodes read their own memory at once, over the sum of each alone"
        )
    elif host.sockets > 1:
        found.gap("all nodes together were not read", "cpu.numa_pair_efficiency")


def _cpu(found: Found, recording: Recording, precision: str | None, tokens: Sequence[float]) -> None:
    host = recording.host
    found.put("cpu.sockets", max(host.sockets, 1), "read from the operating system")
    cores = max(1, host.cores // max(host.sockets, 1))
    found.put("cpu.cores_per_socket", cores, "physical cores that this process may use, of one socket")
    paths = ("cpu.vector_flop_per_s", "cpu.vector_efficiency", "cpu.overlap", "dram.read_efficiency")
    products = [s for s in recording.find("product", device="cpu") if s.precision in ("fp32", "bf16")]
    products = [s for s in products if precision in (None, s.precision)]
    if not products:
        found.gap("no product was timed on the CPU", *paths)
        return
    matrix = "amx_tile" in host.flags
    vector = [s for s in products if s.precision == "fp32" or not matrix]
    chosen = max(vector, key=lambda s: s.points[-1].flop_per_s)
    # Few tokens wait for bytes alone; libraries are slow between that and many tokens, which must not pass for bytes.
    own = max(p.bytes_per_s for p in chosen.points)
    most = max(p.flop_per_s for p in chosen.points)
    low, high = (own if precision is None else own / 50, most / 3, 1.0), (own, most * 20, 2.0)
    (stream, rate, overlap), misfit, ranges = _expert_law(chosen, laws.cpu_law, low, high, tokens)
    note = f"fitted to {chosen.precision} expert products at {len(chosen.points)} token counts by {chosen.how}"
    note += f", median misfit {misfit:.0%}"
    dense = [s.points[0].flop_per_s for s in recording.find("dense", device="cpu")]
    peak = max([rate, *(p.flop_per_s for p in chosen.points), *dense])
    sockets = max(host.sockets, 1)
    found.put("cpu.vector_flop_per_s", peak / sockets, f"fastest product of {chosen.how}, all cores, over sockets")
    found.put("cpu.vector_efficiency", min(1.0, rate / peak), note, *(min(1.0, r / peak) for r in ranges[1]))
    found.put("cpu.overlap", min(1.0, max(0.0, overlap - 1.0)), note, *(min(1.0, max(0.0, r - 1)) for r in ranges[2]))
    if sockets > 1:  # the products ran on all sockets, so that their loss is in the rate already
        found.put("cpu.numa_compute_efficiency", 1.0, "products were timed on all sockets together")
    bandwidth = found.figures.get("dram.bandwidth_bytes_per_s")
    if bandwidth:
        pair = found.figures.get("cpu.numa_pair_efficiency")
        reach = bandwidth.value * (pair.value if pair else 1.0)
        if precision is None:
            fastest = max((p for s in products for p in s.points), key=lambda p: p.bytes_per_s)
            what = f"weights of an expert with {fastest.x:.0f} token{'s' if fastest.x > 1 else ''}, fastest library"
            shares = (fastest.bytes_per_s / reach, fastest.bytes / fastest.median_s / reach)
        else:
            what, shares = note, (stream / reach, ranges[0][0] / reach)
        found.put("dram.read_efficiency", min(1.0, shares[0]), f"{what}, over the streaming read", min(1.0, shares[1]))
    tiles = [s for s in recording.find("product", device="cpu", precision="bf16") if matrix]
    if tiles:
        best = max(p.flop_per_s for p in tiles[0].points)
        found.put("cpu.bf16_flop_per_s", best / sockets, f"fastest bf16 product on the matrix unit by {tiles[0].how}")
        found.put("cpu.matrix_efficiency", FULL_SHARE, "the rate above is an achieved one")
    elif matrix:
        found.gap("bf16 products on the matrix unit need torch", "cpu.bf16_flop_per_s", "cpu.matrix_efficiency")


Law = Callable[[Sequence[float], float, float], Callable[[Array], Array]]


def _expert_law(
    series: Series, law: Law, low: Sequence[float], high: Sequence[float], tokens: Sequence[float] = ()
) -> tuple[tuple[float, ...], float, list[tuple[float, float]]]:
    """Coefficients at the fastest repeats, the misfit, and the ends over fastest and median repeats."""
    points = series.points
    function = law([p.x for p in points], points[0].bytes, series.parameters or 1.0)
    weights = _nearest([p.x for p in points], tokens)
    best = laws.fit(function, low, high, [p.best_s for p in points], weights)
    usual = laws.fit(function, low, high, [p.median_s for p in points], weights)
    ranges = [(min(pair), max(pair)) for pair in zip(best.values, usual.values, strict=True)]
    return best.values, best.misfit, ranges


def _nearest(measured: Sequence[float], tokens: Sequence[float]) -> list[float] | None:
    """Weight of each measured point: share of ``tokens`` nearest to it, and a little so that no point is forgotten."""
    if not len(tokens):
        return None
    apart = np.abs(np.log(np.asarray(tokens, float))[:, None] - np.log(measured)[None, :])
    share = np.bincount(apart.argmin(axis=1), minlength=len(measured)) / len(tokens)
    return [float(s) + 0.02 for s in share]


def _gpu(found: Found, recording: Recording) -> None:
    paths = (
        "gpu.bandwidth_efficiency",
        "gpu.compute_efficiency_max",
        "gpu.compute_half_tokens",
        "gpu.overlap",
        "gpu.layer_launch_s",
        "gpu.layer_launch_eager_s",
    )
    if recording.gpu is None:
        found.gap(recording.gaps.get("GPU", "no GPU was measured"), *paths)
        return
    found.put("gpu.count_per_node", recording.gpu.count, "read from the driver")
    found.put("gpu.memory_capacity_bytes", recording.gpu.memory_bytes, "read from the driver")
    device = catalog_device("gpu", recording.gpu.name)
    products = recording.find("product", device="gpu", precision="bf16")
    if products:
        series = _without_launch(products[0], recording)
        own, most = max(p.bytes_per_s for p in series.points), max(p.flop_per_s for p in series.points)
        # Silicon without BF16 has an FP16 rate alone, which is what its products ran at.
        rates = [p for p in ("gpu.bf16_flop_per_s", "gpu.fp16_flop_per_s") if _stated(device, p)]
        peak = rates[0] if rates else "gpu.bf16_flop_per_s"
        stated = _stated(device, peak)
        top = stated if stated and stated > most else most * 3
        low, high = (own / 3, most / 2, 1.0, 1.0), (own * 3, top, 2000.0, 2.0)
        (stream, rate, half, overlap), misfit, ranges = _expert_law(series, laws.gpu_law, low, high)
        note = f"fitted to bf16 expert products, launch taken off, at {len(series.points)} token counts by {series.how}"
        note += f", median misfit {misfit:.0%}"
        read = [s.points[0].bytes_per_s for kind in ("hbm_read", "hbm_copy") for s in recording.find(kind)]
        _share(
            found,
            device,
            "gpu.bandwidth_efficiency",
            "gpu.memory_bandwidth_bytes_per_s",
            stream,
            f"weights of few tokens, {note}",
            ranges[0],
            max([stream, *read]),
        )
        _share(found, device, "gpu.compute_efficiency_max", peak, rate, note, ranges[1], rate)
        found.put("gpu.compute_half_tokens", half - 1.0, note, *(r - 1.0 for r in ranges[2]))
        found.put(
            "gpu.overlap", min(1.0, max(0.0, overlap - 1.0)), note, *(min(1.0, max(0.0, r - 1)) for r in ranges[3])
        )
    else:
        found.gap(recording.gaps.get("GPU products in bf16", "not timed"), *paths[:4])
    for kind, path in (("layer_graph", "gpu.layer_launch_s"), ("layer_eager", "gpu.layer_launch_eager_s")):
        layers = recording.find(kind)
        if layers:
            point = layers[0].points[0]
            what = f"a layer of {point.x:.0f} small kernels by {layers[0].how}; an engine adds its own"
            found.put(path, point.best_s, what, high=point.median_s)
        else:
            found.gap(recording.gaps.get("launch of a layer", "not timed"), path)


def _without_launch(series: Series, recording: Recording) -> Series:
    """Products less the fixed time of a small kernel in a graph, which the planner books by layer."""
    layers = [s.points[0] for s in recording.find("layer_graph")]
    fixed = layers[0].best_s / layers[0].x if layers else 0.0
    points = tuple(
        p.model_copy(update={"seconds": tuple(max(s - fixed, 0.2 * s) for s in p.seconds)}) for p in series.points
    )
    return series.model_copy(update={"points": points})


def _stated(device: Device | None, path: str) -> float | None:
    """What the datasheet of a device says."""
    figure = device.figures.get(path) if device else None
    return figure.value if figure else None


def _share(
    found: Found,
    device: Device | None,
    share: str,
    peak: str,
    rate: float,
    note: str,
    ends: tuple[float, float],
    fastest: float,
) -> None:
    """An achieved rate as share of the datasheet's; where there is none (or it is beaten), of the fastest measured."""
    stated = _stated(device, peak)
    top = stated if stated and stated >= fastest else None
    if top is None:
        why = "faster than the datasheet's" if stated else "no datasheet figure is known for this part"
        found.put(peak, fastest, f"fastest measured; {why}")
        top = fastest
    found.put(share, min(1.0, rate / top), note, *(min(1.0, end / top) for end in ends))


def _link(found: Found, recording: Recording) -> None:
    pinned = recording.find("copy", memory="pinned", direction="to_gpu")
    if not pinned:
        why = recording.gaps.get("copies over the link", recording.gaps.get("GPU", "not timed"))
        found.gap(why, "pcie.efficiency", "pcie.latency_s")
        return
    latency, rate, note, low = _copy_law(pinned[0].points)
    found.put("pcie.latency_s", latency, note)
    gpu = recording.gpu
    if gpu and gpu.link_generation and gpu.link_lanes and 3 <= gpu.link_generation <= 6:
        peak = gpu.link_lanes * lane_rate_bytes_per_s(gpu.link_generation)
        if peak >= rate:
            found.put("pcie.generation", gpu.link_generation, "read from the driver")
            found.put("pcie.lanes", gpu.link_lanes, "read from the driver")
            found.put("pcie.efficiency", rate / peak, note, low / peak)
            return
    found.put("pcie.bandwidth_bytes_per_s", rate, f"achieved; generation and lanes are not known: {note}", low)
    found.put("pcie.efficiency", FULL_SHARE, "the rate above is an achieved one")


def _copy_law(points: Sequence[Point]) -> tuple[float, float, str, float]:
    best = laws.line([p.x for p in points], [p.best_s for p in points])
    usual = laws.line([p.x for p in points], [p.median_s for p in points])
    note = f"pinned copies to the GPU of {len(points)} sizes, fitted as latency + size / rate, misfit {best.misfit:.0%}"
    return best.values[0], best.values[1], note, usual.values[1]
