"""Shipped traces: what they hold, how they are split, and for which model they count."""

import hashlib

import numpy as np
import pytest

import planner.routing.trace as room
from planner.routing import RoutingError, RoutingState, routing_state, traces
from planner.routing.popularity import log_gamma_quantile
from planner.routing.sampler import sample_counts
from planner.scenario import RoutingChoice

IDS = (
    "deepseek-v2-lite-intent",
    "deepseek-v2-lite-law",
    "deepseek-v2-lite-summary",
    "deepseek-v2-lite-translation",
    "gpt-oss-20b-decode",
)
BATCHES = (4, 8, 16, 32, 64, 128)
# distinct experts in a batch of random tokens, mean over layers, as published with the data sets' first analysis
OBSERVED = {
    "intent": (19.4, 30.3, 42.6, 53.0, 59.4, 62.2),
    "law": (19.8, 31.9, 45.9, 56.4, 61.8, 63.5),
    "summary": (19.5, 31.4, 44.5, 55.1, 61.1, 63.1),
    "translation": (17.7, 26.7, 37.2, 47.9, 56.3, 61.2),
}


def state(trace: str, **sizes: object) -> RoutingState:
    entry = room.find_trace(trace)
    plain = {
        "model_id": entry.model_id, "layers": entry.layers, "experts": entry.experts, "top_k": entry.top_k, "batch": 8,
        "tokens_per_request": 1, "prompt_tokens": 100, "prefill_tokens": 500, "steps": 8,
    }  # fmt: skip
    return routing_state(RoutingChoice(source="trace", trace=trace), **{**plain, **sizes})  # type: ignore[arg-type]


def distinct(ids: np.ndarray, batch: int, draws: int = 40) -> float:
    rng = np.random.default_rng(0)
    layers, tokens, _ = ids.shape
    found = [
        np.unique(ids[layer, rng.integers(0, tokens, batch)]).size for _ in range(draws) for layer in range(layers)
    ]
    return float(np.mean(found))


def test_each_trace_is_what_its_card_says() -> None:
    assert tuple(entry.id for entry in traces()) == IDS
    for entry in traces():
        content = (room.FOLDER / entry.file).read_bytes()
        recording = room.load(entry.id)
        assert hashlib.sha256(content).hexdigest() == entry.sha256
        assert recording.ids.shape == (entry.layers, entry.tokens, entry.top_k)
        assert recording.length.size == entry.requests
        assert recording.length.sum() == entry.tokens
        assert recording.ids.max() < entry.experts
        assert (np.diff(np.sort(recording.ids, axis=2).astype(int), axis=2) > 0).all(), (
            "experts of a token are distinct"
        )
        assert entry.licence
        assert entry.source.startswith("https://")
        assert entry.split
    room.load.cache_clear()


@pytest.mark.parametrize("task", OBSERVED)
def test_generator_at_the_spread_of_each_layer_touches_as_many_experts_as_the_trace(task: str) -> None:
    ids = room.load(f"deepseek-v2-lite-{task}").ids
    layers, experts, top_k = ids.shape[0], 64, ids.shape[2]
    load = np.stack([np.bincount(ids[layer].ravel(), minlength=experts) for layer in range(layers)])
    sigma = np.log(np.maximum(load, 0.5)).std(axis=1)
    z = np.random.default_rng(1).normal(size=(layers, experts))
    for column, batch in enumerate(BATCHES):
        assert distinct(ids, batch) == pytest.approx(OBSERVED[task][column], rel=0.025)
        counts, _ = sample_counts(
            np.exp(sigma[:, None] * z), np.empty(0), np.uint64(batch), 1, np.zeros(1), np.full(1, batch), 40, top_k
        )
        generated = float((counts > 0).sum(axis=2).mean())
        assert generated == pytest.approx(OBSERVED[task][column], rel=0.07)


def test_gamma_populations_fit_gpt_oss_better_than_its_log_spread_does() -> None:
    ids = room.load("gpt-oss-20b-decode").ids
    load = np.stack([np.bincount(ids[layer].ravel(), minlength=32) for layer in range(24)])
    spread = np.sqrt(np.log1p((load.std(axis=1) / load.mean(axis=1)) ** 2))
    log_weights = log_gamma_quantile(np.random.default_rng(2).normal(size=(24, 32)), spread)
    for batch, observed in ((4, 12.1), (8, 18.0), (16, 23.5), (32, 27.0)):
        counts, _ = sample_counts(
            np.exp(log_weights), np.empty(0), np.uint64(1), 1, np.zeros(1), np.full(1, batch), 60, 4
        )
        assert (counts > 0).sum(axis=2).mean() == pytest.approx(observed, rel=0.08)


@pytest.mark.parametrize(("batch", "observed"), [(4, 12.3), (8, 18.3), (16, 23.3), (32, 26.9)])
def test_decode_passes_of_gpt_oss_touch_the_measured_number_of_experts(batch: int, observed: float) -> None:
    choices = [RoutingChoice(source="trace", trace="gpt-oss-20b-decode", seed=seed) for seed in range(6)]
    found = [routing_state(c, "openai/gpt-oss-20b", 24, 32, 4, batch, 1, 100, 100, 32).counts for c in choices]
    assert (np.concatenate(found) > 0).sum(axis=2).mean() == pytest.approx(observed, rel=0.03)


