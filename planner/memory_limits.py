"""How far a plan's memory reaches: the largest batch at its context, the largest context at its batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from planner.context import CHUNK_TOKENS, Context, resolve
from planner.physics.memory import fits, largest, likely
from planner.policies import check_options, get
from planner.policies.base import Policy
from planner.scenario import Scenario

LARGEST_BATCH = 65_536
LARGEST_CONTEXT = 11_000_000
MOST_PROMPT_TOKENS = 10_000_000


def largest_batch(scenario: Scenario) -> int:
    """Largest batch that fits at the scenario's context, 0 if none. Errors as evaluate."""
    policy = get(scenario.policy.id)
    check_options(policy, scenario.policy.options)
    ctx = resolve(scenario)
    return 0 if policy.missing(ctx.machine) else Limits(ctx, policy).batch()


@dataclass(frozen=True)
class Limits:
    """The limits of one resolved scenario under a policy that its machine has all parts for."""

    ctx: Context
    policy: Policy

    def batch(self) -> int:
        w = self.ctx.scenario.workload
        context = w.prompt_tokens + w.output_tokens
        return self._largest(lambda n: self._at(n, context), LARGEST_BATCH)

    def context(self) -> int:
        """In tokens, prompt and output together; at least two of them, as the shortest request has."""
        w = self.ctx.scenario.workload
        limit = max(self.ctx.arch.max_context_tokens or LARGEST_CONTEXT, w.prompt_tokens + w.output_tokens)
        return self._largest(lambda n: self._at(w.batch, max(n, 2)), min(limit, LARGEST_CONTEXT))

    def _largest(self, at: Callable[[int], Context], limit: int) -> int:
        """Single ledgers tell about where the limit lies; whether a plan fits there is for the policy to say."""

        def likely_with(place: str) -> int:
            return likely(lambda n: self.policy.short_bytes(at(n), place), limit)

        guess = max(map(likely_with, self.policy.kv_places(self.ctx)))
        return largest(lambda n: fits(self.policy.prepare(at(n)).ledger), limit, guess)

    def _at(self, batch: int, context: int) -> Context:
        """The context of another batch and length, with the usual chunk: a longer one is taken only where it fits."""
        scenario = self.ctx.scenario
        workload = scenario.workload.model_copy(update={"batch": batch, **lengths(scenario, context)})
        return self.ctx.with_workload(workload, scenario.policy.prefill_chunk_tokens or CHUNK_TOKENS)


def lengths(scenario: Scenario, context: int) -> dict[str, Any]:
    """Prompt and output of a context: the output keeps its length while the prompt can give."""
    output = min(scenario.workload.output_tokens, max(1, context - 1))
    prompt = min(context - output, MOST_PROMPT_TOKENS)
    return {"prompt_tokens": prompt, "output_tokens": context - prompt}
