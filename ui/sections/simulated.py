"""A simulation as shown: its finding, one chart at a time over the steps, the figures, the classes."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st

from planner.layout import Simulation
from planner.words.formats import NBSP, count, data, seconds, seconds_unit, share, significant, trimmed
from ui import tables
from ui.charts import lines
from ui.charts.base import Spec
from ui.charts.lines import Line
from ui.sections.common import Data, data_menu, draw, pen, say
from ui.tables import Row, Table
from ui.theme import LINK, TIERS

MECHANISMS = {"prefetch": "prefetch", "relayout": "relayout", "rebalance": "rebalancing"}


def show(found: Simulation) -> None:
    """Everything about one simulation."""
    charts = {"step": "Step time", "busy": "Busy", "moved": "Moved", "error": "Error"}
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        chosen = st.segmented_control(
            "Over the steps", list(charts), default="step", required=True, format_func=charts.__getitem__,
            key="simulated-chart", label_visibility="collapsed", width="content",
        )  # fmt: skip
        data_menu("simulated", _data(found))
    drawn: dict[str, Callable[[Simulation], tuple[str, Spec]]] = {
        "step": _step, "busy": _busy, "moved": _moved, "error": _error,
    }  # fmt: skip
    sentence, figure = drawn[chosen or "step"](found)
    say(sentence)
    draw(figure, f"simulated-{chosen}", f"{charts[chosen or 'step']} over the steps. {sentence}")
    st.html(_figures(found).html())
    st.html(f'<p class="tl-quiet">{escape(" ".join([found.source, *found.warnings]))}</p>')
    with st.expander("Hot, warm and cold: shares of experts and tokens"):
        st.html(_classes(found).html())


def _percent(value: float) -> str:
    return f"{significant(100 * value)}{NBSP}%"


def _bytes(value: float) -> str:
    return "none" if value == 0 else str(data(value))


# --- charts: the finding and the figure ------------------------------------------------------------------------------
def _step(found: Simulation) -> tuple[str, Spec]:
    values = found.series.step_s
    factor, unit = seconds_unit(found.mean_step_s)
    low, high = min(values) * factor, max(values) * factor
    spread = f", from {significant(low)} to {significant(high)}" if found.steps > 1 else ""
    text = (
        f"A step takes {significant(found.mean_step_s * factor)}{NBSP}{unit} on average{spread}: "
        f"{significant(found.tokens_per_s)} output tok/s per system."
    )
    line = Line("step", [v * factor for v in values], pen().text)
    return text, lines.figure([line], unit, pen(), mean=found.mean_step_s * factor)


def _busy(found: Simulation) -> tuple[str, Spec]:
    used, series = found.utilisation, found.series
    names = {"GPU": used.gpu, "CPU": used.cpu, "DIMMs": used.ndp, "PCIe": used.pcie}
    busiest = max(names, key=names.__getitem__)
    waits = f" ({share(used.gpu_working)} without waits for PCIe)" if busiest == "GPU" else ""
    text = (
        f"{busiest} is busiest, {share(names[busiest])} of the time{waits}; GPU, CPU and DIMMs that take part are busy "
        f"{share(used.mean)} on average."
    )
    drawn = [
        Line("GPU", [100 * v for v in series.gpu_busy], TIERS["gpu"]),
        Line("CPU", [100 * v for v in series.cpu_busy], TIERS["host"]),
        Line("DIMMs", [100 * v for v in series.ndp_busy], TIERS["dimm_ndp"]),
        Line("PCIe", [100 * v for v in series.pcie_busy], LINK),
    ]
    return text, lines.figure(drawn, "busy, % of the step", pen(), top=105.0)


def _moved(found: Simulation) -> tuple[str, Spec]:
    total = sum(found.bytes_per_step.values())
    if total == 0:
        text = "No expert moves."
    else:
        most = max(found.bytes_per_step, key=found.bytes_per_step.__getitem__)
        text = (
            f"{_bytes(total)} move in a step on average, most of it by {MECHANISMS.get(most, most)} "
            f"({share(found.bytes_per_step[most] / total)})."
        )
    # The colour of the tier that the bytes arrive in.
    arrive = (TIERS["gpu"], TIERS["host"], TIERS["dimm_ndp"])
    drawn = [
        Line(word, [v / 1e9 for v in getattr(found.series, f"{name}_bytes")], colour)
        for (name, word), colour in zip(MECHANISMS.items(), arrive, strict=True)
    ]
    return text, lines.figure(drawn, "GB in a step", pen())


def _error(found: Simulation) -> tuple[str, Spec]:
    text = (
        f"The predicted loads are off by {_percent(found.prediction_error)} of all tokens (relative L1, mean over "
        "layers and steps)."
    )
    line = Line("error", [100 * v for v in found.series.prediction_error], pen().text)
    return text, lines.figure([line], "relative L1 error, %", pen(), mean=100 * found.prediction_error)


# --- figures ---------------------------------------------------------------------------------------------------------
def _figures(found: Simulation) -> Table:
    used = found.utilisation
    decided = (
        "No prefetch or relayout was decided."
        if found.decision_accuracy is None
        else f"Share of {count(found.decisions)} prefetches and relayouts that also gain under the true loads of "
        "their step."
    )
    moved = ", ".join(f"{_bytes(v)} by {MECHANISMS.get(name, name)}" for name, v in found.bytes_per_step.items())
    rows = [
        Row("Load-prediction error", [_percent(found.prediction_error)], "Relative L1, mean over layers and steps."),
        Row(
            "Decision accuracy",
            ["none" if found.decision_accuracy is None else _percent(found.decision_accuracy)],
            decided,
        ),
        Row("Moved in a step", [_bytes(sum(found.bytes_per_step.values()))], f"{moved}."),
        Row(
            "Overhead hidden",
            [str(seconds(found.hidden_s))],
            f"Of the busiest link in a step, in {seconds(found.window_s)} of GPU work.",
        ),
        Row("Overhead exposed", [str(seconds(found.exposed_s))], f"{_percent(found.exposed_share)} of the step."),
        Row(
            "Transfers late",
            [trimmed(found.tasks_late_mean, 3)],
            f"Left to the next step, mean; {count(found.tasks_done)} done in all.",
        ),
        Row(
            "Busy: GPU",
            [share(used.gpu)],
            f"{share(used.gpu_working)} without waits for PCIe. CPU {share(used.cpu)}; DIMMs {share(used.ndp)}, their "
            f"mean, reads by GPU and CPU included; PCIe {share(used.pcie)}.",
        ),
        Row("Routed experts in HBM", [f"{found.resident_per_layer}"], "Of each layer."),
    ]
    return Table("Figures of the simulation", ["Over all steps", "Value"], rows, wide_notes=True)


def _classes(found: Simulation) -> Table:
    """Each definition in a row of its own, its classes under it."""
    rows: list[Row] = []
    for definition in dict.fromkeys(item.definition for item in found.classes):
        group = [item for item in found.classes if item.definition == definition]
        doubt = "" if group[0].supported else "; no support in the source"
        rows.append(Row(f"By {definition}{doubt}", [], bold=True))
        rows.extend(Row(item.name, [share(item.expert_share), share(item.token_share)]) for item in group)
    return Table("Classes of experts", ["Class", "Experts", "Tokens"], rows, wide_notes=True)


def _data(found: Simulation) -> list[Data]:
    return [
        Data("Steps", "tierline-simulation.csv", None, lambda: _steps_csv(found)),
        Data("Figures", "tierline-simulation-figures.csv", None, _figures(found).csv),
        Data("Classes", "tierline-simulation-classes.csv", None, _classes(found).csv),
    ]


def _steps_csv(found: Simulation) -> str:
    series = found.series.model_dump()
    names = list(series)
    rows = [[index + 1, *(series[name][index] for name in names)] for index in range(found.steps)]
    return tables.to_csv(["step", *names], rows)
