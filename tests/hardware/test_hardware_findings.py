"""What a bill of materials cannot be is said in one sentence each; what is possible is not remarked upon."""

from __future__ import annotations

import pytest

from hardware import load_system


@pytest.mark.parametrize(
    ("system_id", "overrides", "words"),
    [
        ("2x-h100-sxm", {"dram.mt_per_s": 5600}, "runs 4800 MT/s there"),
        ("2x-h100-sxm", {"dram.mt_per_s": 4800, "dram.dimms_per_channel": 2}, "runs 4400 MT/s there"),
        ("2x-h100-sxm", {"dram.module_mt_per_s": 4000, "dram.mt_per_s": 4800}, "sold for 4000 MT/s"),
        ("2x-h100-sxm", {"dram.dimms_per_channel": 3}, "takes two at most"),
        ("gh200", {"dram.dimms_per_channel": 2}, "rated for one only"),
        ("2x-h100-sxm", {"dram.channels_per_socket": 12}, "has 8"),
        ("2x-h100-sxm", {"dram.channels_per_socket": 7}, "Only 7 of the 8 memory channels"),
        ("2x-h100-sxm", {"dram.bandwidth_bytes_per_s": 1e12}, "more than its channels carry (614.4 GB/s)"),
        ("2x-h100-sxm", {"dram.dimms": 20}, "do not fill 16 slots"),
        ("2x-h100-sxm", {"dram.ranks_per_dimm": 3}, "3 ranks per DIMM"),
        ("2x-h100-sxm", {"dram.ranks_per_dimm": 8, "dram.dimms_per_channel": 2}, "16 ranks on one channel"),
        ("2x-h100-sxm", {"ndp.count": 17}, "17 NDP DIMMs, but the node has 16 DIMMs"),
        ("2x-h100-sxm", {"ndp.count": 8, "ndp.internal_bandwidth_bytes_per_s": 2e11}, "more than its 2 ranks deliver"),
        ("2x-h100-sxm", {"cxl.count": 8}, "176 PCIe lanes are needed"),
        ("desktop-rtx4090", {"cxl.count": 1}, "but the CPUs offer 24"),
        ("2x-h100-sxm", {"pcie.bandwidth_bytes_per_s": 64e9}, "carries 63 GB/s"),
        ("2x-h100-sxm", {"pcie.host_uplinks": 4}, "4 host uplinks for 2 GPUs"),
        ("epyc-rtx5090", {"node.count": 2}, "without a NIC"),
        ("2x-h100-sxm", {"gpu.fp4_flop_per_s": 4e15}, "no FP4 mode"),
        ("2x-mi300x", {"cpu.bf16_flop_per_s": 1e14}, "has no matrix unit"),
        ("2x-h100-sxm", {"gpu.power_limit_w": 900}, "above the board's 700 W"),
        ("2x-h100-sxm", {"gpu.power_limit_w": 50}, "not above the idle power"),
    ],
)
def test_the_impossible_is_said_in_one_sentence(system_id, overrides, words):
    before = load_system(system_id).findings
    added = [finding for finding in load_system(system_id, overrides).findings if finding not in before]
    assert any(words in finding for finding in added), added
    assert all(finding.endswith(".") and "\n" not in finding for finding in added)


@pytest.mark.parametrize(
    ("system_id", "overrides"),
    [
        ("2x-h100-sxm", {"dram.mt_per_s": 4800}),
        ("2x-h100-sxm", {"dram.dimms_per_channel": 2, "dram.mt_per_s": 4400}),
        ("2x-h100-sxm", {"ndp.count": 16}),
        ("2x-h100-sxm", {"cxl.count": 6}),
        ("8x-h100-sxm", {"pcie.host_uplinks": 4}),
        ("2x-h100-sxm", {"gpu.power_limit_w": 400}),
        ("8x-h200-sxm", {"node.count": 4}),
        ("8x-b200-sxm", {"gpu.fp4_flop_per_s": 8e15}),
    ],
)
def test_the_possible_is_not_remarked_upon(system_id, overrides):
    assert load_system(system_id, overrides).findings == ()
