"""Where the time goes: one decode step or one prefill pass by lane, with what overlaps and what is exposed."""

from __future__ import annotations

from html import escape

import streamlit as st

from planner.result import Prefill, Result, Step
from planner.words import findings, names, served
from planner.words.formats import NBSP, capital, data, seconds, share, signed_percent, significant
from ui import tables
from ui.charts import step as step_chart
from ui.guard import guard
from ui.sections.common import Data, draw, heading, pen, say
from ui.tables import LegendItem, Row, Swatch, Table
from ui.theme import part_colour

# A change of TPOT or cost below this share is no reason to buy anything.
NEGLIGIBLE = 0.0005
PASSES = {"decode": "A decode step", "prefill": "A prefill pass"}


@st.fragment(key="time")
def show(result: Result) -> None:
    """The section; a fragment, so that switching to prefill does not run the page again."""
    with guard("drawing the step"):
        _show(result)


def _show(result: Result) -> None:
    if result.decode is None:
        return
    with st.container(gap="xsmall", key="step"):
        chosen = st.session_state.get("step_pass") or "decode"
        prefill = result.prefill if chosen == "prefill" else None
        step = prefill.step if prefill is not None else result.decode
        heading("Where the time goes", "step", _data(step, result))
        if result.prefill is not None:
            st.segmented_control(
                "Pass", list(PASSES), default="decode", required=True, format_func=PASSES.__getitem__, key="step_pass",
                label_visibility="collapsed",
            )  # fmt: skip
        say(findings.step_finding(step))
        if prefill is not None:
            st.html(f'<p class="tl-quiet">{escape(_prefill_words(prefill))}</p>')
        st.html(_legend(step, ndp_tier(result)))
        figure = step_chart.figure(step, pen(), ndp_tier(result))
        draw(figure, f"step-{chosen}", f"{PASSES[chosen]} by device and link. {findings.step_finding(step)}")
        st.html(f'<p class="tl-quiet">{escape(_small_print(step))}</p>')
        if told := served.sentence(result):
            st.html(f'<p class="tl-quiet">{escape(told)}</p>')
        with st.expander("How busy every device and link is, and what one more unit would give"):
            st.html(_domains(step).html())
            if result.marginals:
                st.html(tables.finding("One more unit of each resource") + _marginals(result).html())


def ndp_tier(result: Result) -> str:
    """Which NDP the plan has: it decides the colour of near-data work."""
    tiers = {klass.tier for klass in result.placement.classes} if result.placement else set()
    return "cxl_ndp" if "cxl_ndp" in tiers and "dimm_ndp" not in tiers else "dimm_ndp"


def _legend(step: Step, ndp: str) -> str:
    factor, unit = findings.step_unit(step.total_s)
    exposed: dict[str, float] = {}
    for part in step_chart.ordered_parts(step):
        exposed[part.part] = exposed.get(part.part, 0.0) + part.exposed_s
    items = [
        LegendItem(Swatch(part_colour(part, pen(), ndp)), f"{significant(time * factor)}{NBSP}{unit}", names.part(part))
        for part, time in exposed.items()
        if time > 0
    ]
    return tables.inline_legend(items, f"{significant(step.total_s * factor)}{NBSP}{unit}")


def _small_print(step: Step) -> str:
    text = (
        f"Mean over {step.samples} sampled steps, standard error {seconds(step.standard_error_s)}, "
        f"P99 {seconds(step.p99_s)}. Byte floor {seconds(step.byte_floor_s)}, FLOP floor {seconds(step.flop_floor_s)}, "
        f"fixed {seconds(step.fixed_s)}."
    )
    others = [
        f"{names.bound(name)} {share(part)}"
        for name, part in sorted(step.bound_shares.items(), key=lambda item: -item[1])
        if part >= 0.005
    ]
    drafted = findings.drafted_words(step)
    text += f" {drafted}" if drafted else ""
    return text + (f" Exposed time by resource: {', '.join(others)}." if len(others) > 1 else "")


def _prefill_words(prefill: Prefill) -> str:
    text = f"One prompt alone takes {seconds(prefill.prompt_s)} {names.prefill_mode(prefill.mode)}"
    others = [
        f"{names.prefill_mode(mode)} {'not possible' if time is None else seconds(time)}"
        for mode, time in prefill.alternatives.items()
        if mode != prefill.mode
    ]
    return text + (f"; {', '.join(others)}." if others else ".")


def _domains(step: Step) -> Table:
    return Table(
        "How busy every device and link is",
        ["Device or link", "Busy, %", "FLOP, % of peak", "Bytes per step", "Bytes, % of peak"],
        [
            Row(
                domain.name,
                [
                    f"{100 * domain.busy_share:.0f}",
                    "" if domain.flop_share is None else significant(100 * domain.flop_share, 2),
                    "" if domain.bytes is None else str(data(domain.bytes)),
                    "" if domain.byte_share is None else significant(100 * domain.byte_share, 2),
                ],
            )
            for domain in step.domains
        ],
    )


def _marginals(result: Result) -> Table:
    """Relative changes; what would change nothing is named in one row."""
    felt = [m for m in result.marginals if max(abs(m.tpot_change), abs(m.usd_change or 0.0)) >= NEGLIGIBLE]
    rows = [
        Row(
            capital(m.unit),
            [
                signed_percent(m.tpot_change),
                signed_percent(m.tokens_per_s_system_change),
                "" if m.usd_change is None else signed_percent(m.usd_change),
            ],
        )
        for m in felt
    ]
    rest = [m.unit for m in result.marginals if m not in felt]
    if rest:
        rows.append(Row("No effect worth naming", ["", "", ""], small="; ".join(rest)))
    head = ["One more unit", "TPOT, %", "Output tok/s per system, %", "$/M output tokens, %"]
    return Table("What one more unit of each resource would give", head, rows)


def _data(step: Step, result: Result) -> list[Data]:
    factor, unit = findings.step_unit(step.total_s)
    parts = Table(
        "Parts of the step",
        ["Part", "Lane", f"Busy, {unit}", f"Exposed, {unit}"],
        [
            Row(
                names.part(p.part),
                [names.lane(p.lane), significant(p.busy_s * factor), significant(p.exposed_s * factor)],
            )
            for p in step_chart.ordered_parts(step)
        ],
    )
    domains = _domains(step)
    return [
        Data("Parts of the step", "tierline-step.csv", parts, lambda: _parts_csv(step)),
        Data("Devices and links", "tierline-utilisation.csv", None, domains.csv),
    ]


def _parts_csv(step: Step) -> str:
    rows = [[p.part, p.lane, p.busy_s, p.exposed_s] for p in step.parts]
    return tables.to_csv(["part", "lane", "busy_s", "exposed_s"], rows)
