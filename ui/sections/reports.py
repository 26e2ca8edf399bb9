"""What only some policies have to tell: bit selection, schedule, caches, migration, quality, classes."""

from __future__ import annotations

import streamlit as st

from planner.planning import reports_schedule
from planner.result import Details, QualityReport, Result, ScheduleReport, SelectorReport
from planner.words.formats import capital, data, seconds, share, significant, trimmed
from ui.sections.common import say, section
from ui.tables import Row, Table

LEFT = "Left on the table by the published refinement"
WORDS = {"greedy": "first (greedy)"}


def show(result: Result, complete: bool = True) -> None:
    """The section; absent where the policy has nothing to tell. What is still computed says so in its place."""
    rows = _rows(result)
    told = result.details.schedule if result.details else None
    if told is None and not complete and reports_schedule(result.scenario.policy.id):
        rows.insert(
            0, Row(LEFT, ["\u2026"], "The improved schedule is being computed; the plan above does not wait for it.")
        )
    if not rows:
        return
    with section("What this policy reports", "reports"):
        if result.bound is not None:
            say(result.bound.sentence)
        st.html(Table("Reports of the policy", ["Report", "Value"], rows, wide_notes=True).html())


def _rows(result: Result) -> list[Row]:
    rows: list[Row] = []
    if result.bound is not None:
        note = (
            "A relaxation over tiers, bytes, FLOP and links: no placement and no policy on this machine is faster "
            f"under this routing. Limited by {result.bound.limited_by}; {share(result.bound.share)} of this plan's."
        )
        rows.append(Row("Lower bound on a decode step", [_seconds(result.bound.step_s)], note))
    told = result.details
    if told is None:
        return rows
    if told.schedule is not None:
        rows.append(_schedule(told.schedule))
    if told.selector is not None:
        rows.append(_selector(told.selector))
    if told.quality is not None:
        rows.append(_quality(told.quality))
    rows.extend(_moved(told))
    rows.extend(_classes(told))
    rows.extend(Row(label, [""], sentence) for label, sentence in told.facts)
    return rows


def _seconds(value: float) -> str:
    quantity = seconds(value)
    return f"{quantity.value}\u00a0{quantity.unit}"


def _schedule(report: ScheduleReport) -> Row:
    """How far the published refinement is from the improved schedule, and both from what is proven."""
    left = report.published_s / report.improved_s - 1.0 if report.improved_s > 0 else 0.0
    note = (
        f"One sampled step, experts of all layers: {_seconds(report.published_s)} as published, "
        f"{_seconds(report.improved_s)} improved."
    )
    if report.lower_bound_s:
        gap = report.improved_s / report.lower_bound_s - 1.0
        note += f" For this layout the improved one is proven to be {_within(gap)} of the best."
    note += f" This plan uses the {WORDS.get(report.mode, report.mode)} schedule"
    if report.gap is not None and report.mode != "improved":
        note += f", {_within(report.gap)} of the best; improved can be chosen under Formats, parallelism and options"
    return Row(LEFT, [share(left)], note + ".")


def _within(gap: float) -> str:
    return f"within {trimmed(100 * max(gap, 0.0), 2)}\u00a0%"


def _selector(report: SelectorReport) -> Row:
    tuples = {counts: report.counts.count(counts) for counts in dict.fromkeys(report.counts)}
    common = max(tuples, key=lambda c: tuples[c])
    if not any(common) and len(tuples) == 1:
        return Row("Bit widths", ["none"], "Every expert is in HBM, so there are no widths to select.")
    how = "weighted by importance" if report.weighted else "not weighted"
    note = (
        f"{capital(report.method)} search, {report.scope}, losses {how}; most layers give {common[0]}, {common[1]}, "
        f"{common[2]} and {common[3]} experts 4, 3, 2 and 1 bit. Losses: {report.loss_source}."
    )
    return Row(
        f"Bit widths under a mean of {report.budget_bits:g}: loss above the optimum",
        [share(report.left_on_the_table)],
        note,
    )


def _quality(report: QualityReport) -> Row:
    value = "unknown" if report.points is None else f"{significant(report.points)} points"
    return Row("Predicted change of accuracy (surrogate)", [value], report.sentence)


def _moved(told: Details) -> list[Row]:
    rows = [
        Row(
            f"Cache: {cache.name}",
            [f"{share(cache.hit_rate)} hits"],
            f"{significant(cache.slots_per_layer)} slots per layer, {data(cache.bytes_per_step).value} "
            f"{data(cache.bytes_per_step).unit} moved per step; {cache.steps} steps timed after {cache.warm_up_steps}.",
        )
        for cache in told.caches
    ]
    if told.migration is not None:
        m = told.migration
        moved = data(m.bytes)
        note = f"{moved.value} {moved.unit} in {_seconds(m.fill_s)}, of which prefill hides {_seconds(m.hidden_s)}."
        rows.append(Row("Hot-set migration that shows", [_seconds(m.exposed_s)], note))
    return rows


def _classes(told: Details) -> list[Row]:
    """One row for each definition: its classes with their shares of experts and of tokens."""
    rows = []
    for definition in dict.fromkeys(item.definition for item in told.classes):
        group = [item for item in told.classes if item.definition == definition]
        parts = [f"{i.name} {share(i.expert_share)} of experts, {share(i.token_share)} of tokens" for i in group]
        doubt = "" if group[0].supported else " This definition is not supported by its source."
        rows.append(Row(f"Classes by {definition}", [""], f"{capital('; '.join(parts))}.{doubt}"))
    return rows
