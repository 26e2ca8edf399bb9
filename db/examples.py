"""Two scenarios that a new store begins with. Only the questions: the answers are computed when opened."""

from __future__ import annotations

from typing import NamedTuple

from db.store import Store
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload


class Example(NamedTuple):
    key: str
    name: str
    note: str
    scenario: Scenario


EXAMPLES = (
    Example(
        "example/mixtral-on-two-h100",
        "Mixtral-8x7B on two H100",
        "Everything in GPU memory: what the published BF16 weights do on two cards.",
        Scenario(
            model=ModelChoice(id="mistralai/Mixtral-8x7B-v0.1"),
            system=SystemChoice(id="2x-h100-sxm"),
            policy=PolicyChoice(id="all-gpu"),
            workload=Workload(batch=32, prompt_tokens=1024, output_tokens=256),
        ),
    ),
    Example(
        "example/deepseek-v2-on-trimoe",
        "DeepSeek-V2 on a TriMoE server",
        "Hot experts on the GPU, warm ones on the CPU, cold ones computed in the DIMMs, at a large batch.",
        Scenario(
            model=ModelChoice(id="deepseek-ai/DeepSeek-V2"),
            system=SystemChoice(id="trimoe-server"),
            policy=PolicyChoice(id="trimoe"),
            workload=Workload(batch=512, prompt_tokens=512, output_tokens=256),
        ),
    ),
)


def install_examples(store: Store) -> int:
    """Save each example that this store never had, and return how many that were.

    One that was deleted does not come back. The first example is added last, so that it leads the list.
    """
    return sum(store.add_once(each.key, each.scenario, each.name, each.note) for each in reversed(EXAMPLES))
