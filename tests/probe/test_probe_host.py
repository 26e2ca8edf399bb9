"""Facts from a recorded tree of /proc and /sys, and what the diagnosis makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.probe import host
from planner.probe.diagnosis import diagnose
from planner.probe.figures import catalog_device, figures_of
from planner.probe.recording import HostFacts, Point, Recording, Series

XEON = "Intel(R) Xeon(R) Platinum 8480+"


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two sockets of two cores with two threads each; CPU 3 is not allowed; a quota of 1.5 CPUs; one module of 16."""
    cpu = host.CPUS
    files = {
        "proc/cpuinfo": f"processor : 0\nmodel name\t: {XEON}\nflags\t\t: fpu avx2 avx512f avx512_vnni",
        "proc/self/status": "Name: x\nCpus_allowed_list:\t0-2,4-7",
        "proc/meminfo": "MemTotal:       16000 kB\nMemAvailable:   8000 kB",
        "proc/loadavg": "0.10 0.20 0.30 1/100 200",
        "sys/fs/cgroup/cpu.max": "150000 100000",
        "sys/fs/cgroup/memory.max": "8192000",
        "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]",
        f"{cpu}/online": "0-7",
        f"{cpu}/cpu0/cpufreq/scaling_governor": "powersave",
        f"{cpu}/cpu0/cpufreq/cpuinfo_max_freq": "3800000",
        "sys/devices/system/node/node0/cpulist": "0,1,4,5",
        "sys/devices/system/node/node1/cpulist": "2,3,6,7",
        "sys/devices/system/edac/mc/mc0/dimm0/size": "65536",
        "sys/devices/system/edac/mc/mc0/dimm1/size": "0",
    }
    for number in range(8):
        files[f"{cpu}/cpu{number}/topology/core_id"] = str(number % 2)
        files[f"{cpu}/cpu{number}/topology/physical_package_id"] = str(number // 2 % 2)
        files[f"{cpu}/cpu{number}/cache/index3/level"] = "3"
        files[f"{cpu}/cpu{number}/cache/index3/size"] = "32M"
        files[f"{cpu}/cpu{number}/cache/index3/shared_cpu_list"] = "0,1,4,5" if number // 2 % 2 == 0 else "2,3,6,7"
    write(tmp_path, files)
    return tmp_path


def test_facts_of_a_recorded_tree(tree):
    found = host.facts(tree)
    assert (found.cpu_name, found.online_cpus, found.allowed_cpus) == (XEON, 8, 7)
    assert (found.cores, found.sockets, found.nodes) == (4, 2, (4, 3))
    assert found.flags == ("avx2", "avx512f", "avx512_vnni")
    assert found.memory_bytes == 8_192_000  # the control group's limit is below the machine's
    assert found.l3_bytes == 64 * 2**20
    assert found.quota_cpus == 1.5
    assert (found.governor, found.huge_pages, found.dimms, found.load) == ("powersave", "never", 1, 0.1)
    assert host.nodes(tree) == {0: [0, 1, 4, 5], 1: [2, 7, 6]}
    assert host.first_threads([0, 1, 4, 5], tree) == [0, 1]


def test_nothing_to_read_is_none_and_not_an_error(tmp_path):
    found = host.facts(tmp_path)
    assert (found.governor, found.quota_cpus, found.huge_pages, found.dimms, found.l3_bytes) == (None,) * 5
    assert found.allowed_cpus == 1


def point(x: float, bytes_per_s: float) -> Point:
    return Point(x=x, bytes=1e9, seconds=(1e9 / bytes_per_s,))


def series(kind: str, rate: float, **labels: object) -> Series:
    return Series(kind=kind, device="cpu", points=(point(2, rate),), **labels)


def recording(facts: HostFacts, *found: Series) -> Recording:
    return Recording(date="2026-01-01", seconds=1, host=facts, series=found)


def test_each_cost_has_its_worth(tree):
    reads = (series("read", 80e9, node=0), series("read", 80e9, node=1), series("read", 120e9))
    others = (series("remote_read", 20e9, node=0), series("smt_read", 100e9), series("huge_read", 90e9),
              series("small_read", 60e9))  # fmt: skip
    facts = host.facts(tree).model_copy(update={"loaded_hz": 1.9e9, "huge_pages": "madvise"})
    found = {f.id: f for f in diagnose(recording(facts, *reads, *others))}
    costs = {name: f.worth for name, f in found.items() if f.state == "costs"}
    assert costs == {
        "amx": None,  # nothing was multiplied, so that its worth is not known
        "channels": 16.0,
        "smt": pytest.approx(1.2),
        "numa": pytest.approx(4.0),
        "quota": pytest.approx(7 / 1.5),
        "cpuset": pytest.approx(8 / 7),
        "governor": pytest.approx(2.0),
        "huge_pages": pytest.approx(1.5),
    }
    assert found["pageable"].state == "unknown"
    assert all(f.how for f in found.values())


def test_amx_that_is_off_is_worth_its_peak_over_what_was_measured(tree):
    product = Series(kind="product", device="cpu", precision="fp32", parameters=1e6,
                     points=(Point(x=64, bytes=4e6, flop=1e9, seconds=(1e-2,)),))  # fmt: skip
    finding = {f.id: f for f in diagnose(recording(host.facts(tree), product))}["amx"]
    assert finding.worth == pytest.approx(4 * 2.0e9 * 1024 / 1e11)
    assert "off" not in finding.sentence or "switch it on" in finding.sentence


def test_two_nodes_give_sum_and_share(tree):
    found = figures_of(
        recording(host.facts(tree), series("read", 80e9, node=0), series("read", 100e9, node=1), series("read", 90e9))
    )
    assert found.figures["dram.bandwidth_bytes_per_s"].value == pytest.approx(180e9)
    assert found.figures["cpu.numa_pair_efficiency"].value == pytest.approx(0.5)
    assert "no product" in found.missing["cpu.vector_efficiency"]


@pytest.mark.parametrize(
    ("kind", "name", "device"),
    [
        ("cpu", XEON, "xeon-8480-plus"),
        ("cpu", "AMD EPYC 9654 96-Core Processor", "epyc-9654"),
        ("cpu", "AMD Ryzen 9 7950X 16-Core Processor", "ryzen-7950x"),
        ("cpu", "Intel(R) Xeon(R) Gold 6330 CPU @ 2.00GHz", "xeon-6330"),
        ("cpu", "AMD EPYC", None),
        ("cpu", "Some CPU 1234", None),
        ("gpu", "NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("gpu", "NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("gpu", "NVIDIA H100 NVL", "h100-nvl-94gb"),
        ("gpu", "NVIDIA H200", "h200-sxm-141gb"),
        ("gpu", "NVIDIA GeForce RTX 4090", "rtx-4090-24gb"),
        ("gpu", "NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("gpu", "NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("gpu", "NVIDIA L40S", "l40s-48gb"),
        ("gpu", "NVIDIA L4", "l4-24gb"),
        ("gpu", "NVIDIA RTX A6000", "rtx-a6000-48gb"),
        ("gpu", "Tesla T4", "t4-16gb"),
        ("gpu", "NVIDIA GeForce RTX 5060 Ti", "rtx-5060-ti-16gb"),
        ("gpu", "AMD Instinct MI300X", "mi300x-192gb"),
        ("gpu", "GeForce 256", None),
    ],
)
def test_names_of_drivers_mean_catalog_devices(kind, name, device):
    found = catalog_device(kind, name)
    assert (found.id if found else None) == device
