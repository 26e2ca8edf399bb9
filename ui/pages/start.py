"""The Start page: four real questions, each answered by the engine when it is opened; and the words that pages use."""

from __future__ import annotations

import streamlit as st

from planner.guidance.questions import QUESTIONS, Answer, Option, Question
from planner.result import Result
from planner.scenario import Scenario
from planner.words import glossary, names
from planner.words.formats import DASH, dollars, prefixed, seconds
from ui import engine, state
from ui.guard import guard
from ui.kept import Kept
from ui.safe import md
from ui.sections.common import Data, say, section
from ui.tables import Row, Table

_ASKED = "questions_asked"
_GO = "start_open"
_answers: Kept[Answer] = Kept()


def run() -> None:
    """One run of the page."""
    if st.session_state.pop(_GO, None):
        st.switch_page(st.session_state["pages"]["plan"])
    st.title("Start with a question", anchor=False)
    st.caption(
        "Each answer is computed by the engine when you open it, from today's catalog; any of its scenarios opens on "
        "the Plan page, where every figure can be changed."
    )
    for question in QUESTIONS:
        with guard("answering this question"):
            _question(question)
    with guard("listing the words"):
        _words()


def _question(question: Question) -> None:
    with section(question.title, f"question-{question.id}"):
        st.caption(md(question.why))
        asked: set[str] = st.session_state.setdefault(_ASKED, set())
        if question.id not in asked:
            st.button(
                "Compute the answer",
                key=f"ask-{question.id}",
                icon=":material/play_arrow:",
                on_click=asked.add,
                args=(question.id,),
            )
            return
        with st.spinner("Planning the options …"):
            answer = answer_of(question)
        say(answer.sentence)
        st.html(_table(question, answer).html())
        for detail in answer.details:
            st.caption(md(detail))
        if answer.rests_on:
            st.caption(f":material/info: {md(answer.rests_on)}")
        _open(question, answer)


def answer_of(question: Question) -> Answer:
    """The answer of today's engine and catalog, computed once for all sessions."""
    return _answers.get((question.id, *engine.stamp()), lambda: question.solve(_plan))


def _plan(scenario: Scenario) -> Result:
    return engine.compute(scenario, False)


def _open(question: Question, answer: Answer) -> None:
    left, right = st.columns([0.7, 0.3], vertical_alignment="bottom")
    with left:
        place = st.selectbox(
            "Scenario to open",
            range(len(answer.options)),
            index=answer.chosen,
            format_func=lambda index: answer.options[index].name,
            key=f"option-{question.id}",
        )
    with right:
        st.button(
            "Open on the Plan page",
            key=f"open-{question.id}",
            icon=":material/tune:",
            on_click=_chosen,
            args=(answer.options[place or 0].scenario,),
        )


def _chosen(scenario: Scenario) -> None:
    state.put(scenario)
    st.session_state[_GO] = True


def _table(question: Question, answer: Answer) -> Table:
    head = ["Option", "Output tok/s", "TPOT", "$/M output tokens", "Waits for"]
    rows = [_row(option, index == answer.chosen) for index, option in enumerate(answer.options)]
    return Table(question.title, head, rows, wide_notes=True, stacked=True)


def _row(option: Option, chosen: bool) -> Row:
    figures = option.result.headline
    if not figures.fits or figures.tokens_per_s_system is None or figures.tpot_s is None:
        return Row(option.name, [DASH, DASH, DASH, "does not fit"], option.small, bold=chosen)
    usd = figures.usd_per_million_output_tokens
    cells = [
        str(prefixed(figures.tokens_per_s_system, "")).strip(),
        str(seconds(figures.tpot_s)),
        DASH if usd is None else dollars(usd),
        "" if figures.bound_by is None else names.bound(figures.bound_by),
    ]
    return Row(option.name, cells, option.small, bold=chosen)


def _words() -> None:
    lines = [(word, means) for _, rows in glossary.sections() for word, means in rows]
    csv = Table("Words", ["word", "means"], [Row(word, [means]) for word, means in lines]).csv
    with section("Words and units", "words", [Data("Words and units", "tierline-words.csv", None, csv)]):
        say("The same words on every page; where one is underlined with dots, its meaning shows on hover.")
        wanted = st.text_input(
            "Find a word", key="word", placeholder="TPOT, striped, PUE …", max_chars=60, live="300ms"
        )
        found = [row for row in lines if wanted.casefold() in " ".join(row).casefold()]
        if not found:
            st.caption("No word or meaning holds that.")
            return
        shown = found if wanted else found[:12]
        st.html(Table("Words and units", ["Word", "Means"], [Row(w, [m]) for w, m in shown], words=True).html())
        if len(shown) < len(found):
            with st.expander(f"{len(found) - len(shown)} more"):
                rows = [Row(word, [means]) for word, means in found[len(shown) :]]
                st.html(Table("More words and units", ["Word", "Means"], rows, words=True).html())
