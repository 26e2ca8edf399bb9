"""Hypothesis strategies for scenarios, as the doors of the planner let them in."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from planner.fields import ScenarioError, validated
from planner.scenario import Scenario

_floats = st.floats(allow_nan=False, allow_infinity=False)
_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | _floats | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=8,
)
_option = st.booleans() | st.integers(-(2**53), 2**53) | _floats | _text


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Any subset of the fields, so that defaults are met too."""
    return st.fixed_dictionaries({}, optional=fields)


_data = _some(
    model=_some(
        id=_text, config=st.none() | st.dictionaries(_text, _json, max_size=4), weight_format=_text,
        kv_format=st.sampled_from(["bf16", "fp8", "int8", "int4"]),
    ),
    system=_some(id=_text, overrides=st.dictionaries(_text, _floats, max_size=4)),
    workload=_some(
        preset=st.none() | _text, batch=st.integers(1, 65536), prompt_tokens=st.integers(1, 10_000_000),
        prefix_hit_share=st.floats(0, 1), draft_tokens=st.integers(0, 32),
        requests_per_s=st.none() | st.floats(0, 1e9), slo_tpot_s=st.none() | st.floats(1e-9, 1e9),
    ),
    routing=_some(
        sigma=st.floats(0, 4), seed=st.integers(0, 2**31 - 1), source=st.sampled_from(["uniform", "generated"])
    ),
    policy=_some(
        id=_text, weight_bits=st.none() | st.floats(1, 16), cuda_graphs=st.booleans(),
        expert_parallel=st.none() | st.booleans(), tensor_parallel=st.none() | st.integers(1, 1024),
        options=st.dictionaries(_text, _option, max_size=4),
    ),
    economics=_some(
        mode=st.sampled_from(["owned", "rented"]), pue=st.floats(1, 5),
        rent_usd_per_hour=st.none() | st.floats(0, 1e7),
    ),
)  # fmt: skip


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    try:
        return validated(draw(_data))
    except ScenarioError as error:
        raise AssertionError("the strategy draws what the schema refuses") from error
