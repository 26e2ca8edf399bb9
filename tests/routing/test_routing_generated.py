"""The generated routing state: identities, what placement can learn, bad input, cache."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.routing import RoutingError, RoutingState, automatic_steps, clear_cache, routing_state
from planner.routing import generator as generator_room
from planner.routing import kept as kept_room
from planner.routing.state import scale_counts
from planner.scenario import RoutingChoice

SIZES = {
    "model_id": "any/model", "layers": 3, "experts": 32, "top_k": 4, "batch": 8, "tokens_per_request": 1,
    "prompt_tokens": 100, "prefill_tokens": 256, "steps": 8,
}  # fmt: skip


def state(choice: RoutingChoice | None = None, **sizes: object) -> RoutingState:
    return routing_state(choice or RoutingChoice(), **{**SIZES, **sizes})  # type: ignore[arg-type]


def caught(learnt: np.ndarray, timed: np.ndarray, k: int) -> float:
    """Share of the timed traffic that goes to the k experts which were hottest in what was learnt."""
    hot = np.argsort(-learnt, axis=1, kind="stable")[:, :k]
    return float(np.take_along_axis(timed, hot, axis=1).sum() / timed.sum())


@settings(max_examples=30, deadline=None)
@given(
    source=st.sampled_from(["generated", "uniform"]),
    distribution=st.sampled_from(["lognormal", "gamma"]),
    sigma=st.floats(0, 4),
    request=st.floats(0, 4),
    batch=st.integers(1, 300),
    drafted=st.integers(0, 3),
    prompt=st.integers(1, 500),
    prefill=st.integers(1, 700),
    top_k=st.integers(1, 8),
    cap=st.sampled_from([16, 64, 16384]),
)
def test_counts_add_up_and_no_expert_gets_more_than_all_tokens(
    source, distribution, sigma, request, batch, drafted, prompt, prefill, top_k, cap
) -> None:
    choice = RoutingChoice(source=source, distribution=distribution, sigma=sigma, sigma_request=request)
    kept, generator_room.PASS_TOKENS = generator_room.PASS_TOKENS, cap
    try:
        clear_cache()
        found = state(
            choice, experts=9, layers=2, top_k=top_k, batch=batch, tokens_per_request=1 + drafted,
            prompt_tokens=prompt, prefill_tokens=prefill, steps=2,
        )  # fmt: skip
    finally:
        generator_room.PASS_TOKENS = kept
        clear_cache()
    tokens = batch * (1 + drafted)
    assert found.counts.shape == (2, 2, 9)
    assert found.tokens_per_pass == tokens
    assert (found.counts.sum(axis=2) == tokens * top_k).all()
    assert 0 <= found.counts.min() <= found.counts.max() <= tokens
    assert (found.prefill_counts.sum(axis=2) == prefill * top_k).all()
    assert 0 <= found.prefill_counts.min() <= found.prefill_counts.max() <= prefill
    np.testing.assert_allclose(found.context.sum(axis=1), batch * prompt * top_k)
    np.testing.assert_allclose(found.context_scores.sum(axis=1), batch * prompt)
    assert bool(found.warnings) == (max(1, cap // (1 + drafted)) < batch)


def test_a_uniform_router_gives_a_learnt_placement_its_share_of_the_traffic_and_no_more() -> None:
    found = state(RoutingChoice(source="uniform"), layers=16, experts=64, top_k=8, batch=64, steps=32)
    tokens = found.counts.sum(axis=0)
    sigma = np.sqrt(0.25 / tokens.sum())
    for learnt in (found.profile, found.context, found.context_scores):
        for k in (8, 16, 32):
            assert abs(caught(learnt, tokens, k) - k / 64) < 5 * sigma


def test_a_generated_router_lets_context_learn_more_than_an_offline_profile() -> None:
    sizes = {"layers": 24, "experts": 64, "top_k": 6, "batch": 1, "steps": 64, "prompt_tokens": 1024}
    found = state(RoutingChoice(sigma=0.7, sigma_request=1.0, sigma_phase=0.1), **sizes)
    timed = found.counts.sum(axis=0)
    offline, context = caught(found.profile, timed, 16), caught(found.context, timed, 16)
    assert 0.25 < offline < context


def test_calibration_and_prefill_use_requests_outside_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[int, list[set[int]]] = {}
    original = generator_room.sample_counts

    def spy(weights, factors, key, stream, requests, *rest):
        seen.setdefault(stream, []).append({int(r) for r in requests})
        return original(weights, factors, key, stream, requests, *rest)

    monkeypatch.setattr(generator_room, "sample_counts", spy)
    clear_cache()
    state(batch=200, prompt_tokens=16).arrays()
    (batch,), (context,) = seen[generator_room.DECODE], seen[generator_room.CONTEXT]
    (profile,), passes = seen[generator_room.PROFILE], seen[generator_room.PREFILL]
    assert batch == context
    assert len(batch) == 200
    others = [profile, *passes]
    assert all(not one & batch for one in others)
    assert all(not one & two for i, one in enumerate(others) for two in others[:i])


def test_calibration_sees_the_decode_phase_and_context_the_prefill_phase() -> None:
    choice = RoutingChoice(sigma=0.8, sigma_request=0.0, sigma_phase=0.6)
    found = state(choice, layers=24, experts=64, batch=256, steps=8)
    decode = found.counts.sum(axis=0).astype(float)

    def correlation(learnt: np.ndarray) -> float:
        return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(learnt, decode, strict=True)]))

    assert correlation(found.profile) > 0.95
    assert correlation(found.context) < 0.7
    prefill = found.prefill_counts.sum(axis=0)
    assert np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(prefill, found.context, strict=True)]) > 0.95


def test_prefill_and_decode_loads_have_the_wanted_cosine() -> None:
    choice = RoutingChoice(sigma=0.7, sigma_request=0.0, sigma_phase=0.34)
    found = state(choice, layers=48, experts=256, top_k=1, batch=4096, prompt_tokens=64, steps=4)
    a, b = found.counts.sum(axis=0).astype(float), found.context
    cosine = (a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    assert cosine.mean() == pytest.approx(0.89, abs=0.02)


def test_a_hot_request_makes_its_own_batch_of_one_more_skewed_than_a_large_batch() -> None:
    choice = RoutingChoice(sigma=0.5, sigma_request=1.0)
    one = state(choice, layers=24, experts=32, batch=1, steps=256)
    many = state(choice, layers=24, experts=32, batch=256, steps=4)

    def top(found: RoutingState) -> float:
        load = np.sort(found.counts.sum(axis=0), axis=1)[:, ::-1]
        return float((load[:, :6].sum(axis=1) / load.sum(axis=1)).mean())

    assert top(one) > top(many) + 0.1


def test_a_verify_pass_touches_more_experts_than_one_token_and_fewer_than_as_many_requests() -> None:
    choice = RoutingChoice(sigma=0.7, sigma_request=1.0)
    sizes = {"layers": 32, "experts": 64, "top_k": 4, "steps": 64}

    def distinct(**more: int) -> float:
        return float((state(choice, **sizes, **more).counts > 0).sum(axis=2).mean())

    drafted = distinct(batch=4, tokens_per_request=4)
    assert distinct(batch=4) < drafted < distinct(batch=16)


def test_results_follow_from_the_seed_alone() -> None:
    first = state(RoutingChoice(seed=3))
    clear_cache()
    state(RoutingChoice(seed=4), batch=5)
    again = state(RoutingChoice(seed=3))
    assert all(np.array_equal(a, b) for a, b in zip(first.arrays(), again.arrays(), strict=True))
    assert not np.array_equal(first.counts, state(RoutingChoice(seed=4)).counts)


def test_arrays_cannot_be_changed_by_a_reader_of_the_cache() -> None:
    with pytest.raises(ValueError, match="read-only"):
        state().counts[0, 0, 0] = 1


def test_what_is_learnt_and_what_is_timed_is_said() -> None:
    assert "timed on decode tokens" in state().learned_on
    assert "scaled up" not in state().learned_on
    assert "2,048 of 3,000 tokens" in state(batch=2, prompt_tokens=3000).learned_on
    assert "cannot learn anything" in state(RoutingChoice(source="uniform")).learned_on


@pytest.mark.parametrize(
    "name", ["layers", "experts", "top_k", "batch", "tokens_per_request", "prompt_tokens", "steps"]
)
def test_a_size_below_one_is_named(name: str) -> None:
    with pytest.raises(RoutingError, match=f"^{name} is 0; routing needs a whole number of at least 1.$"):
        state(**{name: 0})


def test_more_choices_than_experts_is_a_sentence() -> None:
    with pytest.raises(RoutingError, match="top_k is 33; a layer has 32 experts"):
        state(top_k=33)


def drawn_streams(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Streams that the sampler draws from now on, in order."""
    seen: list[int] = []
    original = generator_room.sample_counts

    def spy(weights, factors, key, stream, *rest):
        seen.append(stream)
        return original(weights, factors, key, stream, *rest)

    monkeypatch.setattr(generator_room, "sample_counts", spy)
    clear_cache()
    return seen


