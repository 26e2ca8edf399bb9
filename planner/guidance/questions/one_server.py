"""Can one H100 server with near-data DIMMs replace a cluster of seven or eight H100s for DeepSeek-V2?

The claim that it keeps 95 % of the throughput at a third of the cost is attributed to TriMoE (arXiv 2603.01058).
"""

from __future__ import annotations

from planner.guidance.questions.base import Answer, Option, Planner, Question, capex_usd, rate
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from planner.words.formats import dollars, share, significant

MODEL = ModelChoice(id="deepseek-ai/DeepSeek-V2")
WORK = Workload(batch=512, prompt_tokens=512, output_tokens=256)
CLAIMED_RATE, CLAIMED_PRICE = 0.95, 1 / 3


def _scenarios() -> tuple[tuple[str, Scenario], ...]:
    eight = SystemChoice(id="8x-h100-sxm")
    seven = SystemChoice(id="8x-h100-sxm", overrides={"gpu.count_per_node": 7})
    return (
        (
            "One H100 with 16 near-data DIMMs (TriMoE)",
            Scenario(
                model=MODEL, workload=WORK, system=SystemChoice(id="trimoe-server"), policy=PolicyChoice(id="trimoe")
            ),
        ),
        (
            "Seven H100 in one server, pipeline",
            Scenario(model=MODEL, workload=WORK, system=seven, policy=PolicyChoice(id="all-gpu", pipeline_parallel=7)),
        ),
        (
            "Eight H100 in one server, expert parallel",
            Scenario(model=MODEL, workload=WORK, system=eight, policy=PolicyChoice(id="all-gpu", expert_parallel=True)),
        ),
    )


def _solve(plan: Planner) -> Answer:
    options = tuple(Option(name, plan(scenario)) for name, scenario in _scenarios())
    one, seven, eight = options
    shares = [rate(one.result) / rate(other.result) for other in (seven, eight) if rate(other.result)]
    prices = [_ratio(capex_usd(one.result), capex_usd(other.result)) for other in (seven, eight)]
    holds = bool(shares) and min(shares) >= CLAIMED_RATE and all(p is not None and p <= CLAIMED_PRICE for p in prices)
    verdict = "Yes" if holds else "No"
    spoken = " and ".join(f"{share(ratio)}" for ratio in shares)
    priced = " and ".join(f"{share(price)}" for price in prices if price is not None)
    best = min(options, key=lambda o: o.result.headline.usd_per_million_output_tokens or float("inf"))
    return Answer(
        sentence=f"{verdict}: at batch {WORK.batch} the one server gives {spoken} of the output tokens/s of seven and "
        f"of eight H100s, for {priced} of their price; the claim is 95 % at a third.",
        details=(
            f"{one.name}: {significant(rate(one.result))} output tokens/s for {_price(one)}; "
            f"{eight.name}: {significant(rate(eight.result))} for {_price(eight)}.",
            f"Cheapest per token here: {best.name}, "
            f"{dollars(best.result.headline.usd_per_million_output_tokens or 0.0)} per million output tokens.",
            f"In a decode step the eight GPUs read {_read(eight, 'gpu')} from HBM, the one server {_read(one, 'ndp')} "
            "inside its DIMMs. Near-data memory pays where one server must hold a model that would not fit otherwise.",
        ),
        options=options,
        chosen=options.index(best),
        rests_on="Near-data DIMMs exist in simulation only; their figures are the paper's.",
    )


def _read(option: Option, domain_id: str) -> str:
    """Bytes per second that a domain moves in a decode step, in words."""
    step = option.result.decode
    moved = next((d.bytes for d in step.domains if d.id == domain_id), None) if step is not None else None
    return "an unknown rate" if step is None or not moved else f"{significant(moved / step.total_s / 1e12)} TB/s"


def _ratio(ours: float | None, other: float | None) -> float | None:
    return ours / other if ours and other else None


def _price(option: Option) -> str:
    usd = capex_usd(option.result)
    return "an unknown price" if usd is None else dollars(usd)


QUESTION = Question(
    id="one-server",
    title="Can one H100 server with DIMM-NDP replace seven or eight H100s for DeepSeek-V2?",
    why="The claim is 95 % of the throughput at a third of the cost. Checked at batch 512, prompts of 512 tokens.",
    solve=_solve,
)
