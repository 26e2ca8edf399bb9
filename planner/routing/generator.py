"""Expert load from the generator: popularity, one factor per request, Gumbel top-k, all from one seed.

What is sampled: the decode passes of the batch (each sequence is one request with its own factor per layer and
expert, the same requests in every pass), the prefill of those same requests (context), an offline calibration run on
other requests of the same domain in the decode phase (profile), and prefill passes of further requests. Tokens of
one request are independent given its weights: the further overlap of consecutive tokens that real traces show (about
10 % fewer distinct experts in 8 consecutive tokens of DeepSeek-V2-Lite) is not generated.
"""

from __future__ import annotations

import numpy as np

from planner.routing.counter_rng import child, lognormal_table
from planner.routing.kept import kept
from planner.routing.popularity import popularity
from planner.routing.sampler import sample_counts, sample_gate_weights
from planner.routing.state import RoutingState, scale_counts
from planner.scenario import RoutingChoice

DECODE, CONTEXT, PROFILE, PREFILL, GATES = 1, 2, 3, 4, 5
ROOT = np.uint64(0x7469657265646D6F)
POPULARITY, TOKENS = 0, 1

PROFILE_REQUESTS, PROFILE_TOKENS_EACH = 128, 64
CONTEXT_TOKENS_EACH, CONTEXT_TOKENS_ALL = 2048, 32768
PASS_TOKENS = 16384
"""Tokens of one pass that are drawn at most; beyond, requests are sampled and counts scaled, with a warning."""
PREFILL_PASSES = 2
GATE_TOKENS = 512
"""Tokens whose router scores are drawn, over all layers."""
OTHERS = 2**40
"""Numbers of requests outside the batch start here."""


