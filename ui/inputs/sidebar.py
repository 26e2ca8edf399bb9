"""All inputs of a scenario, in the order in which they are decided."""

from __future__ import annotations

import streamlit as st

from ui.guard import guard
from ui.inputs import economics, hardware, model, policy, workload


def show() -> None:
    """The sidebar. One group that fails leaves the others in place."""
    with st.sidebar:
        for name, part in (
            ("the model", model.show_group),
            ("the hardware", hardware.show),
            ("the workload", workload.show),
            ("the policy", policy.show),
            ("the economics", economics.show),
        ):
            with guard(f"showing the inputs of {name}"), st.container(gap="small"):
                part()
