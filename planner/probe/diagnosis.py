"""What costs speed on this machine: each finding with what it is worth and how it was found."""

from __future__ import annotations

from collections.abc import Iterator

from planner.measured_machine import Finding
from planner.probe.figures import catalog_device
from planner.probe.recording import Point, Recording

MATTERS = 1.05  # repeats of a timing on a busy machine differ by a few percent


def diagnose(recording: Recording) -> tuple[Finding, ...]:
    """Findings of every kind, also those that are fine or cannot be known, those that cost most first."""
    checks = (_matrix_unit, _channels, _threads, _numa, _copies, _quota, _cpuset, _governor, _huge_pages, _load)
    found = [finding for check in checks for finding in check(recording)]
    order = {"costs": 0, "unknown": 1, "fine": 2}
    return tuple(sorted(found, key=lambda f: (order[f.state], -(f.worth or 0.0))))


def _matrix_unit(r: Recording) -> Iterator[Finding]:
    device = catalog_device("cpu", r.host.cpu_name)
    if device is None:
        known = "amx_tile" in r.host.flags
        sentence = (
            "AMX is on." if known else f"Whether {r.host.cpu_name} has AMX is not known: it is not in the catalog."
        )
        yield Finding(id="amx", state="fine" if known else "unknown", sentence=sentence, how="flags in /proc/cpuinfo")
    elif device.device_class != "amx":
        yield Finding(id="amx", state="fine", sentence=f"{device.name} has no AMX that could be off.", how="catalog")
    elif "amx_tile" in r.host.flags:
        yield Finding(id="amx", state="fine", sentence="AMX is on.", how="flags in /proc/cpuinfo")
    else:
        cores, clock, each = (
            device.figures[f"cpu.{n}"].value for n in ("cores_per_socket", "base_clock_hz", "bf16_flop_per_cycle")
        )
        vector = max((p.flop_per_s for s in r.find("product", device="cpu") for p in s.points), default=None)
        worth = None
        if cores and clock and each and vector:
            usable = min(r.host.cores, cores * max(r.host.sockets, 1))
            worth = usable * clock * each / vector
        yield Finding(
            id="amx",
            state="costs",
            worth=worth,
            sentence=f"{device.name} has AMX, but this system does not show it: switch it on in firmware, "
            "hypervisor or kernel.",
            how="flags in /proc/cpuinfo lack amx_tile; worth = AMX peak of the cores over the fastest measured "
            "product, prefill only",
        )


def _channels(r: Recording) -> Iterator[Finding]:
    device = catalog_device("cpu", r.host.cpu_name)
    figure = device.figures.get("cpu.memory_channels") if device else None
    channels = figure.value * max(r.host.sockets, 1) if figure and figure.value else None
    if r.host.dimms is None or r.host.virtual:
        yield Finding(
            id="channels",
            state="unknown",
            sentence="Whether a memory channel is empty cannot be read without root.",
            how="the memory controller (EDAC) reports nothing here, and dmidecode needs root: sudo dmidecode -t memory "
            "lists empty slots as No Module Installed",
        )
    elif channels is None:
        yield Finding(
            id="channels",
            state="unknown",
            how="EDAC in /sys",
            sentence=f"{r.host.dimms} modules; how many channels {r.host.cpu_name} has is not in the catalog.",
        )
    elif r.host.dimms < channels:
        yield Finding(
            id="channels",
            state="costs",
            worth=channels / max(r.host.dimms, 1),
            sentence=f"{r.host.dimms} memory modules for {channels:.0f} channels: at least one channel is empty.",
            how="modules in /sys (EDAC) against the catalog's channels; worth = channels over modules",
        )
    else:
        yield Finding(
            id="channels",
            state="fine",
            how="modules in /sys (EDAC) against the catalog's channels",
            sentence=f"{r.host.dimms} memory modules for {channels:.0f} channels.",
        )


def _threads(r: Recording) -> Iterator[Finding]:
    if r.host.allowed_cpus <= r.host.cores:
        yield Finding(id="smt", state="fine", sentence="Each CPU here is a core of its own.", how="topology in /sys")
        return
    both, one = r.find("smt_read"), _all_nodes(r)
    if not both or one is None:
        yield Finding(
            id="smt",
            state="unknown",
            sentence="Cores have several threads; reads with them were not timed.",
            how="topology in /sys",
        )
        return
    worth = one / both[0].points[0].bytes_per_s
    yield Finding(
        id="smt",
        state="costs" if worth > MATTERS else "fine",
        worth=worth,
        sentence="Use one thread per core for expert kernels."
        if worth > MATTERS
        else "All threads of a core read about as fast as one per core.",
        how="streaming read with one thread per core over the same with all threads",
    )


def _all_nodes(r: Recording) -> float | None:
    together = [s for s in r.find("read") if s.node is None] or r.find("read")
    return max((p.bytes_per_s for s in together for p in s.points), default=None)