def test_equal_calls_share_one_draw_across_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = drawn_streams(monkeypatch)
    found: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda: found.append(state().counts)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in found}) == 1
    assert seen == [generator_room.DECODE]


def test_a_stream_is_drawn_when_it_is_read_and_again_only_if_what_it_depends_on_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = drawn_streams(monkeypatch)
    decode, context, profile, prefill = (
        generator_room.DECODE, generator_room.CONTEXT, generator_room.PROFILE, generator_room.PREFILL
    )  # fmt: skip
    passes = [prefill] * generator_room.PREFILL_PASSES
    first = state()
    assert seen == []
    first.counts, first.profile, first.prefill_counts  # noqa: B018
    assert seen == [decode, profile, *passes]
    first.arrays()
    assert seen == [decode, profile, *passes, context]
    seen.clear()
    state(prompt_tokens=90).arrays()  # another prompt: neither decode passes nor the calibration run
    assert sorted(seen) == sorted([context, *passes])
    seen.clear()
    state(batch=9).arrays()  # another batch: neither the calibration run nor prefill passes of the same size
    assert sorted(seen) == sorted([decode, context])
    seen.clear()
    state(RoutingChoice(locality=0.1, drift_share=0.3), prefill_tokens=255).arrays()
    assert seen == passes
    seen.clear()
    state(RoutingChoice(sigma=0.6)).profile  # noqa: B018
    assert seen == [profile]


