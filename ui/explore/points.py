"""What every sweep offers: the chosen point and its scenario, the table, files with all inputs, and keeping it."""

from __future__ import annotations

from html import escape

import streamlit as st

from planner.scenario import Scenario
from planner.sweep import METRICS, Point, SweepResult
from planner.sweep.about import label
from planner.sweep.metrics import Metric
from planner.sweep.table import to_csv
from planner.words.formats import dollars, seconds, significant
from planner.words.names import BOUNDS
from ui import address, link, state, studies
from ui.explore import spans
from ui.safe import md
from ui.tables import Row, Table

TABLE_ROWS = 100
SHOWN = ("tokens_per_s_user", "tokens_per_s_system", "usd_per_million_output_tokens")
_HEADS = {
    "tokens_per_s_user": "tok/s per user",
    "tokens_per_s_system": "tok/s per system",
    "usd_per_million_output_tokens": "$/M output",
    "tokens_per_s_gpu": "tok/s per GPU",
}


def name(result: SweepResult, point: Point) -> str:
    """A point by its values: ``Batch 64, All on GPUs``."""
    parts = []
    for path, value in zip(result.paths, point.values, strict=True):
        if path == "policy.id":
            parts.append(spans.policy_name(str(value)))
        elif path == "system.id":
            parts.append(point.outcome.system_name or str(value))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            parts.append(f"{label(path)} {spans.full(value, path)}")
        else:
            parts.append(f"{label(path)} {'as the policy does' if value is None else value}")
    return ", ".join(parts)


def quantity(metric: Metric, value: float | None) -> str:
    """A figure with its unit."""
    if value is None:
        return "none"
    if metric.key in ("tpot_s", "ttft_s"):
        return str(seconds(value))
    if metric.unit == "USD":
        return dollars(value)
    return f"{significant(value)}\u00a0{metric.unit}"


def hover(result: SweepResult, point: Point, *metrics: Metric) -> str:
    """What a point says when it is pointed at."""
    lines = [f"<b>{escape(name(result, point))}</b>"]
    if not point.fits:
        return "<br>".join([*lines, escape(point.outcome.reason)])
    lines += [f"{quantity(one, point.figure(one.key))}, {one.name}" for one in metrics]
    lines.append(f"bound by {BOUNDS.get(point.outcome.bound_by or '', 'nothing')}")
    if point.outcome.meets_slo is False:
        lines.append("misses the targets")
    return "<br>".join(lines)


def chosen(event: object, key: str) -> None:
    """A click on the chart chooses its point in the list below."""
    points = getattr(getattr(event, "selection", None), "points", None) or []
    data = points[0].get("customdata") if points else None
    index = data[0] if isinstance(data, list) else data
    seen = f"explore-{key}-clicked"
    if isinstance(index, (int, float)) and st.session_state.get(seen) != index:
        st.session_state[seen] = index
        st.session_state[f"explore-{key}-point"] = int(index)


def opener(result: SweepResult, key: str, best: int | None = None) -> None:
    """Choose any point and open it as the scenario of all pages."""
    places = [point.index for point in result.points if point.scenario_hash is not None]
    if not places:
        return
    field = f"explore-{key}-point"
    by_index = {point.index: point for point in result.points}
    if st.session_state.get(field) not in places:
        st.session_state[field] = best if best in places else places[0]
    left, right = st.columns([0.72, 0.28], vertical_alignment="bottom")
    with left:
        index: int = st.selectbox(
            "Point (or click one in the chart)", places, format_func=lambda i: name(result, by_index[i]), key=field
        )
    point = by_index[index]
    with right:
        if st.button("Open as a scenario", key=f"explore-{key}-open", icon=":material/open_in_new:", width="stretch"):
            state.put(result.scenario(point))
            st.switch_page(st.session_state["pages"]["plan"])
    if point.fits:
        told = "; ".join(f"{quantity(METRICS[k], point.figure(k))}" for k in SHOWN)
        bound = BOUNDS.get(point.outcome.bound_by or "", "nothing")
        target = {None: "", True: "; meets its targets", False: "; misses its targets"}[point.outcome.meets_slo]
        st.caption(md(f"{told} per million output tokens; bound by {bound}{target}."))
    else:
        st.caption(md(point.outcome.reason))


def table(result: SweepResult, best: int | None = None, near: tuple[int, ...] = ()) -> Table:
    """All points, up to a hundred of them, the best bold and those near it marked."""
    rows = []
    for point in result.points[:TABLE_ROWS]:
        cells = ["" if point.figure(k) is None else significant(point.figure(k) or 0.0) for k in SHOWN]
        why = BOUNDS.get(point.outcome.bound_by or "", "") if point.fits else ""
        missed = "misses its targets" if point.outcome.meets_slo is False else ""
        badge = "best" if point.index == best else "within 2 %" if point.index in near else ""
        rows.append(
            Row(name(result, point), [*cells, why], small=missed if point.fits else point.outcome.reason,
                bold=point.index == best, badge=badge)
        )  # fmt: skip
    return Table("Points of the sweep", ["Point", *(_HEADS[k] for k in SHOWN), "Bound by"], rows, wide_notes=True)


def scenario_link(scenario: Scenario) -> str:
    """The address that opens a scenario; empty where it is too large for one."""
    return "" if address.too_large(scenario) else link.page_address(**{link.WHOLE: address.encode(scenario)})


def files(result: SweepResult, key: str) -> None:
    """The sweep as files, each with every input of every point in it."""
    with st.container(horizontal=True):
        st.download_button(
            "CSV, all inputs", data=lambda: to_csv(result, scenario_link), file_name="tierline-sweep.csv",
            mime="text/csv", key=f"explore-{key}-csv", icon=":material/download:", on_click="ignore",
        )  # fmt: skip
        st.download_button(
            "JSON, all inputs", data=lambda: result.to_json(), file_name="tierline-sweep.json", mime="application/json",
            key=f"explore-{key}-json", icon=":material/download:", on_click="ignore",
        )  # fmt: skip
        st.download_button(
            "Specification for the command line", data=lambda: result.spec.model_dump_json(indent=2),
            file_name="tierline-sweep-spec.json", mime="application/json", key=f"explore-{key}-spec",
            icon=":material/terminal:", on_click="ignore",
            help="python -m planner sweep tierline-sweep-spec.json gives the same figures",
        )  # fmt: skip


def keep(result: SweepResult, key: str, question: str, view: dict[str, object]) -> None:
    """Save the sweep with its question and what the reader chose to see of it in the library."""
    studies.keep(
        "sweep", "sweep", f"explore-{key}", result.spec.name,
        lambda: {"question": question, "view": view, "sweep": result.spec.model_dump(mode="json")},
        lambda: result.to_json().encode(),
    )  # fmt: skip
