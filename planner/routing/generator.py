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
from planner.routing.popularity import Popularity, popularity
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
    """Expert load of a generated or uniform router; shapes as in :class:`RoutingState`."""
    root = child(ROOT, choice.seed)
    popular, factors = _weights(choice, np.uint64(child(root, POPULARITY)), layers, experts)
    key = np.uint64(child(root, TOKENS))
    warnings = []

    def draw(weights: np.ndarray, stream: int, first: int, tokens: np.ndarray, passes: int = 1, scores: bool = False):  # type: ignore[no-untyped-def]
        requests = np.arange(first, first + tokens.size, dtype=np.uint64)
        return sample_counts(weights, factors, key, stream, requests, tokens, passes, top_k, scores)

    sampled = min(batch, max(1, PASS_TOKENS // tokens_per_request))
    counts, _ = draw(popular.decode, DECODE, 0, np.full(sampled, tokens_per_request), steps)
    counts = scale_counts(counts, sampled * tokens_per_request, batch * tokens_per_request)
    if sampled < batch:
        warnings.append(
            f"Expert loads of a pass are drawn for {sampled:,} of the {batch:,} sequences and scaled up, "
            "so the hottest experts come out slightly too hot."
        )

    each = max(1, min(prompt_tokens, CONTEXT_TOKENS_EACH, CONTEXT_TOKENS_ALL // sampled))
    context, scores = draw(popular.prefill, CONTEXT, 0, np.full(sampled, each), 1, True)
    weight = (batch * prompt_tokens) / (sampled * each)

    calibration, _ = draw(popular.decode, PROFILE, OTHERS, np.full(PROFILE_REQUESTS, PROFILE_TOKENS_EACH))

    return RoutingState(
        counts=counts,
        profile=calibration[0].astype(np.float64),
        context=context[0] * weight,
        context_scores=scores * weight,
        prefill_counts=_prefill(draw, popular, prompt_tokens, prefill_tokens),
        tokens_per_pass=batch * tokens_per_request,
        prefill_tokens=prefill_tokens,
        learned_on=_sentence(choice, each, prompt_tokens),
        warnings=tuple(warnings),
        gate_weights=sample_gate_weights(
            popular.decode, factors, key, GATES, np.arange(sampled, dtype=np.uint64), GATE_TOKENS, top_k
        ),
    )


def _weights(choice: RoutingChoice, key: np.uint64, layers: int, experts: int) -> tuple[Popularity, np.ndarray]:
    if choice.source == "uniform":
        flat = np.ones((layers, experts))
        return Popularity(prefill=flat, decode=flat, sigma=np.zeros(layers)), np.empty(0)
    popular = popularity(
        key, layers, experts, choice.sigma, choice.domain_share, choice.sigma_phase, choice.distribution
    )
    return popular, lognormal_table(choice.sigma_request) if choice.sigma_request > 0 else np.empty(0)


def _prefill(draw, popular: Popularity, prompt_tokens: int, prefill_tokens: int) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Prefill passes over as many further requests as fill them, the last one cut to fit."""
    wanted = min(prefill_tokens, PASS_TOKENS)
    full, last = divmod(wanted, prompt_tokens)
    tokens = np.array([prompt_tokens] * full + ([last] if last else []))
    passes = [draw(popular.prefill, PREFILL, OTHERS * (2 + index), tokens)[0][0] for index in range(PREFILL_PASSES)]
    return scale_counts(np.stack(passes), wanted, prefill_tokens)


def _sentence(choice: RoutingChoice, sampled_each: int, prompt_tokens: int) -> str:
    if choice.source == "uniform":
        return "Every expert is equally likely, so a placement cannot learn anything; it is timed on fresh tokens."
    profile = f"{PROFILE_REQUESTS * PROFILE_TOKENS_EACH:,} generated tokens of {PROFILE_REQUESTS} other requests"
    sample = "" if sampled_each == prompt_tokens else f" ({sampled_each:,} of {prompt_tokens:,} tokens each, scaled up)"
    return (
        f"Offline placement is learnt on {profile} of the same domain, context-aware placement on the prefill of the "
        f"batch's own requests{sample}; both are timed on decode tokens drawn apart from these."
    )
