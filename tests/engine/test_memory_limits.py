"""The largest batch and context: found with few looks, and the same as by asking at every halving."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planner.evaluate import evaluate
from planner.memory_limits import LARGEST_BATCH, Limits, largest_batch
from planner.physics.memory import fits, largest, likely
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload


@given(st.integers(0, 5000), st.integers(1, 5000), st.integers(-10, 6000))
def test_the_limit_is_found_from_any_guess(real: int, limit: int, guess: int) -> None:
    asked: list[int] = []

    def fits_at(n: int) -> bool:
        asked.append(n)
        return n <= real

    assert largest(fits_at, limit, guess) == min(real, limit)
    assert all(1 <= n <= limit for n in asked)
    if guess == real and 0 < real < limit:
        assert len(asked) == 2


@given(
    st.lists(st.tuples(st.floats(-1e12, 0), st.floats(0, 1e9), st.integers(0, 300)), min_size=1, max_size=3),
    st.integers(1, 100_000),
)
def test_straight_and_bent_lines_cross_zero_where_a_full_search_says(
    lines: list[tuple[float, float, int]], limit: int
) -> None:
    asked: list[int] = []

    def short_at(n: int) -> list[float]:
        asked.append(n)
        return [start + slope * max(n, bend) for start, slope, bend in lines]

    found = likely(short_at, limit)
    assert found == largest(lambda n: max(short_at(n)) <= 0, limit)
    asked.clear()
    likely(short_at, limit)
    assert len(asked) <= 2 + 3 * limit.bit_length() * 2


def test_limits_are_those_of_a_search_that_asks_the_policy_alone() -> None:
    for policy, system in (("all-gpu", "8x-h200-sxm"), ("cpu-experts", "h100-amx-server"), ("trimoe", "trimoe-server")):
        scenario = Scenario(
            model=ModelChoice(id="mistralai/Mixtral-8x7B-v0.1"),
            system=SystemChoice(id=system),
            policy=PolicyChoice(id=policy),
            workload=Workload(batch=16, prompt_tokens=3000),
        )

        def fits_with(scenario: Scenario = scenario, **workload: int) -> bool:
            asked = scenario.workload.model_copy(update=workload)
            ready = evaluate(scenario.model_copy(update={"workload": asked}), stop_at="memory").ready
            return ready is not None and fits(ready.ledger)

        most = largest_batch(scenario)
        assert most == largest(lambda n: fits_with(batch=n), LARGEST_BATCH)
        found = evaluate(scenario, stop_at="memory")
        context = Limits(found.ctx, found.policy).context()
        output = scenario.workload.output_tokens
        assert fits_with(prompt_tokens=context - output)
        known = found.ctx.arch.max_context_tokens
        assert context == known or not fits_with(prompt_tokens=context - output + 1)