def _numa(r: Recording) -> Iterator[Finding]:
    if len(r.host.nodes) < 2:
        yield Finding(id="numa", state="fine", sentence="There is one NUMA node.", how="nodes in /sys")
        return
    far = r.find("remote_read")
    near = r.find("read", node=far[0].node) if far else []
    if not near:
        yield Finding(
            id="numa", state="unknown", sentence="Reads from another NUMA node were not timed.", how="nodes in /sys"
        )
        return
    here = max(p.bytes_per_s for p in near[0].points)
    worth = here / far[0].points[0].bytes_per_s
    yield Finding(
        id="numa",
        state="costs" if worth > MATTERS else "fine",
        worth=worth,
        sentence=f"A core reads its own node {worth:.2g} times as fast as a far one: keep experts and threads together "
        "(numactl, or an engine that is NUMA-aware).",
        how="streaming read of local over that of remote memory",
    )


def _copies(r: Recording) -> Iterator[Finding]:
    rates: dict[str, float] = {}
    for memory in ("pinned", "pageable"):
        for series in r.find("copy", memory=memory, direction="to_gpu"):
            rates[memory] = max(p.bytes_per_s for p in series.points)
    if len(rates) < 2:
        yield Finding(
            id="pageable",
            state="unknown",
            sentence="Copies to a GPU were not timed.",
            how=r.gaps.get("GPU", r.gaps.get("copies over the link", "no GPU was measured")),
        )
        return
    worth = rates["pinned"] / rates["pageable"]
    yield Finding(
        id="pageable",
        state="costs" if worth > MATTERS else "fine",
        worth=worth,
        sentence=f"Copies from pageable memory reach {rates['pageable'] / 1e9:.3g} GB/s, from pinned "
        f"{rates['pinned'] / 1e9:.3g}: an engine that does not pin is planned with "
        f"system.overrides.pcie.copy_limit_bytes_per_s={rates['pageable']:.3g}.",
        how="largest copies to the GPU, both kinds timed",
    )


def _quota(r: Recording) -> Iterator[Finding]:
    quota, cpus = r.host.quota_cpus, r.host.allowed_cpus
    if quota is None or quota >= cpus:
        yield Finding(
            id="quota", state="fine", sentence="No control group limits CPU time here.", how="cpu.max of cgroup"
        )
        return
    yield Finding(
        id="quota",
        state="costs",
        worth=cpus / quota,
        sentence=f"The control group allows {quota:.3g} of {cpus} CPUs; threads beyond that are stopped in turn.",
        how="cpu.max of cgroup; worth = CPUs over quota, for work bound by compute",
    )


def _cpuset(r: Recording) -> Iterator[Finding]:
    online, allowed = r.host.online_cpus, r.host.allowed_cpus
    state = "costs" if allowed < online else "fine"
    yield Finding(
        id="cpuset",
        state=state,
        worth=online / allowed if allowed and state == "costs" else None,
        sentence=f"This process may use {allowed} of {online} CPUs.",
        how="affinity of the process; worth = CPUs over allowed ones, for work bound by compute",
    )


def _governor(r: Recording) -> Iterator[Finding]:
    if r.host.governor is None:
        yield Finding(
            id="governor",
            state="unknown",
            sentence="The frequency governor cannot be read here.",
            how="cpufreq in /sys",
        )
        return
    worth = r.host.max_hz / r.host.loaded_hz if r.host.max_hz and r.host.loaded_hz else None
    slow = r.host.governor != "performance" and (worth is None or worth > MATTERS)
    yield Finding(
        id="governor",
        state="costs" if slow else "fine",
        worth=worth,
        sentence=f"The frequency governor is {r.host.governor}"
        + ("; performance keeps the clock up between bursts of work." if slow else "."),
        how="cpufreq in /sys; worth = highest clock over the one read while all cores worked (an all-core limit "
        "counts into it)",
    )


def _huge_pages(r: Recording) -> Iterator[Finding]:
    huge, small = r.find("huge_read"), r.find("small_read")
    if r.host.huge_pages is None or not huge or not small:
        yield Finding(id="huge_pages", state="unknown", sentence="Huge pages could not be asked for.", how="madvise")
        return
    worth = _rate(huge[0].points[0]) / _rate(small[0].points[0])
    off = r.host.huge_pages == "never"
    state = "costs" if worth > MATTERS and r.host.huge_pages != "always" else "fine"
    yield Finding(
        id="huge_pages",
        state="unknown" if off else state,
        worth=None if off else worth,
        sentence=f"Transparent huge pages are set to {r.host.huge_pages}; "
        + (
            "what they are worth cannot be timed."
            if off
            else "only programs that ask get them."
            if r.host.huge_pages == "madvise"
            else "programs get them by themselves."
        ),
        how="streaming read with huge pages over the same with small ones; random reads gain more",
    )


def _rate(point: Point) -> float:
    return point.bytes_per_s


def _load(r: Recording) -> Iterator[Finding]:
    if r.host.load is None:
        return
    busy = r.host.load > 0.2 * max(r.host.allowed_cpus, 1)
    yield Finding(
        id="load",
        state="costs" if busy else "fine",
        sentence=f"{r.host.load:.3g} programs wanted a CPU before the probe began"
        + ("; measure again on an idle machine." if busy else "."),
        how="load average of the last minute; fastest repeats are used, which hides short disturbances only",
    )
