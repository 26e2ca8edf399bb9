"""Economics: owned or rented first, prices, life and electricity folded."""

from __future__ import annotations

import streamlit as st

from planner.fields import fields
from planner.words.formats import share, trimmed
from ui import state
from ui.inputs.fields import caption, choice, group, number, pair


def show() -> None:
    """The group in the sidebar."""
    baseline = {path: fields()[path].default for path in fields() if path.startswith("economics.")}
    edited = group("Economics", "economics", baseline)
    owned = state.value("economics.mode") == "owned"
    choice("economics.mode", edited=edited["economics.mode"], format_func=_mode)
    now = state.current().economics
    caption(
        f"{trimmed(now.life_years)} years, "
        * owned
        + f"{share(now.busy_share)} busy; ${trimmed(now.electricity_usd_per_kwh)} per kWh, PUE {trimmed(now.pue)}, "
        f"grid {trimmed(now.grid_gco2e_per_kwh)} gCO\u2082e per kWh"
    )
    with st.expander("Prices, life, electricity", key="fold-economics"):
        first = ("life_years", "busy_share") if owned else ("rent_usd_per_hour", "busy_share")
        for row in (first, ("electricity_usd_per_kwh", "pue"), ("grid_gco2e_per_kwh", "other_usd_per_month")):
            for column, name in zip(pair(), row, strict=True):
                path = f"economics.{name}"
                with column:
                    number(path, edited=edited[path])
        caption("Prices of devices are figures of the hardware: see Devices, links and prices.")


def _mode(value: str) -> str:
    return {"owned": "Owned: bill of materials over its life", "rented": "Rented by the hour"}.get(value, value)
