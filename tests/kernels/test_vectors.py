"""Kernel = plain twin = stored vector, for every kernel."""

import json
import math

import numpy as np
import pytest

from planner.bitwidth import exact_reference, prefix_reference, select_exact, select_prefix
from planner.importance import score_kernel, score_reference
from planner.routing.counter_rng import lognormal_table
from planner.routing.sampler import sample_counts, sample_counts_reference
from planner.schedule import schedule_layers
from planner.schedule_reference import schedule_reference
from tests.kernels.make_vectors import make, plain
from tests.kernels.vector_files import times, vectors


def test_importance() -> None:
    case = vectors("importance")
    ids, weights = np.array(case["ids"], np.uint16), np.array(case["weights"], np.float32)
    for score in (score_kernel, score_reference):
        for kind in (np.uint8, np.uint16, np.int64):
            counts, scores = score(ids.astype(kind), weights, case["experts"])
            assert counts.tolist() == case["counts"]
            assert scores.tolist() == case["scores"]


def test_bitwidth() -> None:
    for case in vectors("bitwidth"):
        losses = np.array(case["losses"])
        for name, selectors in (
            ("prefix", (select_prefix, prefix_reference)),
            ("exact", (select_exact, exact_reference)),
        ):
            first, second = (select(losses, case["average_bits"]) for select in selectors)
            assert first.bits.tolist() == second.bits.tolist() == case[name]
            assert (first.counts, first.loss, first.gain) == (second.counts, second.loss, second.gain)


def test_schedule() -> None:
    for case in vectors("schedule"):
        given = case["input"]
        for name in ("gpu_s", "cpu_s", "ndp_s", "gpu_reads", "cpu_reads"):
            given[name] = times(given[name])
        for name in ("tokens", "home", "base_gpu_s", "base_cpu_s", "base_host_s"):
            given[name] = np.array(given[name])
        found = schedule_layers(**given)
        domain, makespan, resources, moves = schedule_reference(**given)
        answer = case["answer"]
        assert found.domain.tolist() == domain.tolist() == answer["domain"]
        assert found.moves.tolist() == moves.tolist() == answer["moves"]
        assert found.makespan_s.tolist() == makespan.tolist() == pytest.approx(answer["makespan_s"], rel=1e-12)
        ours = np.column_stack([found.gpu_s, found.cpu_s, found.ndp_s, found.host_s])
        assert ours.tolist() == resources.tolist()
        np.testing.assert_allclose(ours, answer["resources_s"], rtol=1e-12)


def test_sampler() -> None:
    case = vectors("sampler")
    for sample in (sample_counts, sample_counts_reference):
        counts, scores = sample(
            np.array(case["weights"]), lognormal_table(case["sigma_request"]), np.uint64(case["key"]), 1,
            np.array([0, 5]), np.array([2, 1]), 3, 3, True,
        )  # fmt: skip
        assert counts.tolist() == case["counts"]
        np.testing.assert_allclose(scores, case["scores"], rtol=1e-12)


def agree(ours: object, stored: object) -> bool:
    """Equal in structure and whole numbers; numbers with a fraction to 1e-12 (logarithms differ between machines)."""
    if isinstance(ours, dict) and isinstance(stored, dict):
        return ours.keys() == stored.keys() and all(agree(ours[key], stored[key]) for key in ours)
    if isinstance(ours, list) and isinstance(stored, list):
        return len(ours) == len(stored) and all(map(agree, ours, stored))
    if isinstance(ours, float) and isinstance(stored, float):
        return math.isclose(ours, stored, rel_tol=1e-12)
    return type(ours) is type(stored) and ours == stored


def test_the_stored_vectors_are_what_the_script_writes() -> None:
    for name, content in make().items():
        assert agree(json.loads(json.dumps(plain(content))), vectors(name)), name
