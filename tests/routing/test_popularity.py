"""Popularity of experts: spreads, shares and cosines that published loads have."""

import numpy as np
import pytest
from scipy.stats import gamma, norm

import planner.routing.popularity as room
from planner.routing.counter_rng import child
from planner.routing.popularity import log_gamma_quantile, popularity


def weights(sigma: float, domain: float = 0.5, phase: float = 0.0, distribution: str = "lognormal", key: int = 1):
    return popularity(np.uint64(key), 400, 256, sigma, domain, phase, distribution)  # type: ignore[arg-type]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.mean((a * b).sum(axis=1) / np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))))


# simulated values for 256 experts: top 20 % of the experts, hottest over mean
@pytest.mark.parametrize(("sigma", "share", "hottest"), [(0.5, 0.364, 3.7), (0.7, 0.441, 5.9), (1.0, 0.559, 11.0)])
def test_share_of_the_hottest_fifth_and_hottest_expert(sigma: float, share: float, hottest: float) -> None:
    popular = weights(sigma).decode
    # layers whose own spread lies within 0.1 of the wanted one, so that the mixture over layers does not matter
    near = np.abs(weights(sigma).sigma - sigma) < 0.1
    ordered = np.sort(popular[near], axis=1)[:, ::-1]
    assert near.sum() > 100
    assert (ordered[:, :51].sum(axis=1) / ordered.sum(axis=1)).mean() == pytest.approx(share, abs=0.01)
    assert (ordered[:, 0] / ordered.mean(axis=1)).mean() == pytest.approx(hottest, rel=0.06)


def test_layers_differ_in_spread_and_zero_stays_zero() -> None:
    spread = weights(0.7).sigma
    assert spread.mean() == pytest.approx(0.7, abs=0.03)
    assert spread.std() == pytest.approx(0.15, abs=0.02)
    assert (weights(0.05).sigma >= 0).all()
    assert (weights(0.0).decode == 1).all()


def test_prefill_and_decode_have_the_measured_cosine_and_the_full_spread_each() -> None:
    both = weights(0.7, phase=0.34)
    assert cosine(both.prefill, both.decode) == pytest.approx(0.89, abs=0.01)
    for phase in (both.prefill, both.decode):
        assert np.log(phase).std(axis=1).mean() == pytest.approx(0.7, abs=0.03)
    without = weights(0.0, phase=0.34)
    assert cosine(without.prefill, without.decode) == pytest.approx(np.exp(-(0.34**2)), abs=0.01)


@pytest.mark.parametrize("distribution", ["lognormal", "gamma"])
def test_two_domains_share_the_base_of_the_model_only(distribution: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = weights(0.7, domain=0.4, distribution=distribution)
    original = room._normals
    monkeypatch.setattr(
        room,
        "_normals",
        lambda key, which, *shape: original(child(key, 99) if which == room.DOMAIN else key, which, *shape),
    )
    other = weights(0.7, domain=0.4, distribution=distribution)
    correlation = np.mean(
        [np.corrcoef(norm_score(a), norm_score(b))[0, 1] for a, b in zip(one.decode, other.decode, strict=True)]
    )
    assert correlation == pytest.approx(0.6, abs=0.03)


def norm_score(row: np.ndarray) -> np.ndarray:
    """Normal scores of the ranks, so that the test reads the shared part whatever the distribution."""
    rank = np.argsort(np.argsort(row))
    return norm.ppf((rank + 0.5) / row.size)


def test_gamma_quantiles_against_scipy() -> None:
    z = np.linspace(-4.5, 4.5, 101)[None]
    for sigma in (0.05, 0.3, 0.7, 1.3):
        alpha = 1 / np.expm1(sigma**2)
        expected = np.where(z < 0, gamma.ppf(norm.cdf(z), alpha), gamma.isf(norm.sf(z), alpha))
        np.testing.assert_allclose(log_gamma_quantile(z, np.array([sigma])), np.log(expected), atol=1e-10)


def test_gamma_and_lognormal_have_the_same_coefficient_of_variation() -> None:
    for sigma in (0.4, 0.7):
        wanted = np.sqrt(np.expm1(sigma**2))
        for distribution in ("lognormal", "gamma"):
            popular = weights(sigma, distribution=distribution)
            near = np.abs(popular.sigma - sigma) < 0.05
            row = popular.decode[near] / popular.decode[near].mean(axis=1, keepdims=True)
            assert row.std() == pytest.approx(wanted, rel=0.06)


def test_extreme_spread_gives_positive_finite_weights() -> None:
    for distribution in ("lognormal", "gamma"):
        popular = weights(4.0, phase=4.0, distribution=distribution)
        assert np.isfinite(popular.decode).all()
        assert (popular.decode > 0).all()
