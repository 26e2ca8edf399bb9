"""2 bit or 3 bit on CXL-NDP for Mixtral-8x22B? The machine and the policy of arXiv 2512.04476."""

from __future__ import annotations

from planner.guidance.questions.base import Answer, Option, Planner, Question, rate
from planner.result import Result
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from planner.words.formats import share, significant
from planner.words.names import bound

BITS = (2.0, 3.0, 4.0)


def _scenario(bits: float, batch: int) -> Scenario:
    return Scenario(
        model=ModelChoice(id="mistralai/Mixtral-8x22B-v0.1"),
        system=SystemChoice(id="h100-cxl-ndp"),
        workload=Workload(batch=batch, prompt_tokens=1024, output_tokens=256),
        policy=PolicyChoice(id="context-aware", weight_bits=bits),
    )


def _solve(plan: Planner) -> Answer:
    options = []
    for batch in (1, 16):
        options += [
            Option(f"{bits:g} bit, batch {batch}", found := plan(_scenario(bits, batch)), _quality(found))
            for bits in BITS
        ]
    two, three, *_ = options
    many_two, many_three = options[len(BITS)], options[len(BITS) + 1]
    gains = [rate(a.result) / rate(b.result) - 1 for a, b in ((two, three), (many_two, many_three)) if rate(b.result)]
    choose_two = max(gains, default=0.0) > 0.10
    loss = three.small
    return Answer(
        sentence=(
            f"{'2 bit, if its loss is acceptable' if choose_two else '3 bit'}: 2 bit is "
            f"{share(gains[0])} faster at batch 1 and {share(gains[1])} at batch 16."
            if len(gains) == 2
            else "One of the plans does not fit; see the table."
        ),
        details=(
            f"At 3 bit: {loss}",
            f"At 2 bit: {two.small}",
            f"At batch 1, 3 bit gives {significant(rate(three.result))} tokens/s and waits for {_bound(three)}, 2 bit "
            f"for {_bound(two)}: fewer bits are faster only while memory is what a step waits for.",
        ),
        options=tuple(options),
        chosen=0 if choose_two else 1,
        rests_on="CXL-NDP of this size exists in simulation only. Losses of a model are known only from its own loss "
        "table (planner losses); the surrogate was fitted to five published points of Mixtral-8x7B.",
    )


def _bound(option: Option) -> str:
    limit = option.result.headline.bound_by
    return "nothing: it does not fit" if limit is None else bound(limit)


def _quality(found: Result) -> str:
    quality = found.details.quality if found.details is not None else None
    return quality.sentence if quality is not None else "accuracy not known."


QUESTION = Question(
    id="bits-on-cxl",
    title="2 bit or 3 bit on CXL-NDP for Mixtral-8x22B?",
    why="Two hot experts of each layer in HBM at 16 bit, the rest in memory behind CXL under a mean bit budget.",
    solve=_solve,
)
