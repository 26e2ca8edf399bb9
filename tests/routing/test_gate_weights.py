"""Router scores of single tokens: shape, order, and that they follow the law of the sampler or the record."""

import numpy as np
import pytest

import planner.routing.trace as trace_room
from planner.routing import RoutingState, routing_state, traces
from planner.routing.counter_rng import lognormal_table
from planner.routing.sampler import request_factors, sample_counts, sample_gate_weights
from planner.scenario import RoutingChoice


def state(choice: RoutingChoice, model: str, layers: int, experts: int, top_k: int) -> RoutingState:
    return routing_state(choice, model, layers, experts, top_k, 8, 1, 100, 256, 2)


@pytest.mark.parametrize("source", ["generated", "uniform"])
def test_generated_scores_are_sorted_shares(source) -> None:
    gates = state(RoutingChoice(source=source), "any", 3, 32, 4).gate_weights
    assert gates.dtype == np.float32
    assert gates.shape[1] == 4
    assert gates.shape[0] >= 500
    assert (np.diff(gates, axis=1) <= 0).all()
    np.testing.assert_allclose(gates.sum(axis=1), 1.0, atol=1e-6)


def test_scores_of_single_tokens_follow_the_law_of_the_sampling_kernel() -> None:
    weights, factors, key = np.array([[4.0, 2.0, 1.0, 0.5, 0.2]]), lognormal_table(0.5), np.uint64(9)
    request = np.zeros(1, np.uint64)
    own = weights[0] * request_factors(key, 0, 0, 5, factors)
    gates = sample_gate_weights(weights, factors, key, 5, request, 60_000, 2)
    noisy = np.log(own) + np.random.default_rng(1).gumbel(size=(60_000, 5))
    top = -np.sort(-noisy, axis=1)[:, :2]
    literal = 1.0 / (1.0 + np.exp(top[:, 1] - top[:, 0]))
    np.testing.assert_allclose(
        np.quantile(gates[:, 0], [0.1, 0.5, 0.9]), np.quantile(literal, [0.1, 0.5, 0.9]), atol=0.01
    )
    # one choice only: the score is 1 whatever the weights, in the kernel as here
    _, scores = sample_counts(weights, factors, key, 1, request, np.ones(1), 4, 1, True)
    assert scores.sum() == pytest.approx(4)
    assert (sample_gate_weights(weights, factors, key, 5, request, 4, 1) == 1).all()


def test_each_token_has_the_factors_of_its_own_layer_and_request() -> None:
    weights, factors, key = np.ones((2, 33)), lognormal_table(3.0), np.uint64(4)
    requests = np.array([7, 2**41], np.uint64)
    every = sample_gate_weights(weights, factors, key, 5, requests, 4000, 33)
    for number in range(4):
        layer, request = number % 2, int(requests[number // 2])
        own = np.log(request_factors(key, layer, request, 33, factors))
        variance = np.log(every[number::4]).var(axis=1).mean()
        assert variance == pytest.approx(own.var() + np.pi**2 / 6, rel=0.05)


@pytest.mark.parametrize("entry", traces(), ids=lambda entry: entry.id)
def test_a_trace_gives_recorded_scores_of_timed_tokens(entry) -> None:
    choice = RoutingChoice(source="trace", trace=entry.id)
    gates = state(choice, entry.model_id, entry.layers, entry.experts, entry.top_k).gate_weights
    recording = trace_room.load(entry.id)
    assert gates.shape == (min(trace_room.GATE_TOKENS, gates.shape[0]), entry.top_k)
    assert gates.shape[0] > 2000
    assert (np.diff(gates, axis=1) <= 0).all()
    np.testing.assert_allclose(gates.sum(axis=1), 1.0, atol=1e-6)
    raw = recording.weights.astype(float)
    largest = raw.max(axis=-1) / np.maximum(raw.sum(axis=-1), 1e-30)
    assert gates[:, 0].mean() == pytest.approx(largest[largest > 0].mean(), rel=0.05)
