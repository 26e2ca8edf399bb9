"""The Compare page: two to four scenarios side by side, what differs, and the reason for every delta."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape

import streamlit as st

from planner.compare import Comparison, Delta, Pair, compare
from planner.difference import flat
from planner.words import comparison as words
from planner.words.names import HEADLINE
from ui import engine, tables
from ui.compare import briefed, charts, choice, saved, waterfall
from ui.guard import guard
from ui.kept import Kept
from ui.sections.common import Data, draw, pen, say, section
from ui.tables import LegendItem, Row, Swatch, Table
from ui.theme import part_colour

KEPT: Kept[Comparison] = Kept()
FIRST_METRIC = "tokens_per_s_end_to_end"


def run() -> None:
    """One run of the page."""
    st.title("Compare", anchor=False)
    with guard("opening the saved comparison"):
        saved.from_link()
    kept = saved.opened()
    if kept is not None:
        name, record = kept
        again = saved.head(name, record, engine.stamp())
        sides = [choice.Choice(side.label, side.scenario) for side in record.sides]
        _show(_found(sides) if again else record, sides)
        return
    chosen = choice.show()
    if len(chosen) < 2:
        st.info(
            "Choose two to four scenarios; the first is the base. Save on the Plan page keeps one to choose here.",
            icon=":material/compare_arrows:",
        )
    else:
        _show(_found(chosen), chosen)
    with guard("listing saved comparisons"):
        saved.choose()


def _found(chosen: Sequence[choice.Choice]) -> Comparison:
    """The comparison, planned now or kept from before."""
    with st.container(key="comparing"):
        bar = st.progress(0.0, "Planning the sides …")

        def progress(done: int, most: int) -> None:
            bar.progress(min(done / most, 1.0), f"Finding the reasons: {done} of at most {most} mixtures planned …")

        key = (tuple((c.label, c.scenario.canonical_json()) for c in chosen), engine.stamp())
        found = KEPT.get(
            key,
            lambda: compare(
                [c.scenario for c in chosen], [c.label for c in chosen], planned=engine.planned, progress=progress
            ),
        )
        bar.empty()
    return found


def _show(found: Comparison, chosen: Sequence[choice.Choice]) -> None:
    with st.container(horizontal=True, gap="small", key="compare-actions"):
        saved.keep(found)
        if st.button(
            "Brief", key="compare-brief", icon=":material/description:",
            help="One printable page to decide on, with these scenarios as its options.",
        ):  # fmt: skip
            sides = [(side.label, side.scenario) for side in found.sides]
            briefed.ask(sides, chosen[0].saved)
            st.switch_page(st.session_state["pages"]["brief"])
    with guard("showing the figures"):
        _sides(found)
    with guard("showing the reasons"):
        _reasons(found)
    with guard("showing what differs"):
        _differing(found)
    with guard("showing time and memory"):
        _time_and_memory(found)
    _foot(found)


def _sides(found: Comparison) -> None:
    rows = words.figure_rows(found)
    table = Table(
        "Headline figures side by side",
        ["", *(side.label for side in found.sides)],
        [Row(name, cells) for name, *cells in rows],
        stacked=True,
    )
    with section("Side by side", "sides", [Data("Figures", "tierline-compare.csv", None, lambda: _csv(found))]):
        for note in found.notes:
            st.html(f'<p class="tl-note-line">{escape(note)}</p>')
        st.html(table.html())
        if ranges := words.ranges_sentence(found):
            st.html(f'<p class="tl-quiet">{escape(ranges)}</p>')
        for column, metric in zip(st.columns(len(charts.SHOWN), gap="medium"), charts.SHOWN, strict=True):
            with column:
                name = words.metric_name(metric)
                values = (f"{s.label} {words.value_text(metric, s.figures[metric])}" for s in found.sides)
                st.html(f'<p class="tl-text"><b>{escape(name)}</b></p>')
                draw(charts.headline(found, metric, pen()), f"sides-{metric}", f"{name}: {', '.join(values)}")


def _reasons(found: Comparison) -> None:
    tables_ = [
        Data(f"Reasons, {found.sides[pair.other].label}", f"tierline-reasons-{pair.other + 1}.csv", None,
             partial(_reasons_csv, pair))
        for pair in found.pairs
    ]  # fmt: skip
    with section("Why they differ", "reasons", tables_):
        metric = st.selectbox(
            "Figure to explain",
            list(HEADLINE),
            index=list(HEADLINE).index(FIRST_METRIC),
            format_func=words.metric_name,
            key="reasons-metric",
            width=480,
        )
        for pair in found.pairs:
            _pair(found, pair, next(delta for delta in pair.deltas if delta.metric == metric))
        st.html(
            '<p class="tl-quiet">Each reason is what changing that group of inputs adds, averaged over all orders of '
            "changing them (Shapley value); the reasons add up to the difference exactly. A group in which the two "
            "agree is not listed.</p>"
        )


def _pair(found: Comparison, pair: Pair, delta: Delta) -> None:
    base, other = found.sides[pair.base].label, found.sides[pair.other].label
    sentence = words.reasons_sentence(found, pair, delta)
    with st.container(key=f"pair-{pair.other}", gap="xsmall"):
        say(sentence)
        rows = words.delta_rows(delta)
        if not rows or not delta.parts:
            return
        left, right = st.columns([0.6, 0.4], gap="large")
        with left:
            draw(waterfall.figure(delta, base, other, pen()), f"waterfall-{pair.other}", sentence)
        with right:
            shown = [Row(name, cells, bold=name == rows[-1][0]) for name, *cells in rows]
            st.html(Table(f"Reasons from {base} to {other}", ["From", "Change", "Of the base"], shown).html())
            if pair.merges:
                named = ", ".join(merge.name for merge in pair.merges)
                st.html(
                    f'<p class="tl-quiet">{escape(named)}: changed as one, because one without the other gives no '
                    f"plan. {escape(pair.merged_because)}</p>"
                )


def _differing(found: Comparison) -> None:
    rows = [Row(name, cells, small=group) for name, *cells, group in words.difference_rows(found)]
    table = Table("Inputs that differ", ["Input", *(s.label for s in found.sides)], rows, stacked=True)
    with section("What differs", "differs", [Data("Inputs that differ", "tierline-differs.csv", None, table.csv)]):
        if not rows:
            say("Nothing: all sides have the same inputs.")
            return
        number = "One input differs" if len(rows) == 1 else f"{len(rows)} inputs differ"
        say(f"{number}; all others are the same in all sides.")
        st.html(table.html())


def _time_and_memory(found: Comparison) -> None:
    left, right = st.columns(2, gap="large")
    with left, section("Where the time goes", "compare-time"):
        planned = [side for side in found.sides if side.step]
        if planned:
            draw(charts.time(found.sides, pen()), "compare-time-chart", _time_words(found))
            st.html(tables.inline_legend(_parts(found)))
    with right, section("Memory by tier", "compare-memory"):
        if any(side.memory for side in found.sides):
            alt = "; ".join(
                f"{side.label}: "
                + ", ".join(f"{t.name} {t.value / 1e9:,.0f} of {(t.of or 0) / 1e9:,.0f} GB" for t in side.memory)
                for side in found.sides
            )
            draw(charts.memory(found.sides, pen()), "compare-memory-chart", f"Memory used by tier. {alt}")


def _parts(found: Comparison) -> list[LegendItem]:
    seen = dict.fromkeys((part.id, part.name) for side in found.sides for part in side.step)
    ndp = "cxl_ndp" if any(tier.id == "cxl_ndp" for side in found.sides for tier in side.memory) else "dimm_ndp"
    return [LegendItem(Swatch(part_colour(id, pen(), ndp)), name) for id, name in seen]


def _time_words(found: Comparison) -> str:
    texts = []
    for side in found.sides:
        parts = ", ".join(f"{p.name} {p.value * 1e3:.3g} ms" for p in side.step)
        texts.append(f"{side.label}: {parts or 'no plan'}")
    return "Exposed time of a decode step. " + "; ".join(texts)


def _foot(found: Comparison) -> None:
    st.download_button(
        "Comparison, JSON",
        data=lambda: found.model_dump_json(indent=2),
        file_name="tierline-comparison.json",
        mime="application/json",
        key="compare-json",
        icon=":material/download:",
        on_click="ignore",
    )
    stamp = f"Engine {found.engine_version}, catalog {found.catalog_digest[:12]}."
    st.html(f'<p class="tl-quiet">{escape(stamp)}</p>')


def _csv(found: Comparison) -> str:
    """Figures and all inputs of every side: a file that says what it is about."""
    head = ["kind", "name", *(side.label for side in found.sides)]
    rows: list[Sequence[object]] = []
    for metric in HEADLINE:
        rows.append(["figure", metric, *(side.figures[metric] for side in found.sides)])
        for place, end in ((0, "low"), (1, "high")):
            ends = [side.intervals.get(metric) for side in found.sides]
            rows.append(["figure", f"{metric}, {end}", *(None if e is None else e[place] for e in ends)])
    sides = [flat(side.scenario) for side in found.sides]
    for path in dict.fromkeys(path for side in sides for path in side):
        rows.append(["input", path, *(_cell(side.get(path)) for side in sides)])
    return tables.to_csv(head, rows)


def _cell(value: object) -> object:
    return value if value is None or isinstance(value, (int, float, str)) else str(value)


def _reasons_csv(pair: Pair) -> str:
    rows: list[Sequence[object]] = []
    for delta in pair.deltas:
        rows += [[delta.metric, delta.unit, part.name, part.value] for part in delta.parts]
        rows.append([delta.metric, delta.unit, "all together", delta.delta])
    return tables.to_csv(["metric", "unit", "reason", "change"], rows)
