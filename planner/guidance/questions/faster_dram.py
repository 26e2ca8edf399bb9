"""What does faster DRAM buy? DeepSeek-V3 with its experts on a 12-channel EPYC beside an RTX 5090."""

from __future__ import annotations

from planner.guidance.questions.base import Answer, Option, Planner, Question, rate
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from planner.words.formats import share, significant

RATES_MT_PER_S = (4800, 5600, 6400, 8800)
SOLD_UP_TO = 6400
BATCHES = (1, 16)


def _scenario(mt_per_s: float, batch: int) -> Scenario:
    return Scenario(
        model=ModelChoice(id="deepseek-ai/DeepSeek-V3", weight_format="gguf-q4_k"),
        system=SystemChoice(id="epyc-rtx5090", overrides={"dram.mt_per_s": float(mt_per_s)}),
        workload=Workload(batch=batch, prompt_tokens=1024, output_tokens=256),
        policy=PolicyChoice(id="cpu-experts", expert_format="gguf-q4_k"),
    )


def _solve(plan: Planner) -> Answer:
    options = []
    for batch in BATCHES:
        for speed in RATES_MT_PER_S:
            small = "" if speed <= SOLD_UP_TO else "hypothetical: this CPU takes modules up to DDR5-6400"
            options.append(Option(f"{speed:,} MT/s, batch {batch}", plan(_scenario(speed, batch)), small))
    one, many = options[: len(RATES_MT_PER_S)], options[len(RATES_MT_PER_S) :]
    base, sold = rate(one[0].result), rate(one[RATES_MT_PER_S.index(SOLD_UP_TO)].result)
    more = SOLD_UP_TO / RATES_MT_PER_S[0] - 1
    gain, gain_many = sold / base - 1, rate(many[2].result) / rate(many[0].result) - 1
    return Answer(
        sentence=f"{share(more)} more bandwidth (DDR5-4800 to 6400) buys {share(gain)} more tokens/s for one user "
        f"({significant(base)} to {significant(sold)}) and {share(gain_many)} at batch {BATCHES[1]}.",
        details=(
            f"1 % more bandwidth gives {gain / more:.2f} % more tokens/s here: the rest of a step is the GPU's part "
            "and a fixed cost per layer, which no memory shortens.",
            "At larger batches every distinct expert that is hit is read once per step; once nearly all are hit, the "
            "cores' arithmetic joins the memory as a limit.",
        ),
        options=tuple(options),
        chosen=RATES_MT_PER_S.index(SOLD_UP_TO),
        rests_on="Decode of CPU experts is held against measurements: the Accuracy page shows the errors.",
    )


QUESTION = Question(
    id="faster-dram",
    title="What does faster DRAM buy?",
    why="DeepSeek-V3 at 4 bit, experts on an EPYC 9355 with 12 channels, attention on an RTX 5090.",
    solve=_solve,
)
