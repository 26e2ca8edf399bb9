"""Kernel = plain twin = stored vector, for the decisions and the transfers."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.layout.layout_cases import case, outcome
from tests.layout.make_layout_vectors import FILE, make


def test_kernel_twin_and_stored_vectors_agree() -> None:
    stored = json.loads(FILE.read_text("utf-8"))
    assert stored == json.loads(json.dumps(make(plain=True)))
    assert stored == json.loads(json.dumps(make(plain=False)))
    kinds = {kind for entry in stored for done in entry["rounds"] for row in done["fresh"] for kind in row}
    assert kinds == {0, 1, 2, 3, 4}, "the vectors decide on every kind of task"


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    experts=st.integers(1, 16),
    dimms=st.integers(1, 6),
    chain=st.booleans(),
    tight=st.booleans(),
    charge=st.booleans(),
    window=st.sampled_from([0.0, 1e-5, 3e-4, 1e-2]),
)
def test_kernels_equal_their_twins_bit_for_bit(seed, experts, dimms, chain, tight, charge, window) -> None:
    wanted = {"experts": experts, "dimms": dimms, "chain": chain, "tight": tight, "window_s": window, "rounds": 3}
    assert outcome(case(seed, **wanted), False, charge) == outcome(case(seed, **wanted), True, charge)