def generate(
    choice: RoutingChoice,
    layers: int,
    experts: int,
    top_k: int,
    batch: int,
    tokens_per_request: int,
    prompt_tokens: int,
    prefill_tokens: int,
    steps: int,
) -> RoutingState:
    """Expert load of a generated or uniform router; shapes as in :class:`RoutingState`. Nothing is drawn yet."""
    router = Router(choice, layers, experts, top_k)
    sampled = min(batch, max(1, PASS_TOKENS // tokens_per_request))
    each = max(1, min(prompt_tokens, CONTEXT_TOKENS_EACH, CONTEXT_TOKENS_ALL // sampled))
    weight = (batch * prompt_tokens) / (sampled * each)
    wanted = min(prefill_tokens, PASS_TOKENS)
    warnings: tuple[str, ...] = ()
    if sampled < batch:
        warnings = (
            f"Expert loads of a pass are drawn for {sampled:,} of the {batch:,} sequences and scaled up, "
            "so the hottest experts come out slightly too hot.",
        )
    return RoutingState(
        shape=(layers, experts),
        counts=lambda: scale_counts(
            router.decode(sampled, tokens_per_request, steps), sampled * tokens_per_request, batch * tokens_per_request
        ),
        profile=router.profile,
        context=lambda: router.context(sampled, each)[0] * weight,
        context_scores=lambda: router.context(sampled, each)[1] * weight,
        prefill_counts=lambda: scale_counts(router.prefill(wanted, prompt_tokens), wanted, prefill_tokens),
        tokens_per_pass=batch * tokens_per_request,
        prefill_tokens=prefill_tokens,
        learned_on=_sentence(choice, each, prompt_tokens),
        warnings=warnings,
        gate_weights=lambda: router.gate_weights(sampled),
    )


class Router:
    """The router of a model under one choice: its streams, each drawn once and kept by what it depends on."""

    def __init__(self, choice: RoutingChoice, layers: int, experts: int, top_k: int) -> None:
        self.choice, self.layers, self.experts, self.top_k = choice, layers, experts, top_k
        self.uniform = choice.source == "uniform"
        shape = () if self.uniform else (
            choice.sigma, choice.domain_share, choice.sigma_phase, choice.distribution, choice.sigma_request
        )  # fmt: skip
        self.name = ("generated", choice.seed, shape, layers, experts, top_k)
        self.root = child(ROOT, choice.seed)
        self.key = np.uint64(child(self.root, TOKENS))

    def decode(self, requests: int, tokens: int, steps: int) -> np.ndarray:
        """int32 [steps, layers, experts]: passes of the batch, ``tokens`` of each request."""

        def make() -> np.ndarray:
            return self._draw(self.weights()[1], DECODE, 0, np.full(requests, tokens), steps)[0]

        return kept((*self.name, DECODE, requests, tokens, steps), make)

    def profile(self) -> np.ndarray:
        """float64 [layers, experts]: the calibration run on other requests."""

        def make() -> np.ndarray:
            each = np.full(PROFILE_REQUESTS, PROFILE_TOKENS_EACH)
            return self._draw(self.weights()[1], PROFILE, OTHERS, each)[0][0].astype(np.float64)

        return kept((*self.name, PROFILE), make)

    def context(self, requests: int, each: int) -> tuple[np.ndarray, np.ndarray]:
        """Counts and scores, [layers, experts], of the prefill of the batch's requests, ``each`` tokens of them."""

        def make() -> tuple[np.ndarray, np.ndarray]:
            counts, scores = self._draw(self.weights()[0], CONTEXT, 0, np.full(requests, each), 1, True)
            return counts[0], scores

        return kept((*self.name, CONTEXT, requests, each), make)

    def prefill(self, wanted: int, prompt_tokens: int) -> np.ndarray:
        """int32 [passes, layers, experts]: passes over as many further requests as fill them, the last one cut."""
        prompt = min(prompt_tokens, wanted)
        full, last = divmod(wanted, prompt)
        tokens = np.array([prompt] * full + ([last] if last else []))

        def make() -> np.ndarray:
            weights = self.weights()[0]
            return np.stack(
                [self._draw(weights, PREFILL, OTHERS * (2 + i), tokens)[0][0] for i in range(PREFILL_PASSES)]
            )

        return kept((*self.name, PREFILL, wanted, prompt), make)

    def gate_weights(self, requests: int) -> np.ndarray:
        """float32 [tokens, top_k]: scores of a sample of decode tokens of the batch."""
        seen = min(requests, (GATE_TOKENS - 1) // self.layers + 1)  # further requests are not reached

        def make() -> np.ndarray:
            numbers = np.arange(seen, dtype=np.uint64)
            decode = self.weights()[1]
            return sample_gate_weights(decode, self._factors(), self.key, GATES, numbers, GATE_TOKENS, self.top_k)

        return kept((*self.name, GATES, seen), make)

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Popularity in prefill and in decode, float64 [layers, experts]."""

        def make() -> tuple[np.ndarray, np.ndarray]:
            if self.uniform:
                return np.ones((self.layers, self.experts)), np.ones((self.layers, self.experts))
            c, key = self.choice, np.uint64(child(self.root, POPULARITY))
            found = popularity(
                key, self.layers, self.experts, c.sigma, c.domain_share, c.sigma_phase, c.distribution
            )  # fmt: skip
            return found.prefill, found.decode

        return kept((*self.name, "popularity"), make)

    def _factors(self) -> np.ndarray:
        flat = self.uniform or self.choice.sigma_request == 0
        return np.empty(0) if flat else lognormal_table(self.choice.sigma_request)

    def _draw(
        self, weights: np.ndarray, stream: int, first: int, tokens: np.ndarray, passes: int = 1, scores: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        requests = np.arange(first, first + tokens.size, dtype=np.uint64)
        return sample_counts(
            weights, self._factors(), self.key, stream, requests, tokens, passes, self.top_k, scores
        )  # fmt: skip


def _sentence(choice: RoutingChoice, sampled_each: int, prompt_tokens: int) -> str:
    if choice.source == "uniform":
        return "Every expert is equally likely, so a placement cannot learn anything; it is timed on fresh tokens."
    profile = f"{PROFILE_REQUESTS * PROFILE_TOKENS_EACH:,} generated tokens of {PROFILE_REQUESTS} other requests"
    sample = "" if sampled_each == prompt_tokens else f" ({sampled_each:,} of {prompt_tokens:,} tokens each, scaled up)"
    return (
        f"Offline placement is learnt on {profile} of the same domain, context-aware placement on the prefill of the "
        f"batch's own requests{sample}; both are timed on decode tokens drawn apart from these."
    )
