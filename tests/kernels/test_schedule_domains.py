"""Scheduling over any domains: the published rule of three domains again, two sockets by hand, brute force."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.schedule import START_GREEDY, START_LAYOUT, schedule_layers
from planner.schedule_domains import DomainProblem, improve_domains, lower_bound_s, schedule_domains

DIMMS = 3


def three_domains(seed: int, experts: int = 7, rows: int = 2) -> dict[str, Any]:
    """A random case of :func:`planner.schedule.schedule_layers`; real times, so that no two are equal."""
    rng = np.random.default_rng(seed)
    shape = (rows, experts)
    home = np.where(rng.random(shape) < 0.4, -1, rng.integers(0, DIMMS, shape))
    return {
        "gpu_s": rng.uniform(1, 12, shape),
        "cpu_s": rng.uniform(1, 12, shape),
        "ndp_s": np.where(home < 0, np.inf, rng.uniform(1, 12, shape)),
        "tokens": rng.integers(0, 4, shape),
        "home": home,
        "gpu_reads": rng.integers(0, 2, shape) * rng.uniform(1, 9, shape),
        "cpu_reads": rng.uniform(1, 9, shape),
        "dimm_read_bytes_per_s": 8.0,
        "host_bytes_per_s": 6.0,
        "base_gpu_s": rng.uniform(0, 3, rows),
        "base_cpu_s": np.zeros(rows),
        "base_host_s": np.zeros(rows),
        "dimms": DIMMS,
    }


def as_domains(case: dict[str, Any]) -> DomainProblem:
    """Resources: GPU, CPU, the DIMMs, the host channels."""
    rows, experts = case["tokens"].shape
    home = case["home"]
    table = np.zeros((1 + DIMMS, 3 + DIMMS))
    table[:, -1] = 1 / case["host_bytes_per_s"]
    table[0, 2:-1] = 1 / DIMMS / case["dimm_read_bytes_per_s"]
    for d in range(DIMMS):
        table[1 + d, 2 + d] = 1 / case["dimm_read_bytes_per_s"]
    base = np.zeros((rows, 3 + DIMMS))
    base[:, 0] = case["base_gpu_s"]
    zero = np.zeros((rows, experts))
    layout = np.where(case["gpu_reads"] <= 0, 0, np.where(home < 0, 1, 2))
    return DomainProblem(
        own_s=np.stack([case["gpu_s"], case["cpu_s"], case["ndp_s"]], axis=2),
        where=np.stack([zero, zero + 1, 2 + np.maximum(home, 0)], axis=2).astype(int),
        reads=np.stack([case["gpu_reads"], case["cpu_reads"], zero], axis=2),
        pattern=1 + home,
        table=table,
        tokens=case["tokens"],
        layout=layout,
        base_s=base,
    )


def loads(p: DomainProblem, row: int, domain: Any) -> np.ndarray:
    """The definition, expert by expert."""
    load = p.base_s[row].astype(float).copy()
    for e, d in enumerate(domain):
        if p.tokens[row, e] > 0:
            load[p.where[row, e, d]] += p.own_s[row, e, d]
            load += p.reads[row, e, d] * p.table[p.pattern[row, e]]
    return load


@given(seed=st.integers(0, 10_000), start=st.sampled_from([START_GREEDY, START_LAYOUT]), refine=st.booleans())
@settings(max_examples=60, deadline=None)
def test_on_three_domains_it_is_the_published_schedule(seed: int, start: int, refine: bool) -> None:
    case = three_domains(seed)
    wanted = schedule_layers(**case, start=start, refine=refine)
    found = schedule_domains(as_domains(case), start, refine)
    assert np.array_equal(found.domain, wanted.domain)
    assert np.array_equal(found.moves, wanted.moves)
    assert found.makespan_s == pytest.approx(wanted.makespan_s, rel=1e-12)
    assert found.load_s[:, 2:-1] == pytest.approx(wanted.ndp_s, rel=1e-12)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_loads_are_the_definition_and_searches_lie_between_optimum_and_published(seed: int) -> None:
    p = as_domains(three_domains(seed, experts=5))
    published, improved = schedule_domains(p), improve_domains(p)
    for row in range(len(p.tokens)):
        assert published.load_s[row] == pytest.approx(loads(p, row, published.domain[row]), rel=1e-12)
        best = min(loads(p, row, choice).max() for choice in itertools.product(range(3), repeat=5))
        assert best * (1 - 1e-12) <= improved.makespan_s[row] <= published.makespan_s[row] * (1 + 1e-12)
        assert lower_bound_s(p)[row] <= best * (1 + 1e-12)


def test_two_sockets_by_hand() -> None:
    """Resources: GPU, CPU 0, CPU 1. Both experts on socket 0 take 3 s each; the second is moved to the GPU (4 s),
    since socket 1 is not open to it; the third stays alone on socket 1."""
    p = DomainProblem(
        own_s=np.array([[[9.0, 3.0, np.inf], [4.0, 3.0, np.inf], [9.0, 2.0, np.inf]]]),
        where=np.array([[[0, 1, 0], [0, 1, 0], [0, 2, 0]]]),
        reads=np.zeros((1, 3, 3)),
        pattern=np.zeros((1, 3), int),
        table=np.zeros((1, 3)),
        tokens=np.ones((1, 3), int),
        layout=np.ones((1, 3), int),
        base_s=np.zeros((1, 3)),
    )
    assert schedule_domains(p, refine=False).load_s.tolist() == [[0.0, 6.0, 2.0]]
    # The costliest of socket 0 is the first one (ties to the lower): on the GPU it would take 9 s, so nothing moves.
    assert schedule_domains(p).load_s.tolist() == [[0.0, 6.0, 2.0]]
    assert schedule_domains(p, every=True).load_s.tolist() == [[4.0, 3.0, 2.0]]


def test_the_bound_is_close_where_there_are_many_experts() -> None:
    """With 200 experts of a few seconds each hardly anything is lost by not splitting them."""
    p = as_domains(three_domains(5, experts=200, rows=3))
    found, proven = improve_domains(p).makespan_s, lower_bound_s(p)
    assert (proven <= found).all() and (proven > 0.8 * found).all()


def test_bad_input_is_named() -> None:
    p = as_domains(three_domains(0))
    with pytest.raises(ValueError, match="accepted are 0 to 3"):
        schedule_domains(DomainProblem(**{**vars(p), "pattern": p.pattern + 9}))
    with pytest.raises(ValueError, match="no domain that can run it"):
        schedule_domains(DomainProblem(**{**vars(p), "own_s": np.full_like(p.own_s, np.inf), "tokens": p.tokens + 1}))
    with pytest.raises(ValueError, match="start is 7"):
        schedule_domains(p, start=7)
    with pytest.raises(ValueError, match="base_s has shape"):
        schedule_domains(DomainProblem(**{**vars(p), "base_s": p.base_s[:, 1:]}))
