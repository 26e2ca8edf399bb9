"""Ordered decode steps: the law, the twin, the drift, requests that end, traces in their order, bad input."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import planner.routing.trace as trace_room
from planner.routing import RoutingError, Sequence, routing_sequence, routing_state, step_similarity
from planner.routing.counter_rng import child, lognormal_table
from planner.routing.drift import drifting_weights
from planner.routing.popularity import latent, popularity
from planner.routing.sampler import request_factors
from planner.routing.sequence_sampler import sample_steps, sample_steps_reference
from planner.scenario import RoutingChoice
from tests.routing.make_sequence_vectors import FILE, arguments, make

NONE = np.empty(0)
STEADY = RoutingChoice(sigma_phase=0)


def sequence(choice: RoutingChoice = STEADY, **changes: object) -> Sequence:
    sizes = {
        "model_id": "any", "layers": 3, "experts": 24, "top_k": 4, "batch": 16, "tokens_per_request": 1, "steps": 12,
    }  # fmt: skip
    return routing_sequence(choice, **{**sizes, **changes})  # type: ignore[arg-type]


def test_kernel_twin_and_stored_vectors_agree() -> None:
    stored = json.loads(FILE.read_text("utf-8"))
    assert stored == json.loads(json.dumps(make()))
    for case in stored:
        assert sample_steps(*arguments(case["input"])).tolist() == case["counts"]


@settings(max_examples=25)
@given(
    experts=st.integers(1, 20),
    slots=st.integers(1, 4),
    steps=st.integers(1, 4),
    tokens=st.integers(1, 3),
    sigma=st.sampled_from([0.0, 1.0, 8.0]),
    locality=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 2**32),
    data=st.data(),
)
def test_kernel_equals_its_twin_bit_for_bit(experts, slots, steps, tokens, sigma, locality, seed, data) -> None:
    top_k = data.draw(st.integers(1, experts))
    rng = np.random.default_rng(seed)
    weights = np.exp(sigma * rng.normal(size=(steps, experts)))
    factors = lognormal_table(0.9) if seed % 2 else NONE
    owner = np.arange(slots) + slots * rng.integers(0, 2, (steps, slots))
    position = rng.integers(0, 1000, (steps, slots))
    given_ = (weights, factors, np.uint64(seed), 6, owner, position, tokens, top_k, locality)
    counts = sample_steps(*given_)
    assert np.array_equal(counts, sample_steps_reference(*given_))
    assert (counts.sum(axis=1) == slots * tokens * top_k).all()
    assert counts.max() <= slots * tokens


def test_one_choice_follows_popularity_times_the_factors_of_its_request() -> None:
    weights, factors, n = np.array([5.0, 2.0, 1.0, 0.5, 0.1]), lognormal_table(0.8), 60_000
    own = weights * request_factors(np.uint64(11), 0, 3, 5, factors)
    key = np.uint64(child(np.uint64(11), 0))
    counts = sample_steps(
        np.tile(weights, (n, 1)), factors, key, 6, np.full((n, 1), 3), np.arange(n)[:, None], 1, 1, 0.0
    )
    assert chisquare(counts.sum(axis=0), own / own.sum() * n).pvalue > 1e-4


def test_two_choices_follow_the_law_of_the_static_sampler() -> None:
    weights, n = np.array([5.0, 2.0, 1.0, 0.5, 0.1]), 60_000
    counts = sample_steps(
        np.tile(weights, (n, 1)), NONE, np.uint64(2), 6, np.zeros((n, 1)), np.arange(n)[:, None], 1, 2, 0
    )
    share = weights / weights.sum()
    # P(i is chosen) = p_i + sum over j != i of p_j p_i / (1 - p_j)
    expected = [p + sum(q * p / (1 - q) for j, q in enumerate(share) if j != i) for i, p in enumerate(share)]
    spread = 5 * np.sqrt(np.array(expected) * (1 - np.array(expected)) * n)
    assert (np.abs(counts.sum(axis=0) - np.array(expected) * n) < spread).all()


def test_drift_keeps_the_spread_and_starts_from_the_static_popularity() -> None:
    key, steps = np.uint64(5), 600
    z = latent(key, 4, 400, 0.7, 0.5, 0.0)
    static = popularity(key, 4, 400, 0.7, 0.5, 0.0).decode
    for layer in range(4):
        path = np.log(drifting_weights(key, layer, z.decode[layer], z.sigma[layer], "lognormal", steps, 0.5, 0.9))
        np.testing.assert_allclose(np.exp(path[0]), static[layer], rtol=1e-12)
        assert path.std(axis=1) == pytest.approx(np.full(steps, z.sigma[layer]), rel=0.15)
        centred = path - path.mean(axis=1, keepdims=True)
        likeness = (centred[1:] * centred[:-1]).mean() / (centred**2).mean()
        assert likeness == pytest.approx(0.5 + 0.5 * 0.9, abs=0.01)
        far = (centred[300:] * centred[:-300]).mean() / (centred**2).mean()
        assert far == pytest.approx(0.5, abs=0.06)


def test_gamma_popularity_is_interpolated_closely() -> None:
    key = np.uint64(5)
    z = latent(key, 2, 64, 0.9, 0.5, 0.0)
    static = popularity(key, 2, 64, 0.9, 0.5, 0.0, "gamma").decode
    for layer in range(2):
        ours = drifting_weights(key, layer, z.decode[layer], z.sigma[layer], "gamma", 3, 0.2, 0.9)
        np.testing.assert_allclose(ours[0], static[layer], rtol=1e-3)


def test_without_drift_every_step_has_the_popularity_that_the_plan_is_timed_on() -> None:
    choice = RoutingChoice(sigma=0.9, sigma_phase=0, sigma_request=0)
    still = sequence(choice, drift_share=0.0, batch=256, steps=200, layers=2).counts.sum(axis=0)
    plan = routing_state(choice, "any", 2, 24, 4, 256, 1, 10, 10, 200).counts.sum(axis=0)
    np.testing.assert_allclose(still / still.sum(), plan / plan.sum(), atol=0.002)
    moving = sequence(choice, drift_share=1.0, step_correlation=0.5, batch=256, steps=200, layers=2).counts.sum(axis=0)
    assert moving.std() < 0.6 * still.std(), "what drifts evens out over the steps"


@pytest.mark.parametrize("batch", [4, 8, 16, 32])
def test_consecutive_steps_are_as_alike_as_measured_on_gpt_oss(batch: int) -> None:
    """Decode batches of gpt-oss-20b (32 experts, top-4, real generations): cosine of consecutive loads and Jaccard of
    the active sets. Generated with gamma alpha 2.2 (pooled), request spread 1.2 and locality 0.55: within 0.06."""
    cosine, jaccard = {4: (0.63, 0.49), 8: (0.76, 0.65), 16: (0.86, 0.80), 32: (0.92, 0.88)}[batch]
    entry = trace_room.find_trace("gpt-oss-20b-decode")
    traced = sequence(
        RoutingChoice(source="trace", trace=entry.id), model_id=entry.model_id, layers=24, experts=32, batch=batch,
        steps=200,
    )  # fmt: skip
    assert step_similarity(traced.counts) == pytest.approx((cosine, jaccard), abs=0.03)
    sigma = math.sqrt(math.log(1 + 1 / 2.2))
    choice = RoutingChoice(distribution="gamma", sigma=sigma, sigma_phase=0, sigma_request=1.2)
    drawn = sequence(choice, layers=24, experts=32, batch=batch, steps=100, locality=0.55, request_steps=384)
    assert step_similarity(drawn.counts) == pytest.approx((cosine, jaccard), abs=0.06)


def test_locality_gives_the_measured_overlap_of_nearby_tokens() -> None:
    """DeepSeek-V2-Lite, law: 0.92 of 6 experts beyond independence at lag 1, 0.30 at lag 4, 0.12 at lag 16."""
    choice = RoutingChoice(sigma=0.59, sigma_phase=0, sigma_request=0)

    def overlap(locality: float, lag: int) -> float:
        counts = sequence(
            choice, layers=26, experts=64, top_k=6, batch=1, steps=800, drift_share=0.0, locality=locality,
            request_steps=800,
        ).counts  # fmt: skip
        return float(np.minimum(counts[lag:], counts[:-lag]).sum(axis=2).mean())

    for lag, measured in ((1, 0.92), (4, 0.30), (16, 0.12)):
        assert overlap(0.55, lag) - overlap(0.0, lag) == pytest.approx(measured, abs=0.07)


def test_requests_end_and_others_take_their_place() -> None:
    found = sequence(batch=8, steps=100, request_steps=20)
    assert found.begun[0] == 0
    assert found.begun.sum() == pytest.approx(8 * 100 / 20, abs=8)
    assert (found.counts.sum(axis=2) == 8 * 4).all()
    assert sequence(batch=8, steps=100, request_steps=1000).begun.sum() <= 8
    # nothing in common between the first and the last step but the popularity: the requests are others
    alone = RoutingChoice(sigma=0, sigma_phase=0, sigma_request=2.0)
    few = sequence(alone, batch=1, steps=60, request_steps=30, layers=24).counts
    kept = sequence(alone, batch=1, steps=60, request_steps=1000, layers=24).counts

    def alike(counts: np.ndarray) -> float:
        return step_similarity(np.stack([counts[:20].sum(axis=0), counts[-20:].sum(axis=0)]))[0]

    assert alike(few) < alike(kept) - 0.2


def test_draws_do_not_depend_on_how_many_steps_are_drawn() -> None:
    assert np.array_equal(sequence(steps=12).counts[:5], sequence(steps=5).counts)


def test_a_large_batch_is_sampled_and_said() -> None:
    found = sequence(batch=3000, steps=2)
    assert (found.counts.sum(axis=2) == 3000 * 4).all()
    assert "1,024 of the 3,000 sequences" in found.warnings[0]


def test_a_trace_keeps_its_order_and_never_shows_what_was_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Expert = position in the request / 10, so the order of the steps can be read from the counts."""
    entry = trace_room.find_trace("deepseek-v2-lite-law")
    length = np.full(9, 40)
    place = np.tile(np.arange(40), 9)
    ids = np.broadcast_to(place[None, :, None], (entry.layers, 360, entry.top_k)).astype(np.uint8)
    empty = np.zeros((9, entry.layers, entry.experts))
    monkeypatch.setattr(
        trace_room, "load", lambda _: trace_room.Recording(ids, ids, np.arange(9) * 40, length, empty, empty)
    )
    choice = RoutingChoice(source="trace", trace=entry.id, seed=31)
    found = sequence(
        choice,
        model_id=entry.model_id,
        layers=entry.layers,
        experts=entry.experts,
        top_k=entry.top_k,
        batch=1,
        steps=50,
    )
    at = found.counts[:, 0].argmax(axis=1)
    assert at.min() == 20, "second halves only"
    assert set(np.diff(at)) == {1, -19}, "token after token, then the next request"
    assert found.begun.sum() == (np.diff(at) < 0).sum()
    assert found.drift_share is None


def test_bad_sizes_and_shares_are_refused_with_a_sentence() -> None:
    for changes, sentence in (
        ({"steps": 0}, "steps is 0; a sequence of decode steps needs a whole number from 1 to 4,096"),
        ({"top_k": 25}, "top_k is 25; .* from 1 to 24"),
        ({"request_steps": 0}, "request_steps is 0; .* of at least 1"),
        ({"drift_share": 1.5}, "drift_share is 1.5; it is a share from 0 to 1"),
        ({"step_correlation": float("nan")}, "step_correlation is nan"),
        ({"locality": -0.1}, "locality is -0.1"),
    ):
        with pytest.raises(RoutingError, match=sentence):
            sequence(**changes)
    with pytest.raises(RoutingError, match="was recorded on"):
        sequence(RoutingChoice(source="trace", trace="gpt-oss-20b-decode"))
