"""DeepSeek-V3 (58 MoE layers x 256 experts) at batch 256 under each policy, warm: the routing state is cached.

``figures`` is ``planner.plan`` without ranges and marginal values, which evaluate again with other inputs; ``with
ranges`` adds the intervals, ``everything`` the marginal values too.
"""

from __future__ import annotations

import sys

import planner
from benchmarks.report import Row, median_s, show
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload

AIM_MS = 100.0
# Room for all replicas and originals of DeepSeek-V3: a plan that does not fit would stop early and look fast.
LARGE_CXL = {"cxl.capacity_bytes": 2e12}
MACHINES: dict[str, tuple[str, dict[str, float]]] = {
    "all-gpu": ("8x-h200-sxm", {}),
    "layer-streaming": ("2x-h100-sxm", {}),
    "cpu-experts": ("h100-amx-server", {}),
    "monde": ("h100-cxl-ndp", LARGE_CXL),
    "context-aware": ("h100-cxl-ndp", LARGE_CXL),
    "trimoe": ("trimoe-server", {}),
}


def scenario(policy: str) -> Scenario:
    """DeepSeek-V3 at batch 256 on the machine that this policy is for."""
    system, overrides = MACHINES[policy]
    return Scenario(
        model=ModelChoice(id="deepseek-ai/DeepSeek-V3"),
        system=SystemChoice(id=system, overrides=overrides),
        policy=PolicyChoice(id=policy),
        workload=Workload(batch=256),
    )


def rows(policy: str) -> list[Row]:
    """Figures alone, with ranges, and everything."""
    asked = scenario(policy)
    warm = planner.plan(asked)
    if not warm.headline.fits:
        raise RuntimeError(f"{policy} does not fit: {' '.join(warm.headline.reasons)}")

    def ms(with_ranges: bool, with_marginals: bool, repeats: int) -> float:
        return 1e3 * median_s(
            lambda: planner.plan(asked, with_ranges=with_ranges, with_marginals=with_marginals), repeats
        )

    figures, ranges, everything = ms(False, False, 9), ms(True, False, 3), ms(True, True, 3)
    return [
        Row(f"{policy}, figures", figures, "ms", aim=AIM_MS),
        Row("  with ranges", ranges, "ms", ranges / figures, "figures"),
        Row("  everything", everything, "ms", everything / figures, "figures"),
    ]


def main() -> int:
    return show("A plan of DeepSeek-V3, batch 256, warm", [row for policy in MACHINES for row in rows(policy)])


if __name__ == "__main__":
    sys.exit(main())