def test_kept_streams_never_hold_more_than_the_limit_and_the_oldest_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_cache()
    state(RoutingChoice(seed=0)).arrays()
    limit = 3 * kept_room.kept_bytes()
    monkeypatch.setattr(kept_room, "CACHE_BYTES", limit)
    kept = state(RoutingChoice(seed=0)).profile
    for seed in range(1, 8):
        state(RoutingChoice(seed=seed)).arrays()
        assert state(RoutingChoice(seed=0)).profile is kept
        assert kept_room.kept_bytes() <= limit
    clear_cache()
    again = state(RoutingChoice(seed=0)).profile
    assert again is not kept
    assert np.array_equal(again, kept)


def test_a_state_in_use_keeps_its_arrays_when_the_cache_forgets_them() -> None:
    clear_cache()
    one = state()
    counts = one.counts
    clear_cache()
    assert one.counts is counts


def test_a_replaced_state_draws_no_stream_that_was_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = drawn_streams(monkeypatch)
    whole = state()
    part = whole.replaced(counts=whole.counts[:2])
    assert part.counts.shape[0] == 2
    assert seen == [generator_room.DECODE]
    assert part.learned_on == whole.learned_on
    assert np.array_equal(part.profile, whole.profile)


def test_a_failed_draw_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_cache()
    with monkeypatch.context() as patched:
        patched.setattr(generator_room, "sample_counts", lambda *a: (_ for _ in ()).throw(MemoryError("no room")))
        with pytest.raises(MemoryError):
            state().counts  # noqa: B018
    assert state().counts.sum() > 0


@given(st.integers(1, 65536), st.integers(1, 128), st.integers(1, 512))
def test_automatic_steps(batch: int, layers: int, experts: int) -> None:
    steps = automatic_steps(batch, layers, experts)
    assert 4 <= steps <= 64
    assert batch > 16 or steps >= 32
    assert automatic_steps(batch + 1, layers, experts) <= steps


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(1, 10_000))
def test_scaled_counts_keep_the_sum_and_the_order(row: list[int], tokens: int) -> None:
    counts = np.array(row)
    sampled = max(1, int(counts.max()))
    if counts.sum() % sampled:
        counts = np.append(counts, sampled - counts.sum() % sampled)
    k = counts.sum() // sampled
    tokens += sampled
    scaled = scale_counts(counts, sampled, tokens)
    assert scaled.sum() == k * tokens
    assert scaled.max() <= tokens
    assert (np.diff(scaled[np.argsort(counts, kind="stable")]) >= -1).all()
    np.testing.assert_allclose(scaled, counts * (tokens / sampled), atol=1)
