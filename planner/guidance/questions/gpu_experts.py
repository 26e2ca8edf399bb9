"""How many experts of each layer should an RTX 5090 hold for Qwen3-235B-A22B?"""

from __future__ import annotations

from models import expert_bytes, load
from planner.guidance.questions.base import Answer, Option, Planner, Question, rate
from planner.physics.memory import largest
from planner.result import Result
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from planner.words.formats import share, significant

EXPERTS = 128
STEP = 4
FORMAT = "gguf-q4_k"
NEARLY = 0.9
"""Share of the whole gain that counts as nearly all of it."""


def _scenario(resident: int) -> Scenario:
    return Scenario(
        model=ModelChoice(id="Qwen/Qwen3-235B-A22B", weight_format=FORMAT),
        system=SystemChoice(id="epyc-rtx5090"),
        workload=Workload(batch=1, prompt_tokens=8192, output_tokens=1024),
        policy=PolicyChoice(id="cpu-experts", expert_format=FORMAT, gpu_experts_per_layer=resident),
    )


def largest_that_fits(plan: Planner) -> int:
    """Most resident experts per layer that fit, by bisection; -1 where not even none does."""
    most = largest(lambda count: plan(_scenario(count)).headline.fits, EXPERTS)
    return most or (0 if plan(_scenario(0)).headline.fits else -1)


def _solve(plan: Planner) -> Answer:
    most = largest_that_fits(plan)
    counts = sorted({*range(0, most + 1, STEP), max(most, 0)})
    results: list[Result] = [plan(_scenario(count)) for count in counts]
    options = [
        Option(f"{count} of {EXPERTS} experts per layer", found) for count, found in zip(counts, results, strict=True)
    ]
    if most < 0:
        return Answer("None: not even attention and the KV cache fit.", (), tuple(options), 0)
    rates = [rate(found) for found in results]
    best = max(range(len(rates)), key=rates.__getitem__)
    gain = rates[best] - rates[0]
    nearly = next(i for i, value in enumerate(rates) if value >= rates[0] + NEARLY * gain)
    over = plan(_scenario(min(most + 1, EXPERTS)))
    options.append(Option(f"{min(most + 1, EXPERTS)} of {EXPERTS} experts per layer", over, "one more does not fit"))
    per_expert = gain / rates[0] / counts[best] if counts[best] else 0.0
    return Answer(
        sentence=f"{counts[best]} of {EXPERTS} per layer: {significant(rates[best])} tokens/s, "
        f"{share(rates[best] / rates[0] - 1)} more than with none ({significant(rates[0])}); "
        f"{counts[nearly]} give nine tenths of that gain.",
        details=(
            f"At most {most} fit beside attention and the KV cache of 9,216 tokens. Each resident expert brings "
            f"{share(per_expert)} in the mean: the CPU's memory stays the bottleneck, whatever the GPU holds.",
            "What is left of the card's memory may be worth more as context: each expert per layer weighs "
            f"{_expert_gb(results[0]):.2f} GB over all layers.",
        ),
        options=tuple(options),
        chosen=best,
        rests_on="Decode of CPU experts is held against measurements: the Accuracy page shows the errors.",
    )


def _expert_gb(found: Result) -> float:
    arch = load(found.scenario.model.id)
    return expert_bytes(arch, FORMAT) * len(arch.moe_layers) / 1e9


QUESTION = Question(
    id="gpu-experts",
    title="How many experts should an RTX 5090 hold for Qwen3-235B-A22B?",
    why="One user, 8,192 prompt tokens, 4-bit weights, an EPYC 9355 with 12 channels of DDR5-6400 beside the card.",
    solve=_solve,
)
