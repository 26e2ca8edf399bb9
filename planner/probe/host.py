"""Reads what Linux says about CPU and memory without root. Paths hang on a root, so that recorded trees can be read."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

from planner.probe.recording import HostFacts

FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_tile", "amx_bf16", "amx_int8", "asimd", "sve")
ROOT = Path("/")
CPUS = "sys/devices/system/cpu"


def facts(root: Path = ROOT) -> HostFacts:
    """Facts of this machine. Nothing raises: what cannot be read is None."""
    allowed = allowed_cpus(root)
    cpuinfo = _text(root / "proc/cpuinfo")
    flags = set((_field(cpuinfo, "flags") or _field(cpuinfo, "Features") or "").split())
    cores = {(_package(root, c), _text(root / CPUS / f"cpu{c}/topology/core_id") or c) for c in allowed}
    controllers = list((root / "sys/devices/system/edac/mc").glob("mc*/dimm*/size"))
    maximum = _number(_text(root / CPUS / "cpu0/cpufreq/cpuinfo_max_freq"))
    return HostFacts(
        cpu_name=(_field(cpuinfo, "model name") or platform.processor() or "unknown CPU")[:400],
        flags=tuple(f for f in FLAGS if f in flags),
        online_cpus=len(cpu_list(_text(root / CPUS / "online"))) or os.cpu_count() or 1,
        allowed_cpus=len(allowed),
        cores=len(cores),
        sockets=len({_package(root, c) for c in allowed}),
        nodes=tuple(len(cpus) for cpus in nodes(root).values()),
        memory_bytes=memory_bytes(root)[0],
        l3_bytes=_l3(root),
        quota_cpus=_quota(root),
        governor=_text(root / CPUS / "cpu0/cpufreq/scaling_governor") or None,
        max_hz=maximum * 1e3 if maximum else None,
        huge_pages=_chosen(_text(root / "sys/kernel/mm/transparent_hugepage/enabled")),
        dimms=sum(1 for size in controllers if (_number(_text(size)) or 0) > 0) if controllers else None,
        load=_number(_text(root / "proc/loadavg")),
        virtual="hypervisor" in flags,
    )


def allowed_cpus(root: Path = ROOT) -> list[int]:
    """CPUs that this process may run on."""
    if root == ROOT and hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return cpu_list(_field(_text(root / "proc/self/status"), "Cpus_allowed_list") or "") or [0]


def nodes(root: Path = ROOT) -> dict[int, list[int]]:
    """NUMA node -> its allowed CPUs, one thread of each core first; nodes without any are left out."""
    allowed = allowed_cpus(root)
    found = {}
    for folder in sorted((root / "sys/devices/system/node").glob("node[0-9]*"), key=lambda p: int(p.name[4:])):
        cpus = [c for c in cpu_list(_text(folder / "cpulist")) if c in set(allowed)]
        if cpus:
            found[int(folder.name[4:])] = [*first_threads(cpus, root), *other_threads(cpus, root)]
    return found or {0: [*first_threads(allowed, root), *other_threads(allowed, root)]}


def first_threads(cpus: Iterable[int], root: Path = ROOT) -> list[int]:
    """One CPU of each physical core."""
    seen: dict[tuple[object, object], int] = {}
    for cpu in cpus:
        core = _text(root / CPUS / f"cpu{cpu}/topology/core_id") or cpu
        seen.setdefault((_package(root, cpu), core), cpu)
    return list(seen.values())


def other_threads(cpus: Iterable[int], root: Path = ROOT) -> list[int]:
    """The CPUs that :func:`first_threads` leaves: siblings on a core that is taken."""
    given = list(cpus)
    first = set(first_threads(given, root))
    return [c for c in given if c not in first]


def memory_bytes(root: Path = ROOT) -> tuple[float, float]:
    """Memory of this machine or of the control group, and what of it is free, bytes; zero where neither can be read."""
    info = _text(root / "proc/meminfo")
    total = (_number(_field(info, "MemTotal")) or 0.0) * 1024
    free = (_number(_field(info, "MemAvailable")) or 0.0) * 1024
    if not total and root == ROOT and "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):  # not Linux
        total = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        free = total / 2
    limit = _number(_text(root / "sys/fs/cgroup/memory.max"))
    used = _number(_text(root / "sys/fs/cgroup/memory.current")) or 0.0
    if limit is not None and limit < total:
        return limit, min(free, max(limit - used, 0.0))
    return total, free


def clock_hz(cpus: Iterable[int], root: Path = ROOT) -> float | None:
    """Mean clock that the kernel reports for these CPUs now."""
    read = [_number(_text(root / CPUS / f"cpu{c}/cpufreq/scaling_cur_freq")) for c in cpus]
    known = [r for r in read if r]
    return sum(known) / len(known) * 1e3 if known else None


def cpu_list(text: str) -> list[int]:
    """``0-3,8`` as [0, 1, 2, 3, 8]."""
    found: list[int] = []
    for part in re.findall(r"\d+(?:-\d+)?", text):
        first, _, last = part.partition("-")
        found += range(int(first), min(int(last or first), int(first) + 65_536) + 1)
    return found


def _quota(root: Path) -> float | None:
    limit, _, period = _text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if not limit:
        limit = _text(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        period = _text(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us")
    quota, each = _number(limit), _number(period)
    return quota / each if quota is not None and quota > 0 and each else None


def _l3(root: Path) -> float | None:
    """All last-level caches behind the CPUs, each counted once."""
    seen = {}
    for folder in (root / CPUS).glob("cpu[0-9]*/cache/index[0-9]*"):
        if _text(folder / "level") == "3":
            size = re.fullmatch(r"(\d+)([KMG]?)", _text(folder / "size"))
            if size:
                seen[_text(folder / "shared_cpu_list")] = int(size[1]) * 1024.0 ** " KMG".index(size[2] or " ")
    return sum(seen.values()) or None


def _package(root: Path, cpu: int) -> str:
    return _text(root / CPUS / f"cpu{cpu}/topology/physical_package_id") or "0"


def _chosen(text: str) -> str | None:
    found = re.search(r"\[(\w+)\]", text)
    return found[1] if found else None


def _field(text: str, name: str) -> str | None:
    found = re.search(rf"^{re.escape(name)}\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else None


def _number(text: str | None) -> float | None:
    found = re.match(r"-?\d+(\.\d+)?", text or "")
    return float(found[0]) if found else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:4_000_000].strip()
    except OSError:
        return ""