@pytest.mark.parametrize("trace", IDS)
def test_counts_add_up(trace: str) -> None:
    entry = room.find_trace(trace)
    for batch, drafted, prefill in ((1, 0, 1), (8, 2, 700), (300, 0, 40_000), (20_000, 1, 100)):
        found = state(trace, batch=batch, tokens_per_request=1 + drafted, prefill_tokens=prefill, steps=3)
        tokens = batch * (1 + drafted)
        assert (found.counts.sum(axis=2) == tokens * entry.top_k).all()
        assert found.counts.max() <= tokens
        assert (found.prefill_counts.sum(axis=2) == prefill * entry.top_k).all()
        assert found.prefill_counts.max() <= prefill
        tokens_learnt = found.context.sum(axis=1) / entry.top_k
        np.testing.assert_allclose(found.context_scores.sum(axis=1), tokens_learnt)
        assert np.ptp(tokens_learnt) < 1e-6 * tokens_learnt[0]
        assert found.profile.sum() > 0


def test_nothing_that_is_learnt_is_timed_and_calibration_requests_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace whose experts tell where a token comes from: expert = request, + 32 in its second half."""
    entry = room.find_trace("deepseek-v2-lite-law")
    length = np.full(30, 20)
    owner = np.repeat(np.arange(30), 20)
    late = np.tile(np.arange(20) >= 10, 30)
    ids = np.broadcast_to((owner + 32 * late)[None, :, None], (entry.layers, 600, entry.top_k)).astype(np.uint8)
    early = np.zeros((30, entry.layers, entry.experts))
    early[np.arange(30), :, np.arange(30)] = 10 * entry.top_k
    planted = room.Recording(ids, np.ones_like(ids), np.arange(30) * 20, length, early, early / entry.top_k)
    monkeypatch.setattr(room, "load", lambda _: planted)
    choice = RoutingChoice(source="trace", trace=entry.id, seed=12345)
    found = routing_state(choice, entry.model_id, entry.layers, entry.experts, entry.top_k, 7, 2, 10, 500, 4)
    timed = set(np.flatnonzero(found.counts.sum(axis=(0, 1))))
    context = set(np.flatnonzero(found.context.sum(axis=0)))
    profile = set(np.flatnonzero(found.profile.sum(axis=0)))
    prefill = set(np.flatnonzero(found.prefill_counts.sum(axis=(0, 1))))
    assert min(timed) >= 32, "timed tokens come from second halves"
    assert {expert - 32 for expert in timed} == context, "context comes from the first halves of the same requests"
    assert len(timed) == 7
    assert max(profile) < 32, "the profile comes from first halves"
    assert len(profile) == 10
    assert not profile & context, "and from requests that are never timed"
    assert max(prefill) < 32


def test_context_of_a_single_request_catches_more_of_its_decode_than_the_profile() -> None:
    """Published for this trace: the first half of a generation predicts its second half (cosine 0.91)."""
    shares = []
    for seed in range(8):
        found = routing_state(
            RoutingChoice(source="trace", trace="gpt-oss-20b-decode", seed=seed),
            "openai/gpt-oss-20b", 24, 32, 4, 1, 1, 100, 100, 50,
        )  # fmt: skip
        timed = found.counts.sum(axis=0)
        for learnt in (found.profile, found.context):
            hot = np.argsort(-learnt, axis=1, kind="stable")[:, :8]
            shares.append(np.take_along_axis(timed, hot, axis=1).sum() / timed.sum())
    profile, context = np.mean(shares[::2]), np.mean(shares[1::2])
    assert 0.25 < profile < context


def test_a_batch_beyond_the_requests_of_the_trace_says_so() -> None:
    assert state("deepseek-v2-lite-summary", batch=9, steps=4).warnings == ()
    (warning,) = state("deepseek-v2-lite-summary", batch=10, steps=4).warnings
    assert warning == (
        "Trace 'deepseek-v2-lite-summary' has 9 requests to time; a batch of 10 reuses them at other positions."
    )
    found = state("deepseek-v2-lite-summary", batch=18, steps=4).counts
    assert not np.array_equal(found, 2 * state("deepseek-v2-lite-summary", batch=9, steps=4).counts)


def test_more_steps_than_tokens_says_that_they_start_over() -> None:
    assert any("start over at its end" in text for text in state("deepseek-v2-lite-intent", steps=64).warnings)


def test_a_trace_of_another_model_is_refused_with_what_there_is() -> None:
    with pytest.raises(RoutingError, match="was recorded on openai/gpt-oss-20b, not on a/b; there is no trace of this"):
        state("gpt-oss-20b-decode", model_id="a/b")
    with pytest.raises(RoutingError, match="for this model there are gpt-oss-20b-decode"):
        state("deepseek-v2-lite-law", model_id="openai/gpt-oss-20b")


def test_a_config_of_other_shape_under_the_same_name_is_refused() -> None:
    with pytest.raises(RoutingError, match=r"has 24 MoE layers of 32 experts with top-4; this config .* 24 of 64"):
        state("gpt-oss-20b-decode", experts=64)


def test_an_unknown_trace_names_the_nearest() -> None:
    choice = RoutingChoice(source="trace", trace="deepseek-v2-lite-laws")
    with pytest.raises(RoutingError, match="'deepseek-v2-lite-laws', which is not a shipped trace; the nearest is"):
        routing_state(choice, "x", 1, 1, 1, 1, 1, 1, 1, 1)
