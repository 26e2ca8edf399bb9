"""The Plan page: inputs left, the answer first, then why."""

from __future__ import annotations

from html import escape

import streamlit as st

from planner.result import Result
from ui import dialogs, engine, library, link, state
from ui.guard import guard
from ui.inputs import sidebar
from ui.safe import md
from ui.sections import (
    ablation,
    guidance,
    head,
    linked,
    memory,
    money,
    reports,
    rests,
    simulate,
    sure,
    time,
    unfit,
    watch,
    where,
)

_ASKED = "asked"


def run() -> None:
    """One run of the page."""
    saved, opened_by = state.opened(), state.linked()
    if opened_by is None:
        sidebar.show()
    else:
        linked.inputs()
    # Containers that are always there: nothing below changes its place when a notice comes or goes.
    with st.container(key="notices", gap="small"):
        _notices()
    with st.container(key="others", gap="small"), guard("looking for other people's versions"):
        if saved is not None and opened_by is not None:
            linked.banner(saved, opened_by)
        elif saved is not None:
            watch.show(saved)
    with st.container(key="planning", gap="small"):
        result, complete = _result()
    with guard("opening the dialog"):
        dialogs.show(result if complete else None, result)
    if result is None:
        return
    with guard("showing the answer"), st.container(key="answer"):
        head.show(result, complete)
    if result.headline.fits:
        _fits(result, complete)
    else:
        _does_not_fit(result)
    _foot(result)


def _result() -> tuple[Result | None, bool]:
    """The result of what the inputs say and whether it is complete; None, with a sentence, where there is none."""
    scenario = state.current()
    saved = state.opened()
    if saved is not None and not state.edited():
        stored = library.stored_result(saved)
        if stored is not None:
            left, right = st.columns([0.78, 0.22], vertical_alignment="center")
            with left:
                st.info(f"These are the stored figures, computed with engine {md(stored[1])}; this is engine "
                        f"{md(engine.stamp()[0])}.", icon=":material/history:")  # fmt: skip
            with right:
                st.button(
                    "Recompute", key="recompute", on_click=library.use_todays, args=(saved,), icon=":material/refresh:"
                )
            return stored[0], True
    try:
        before, key = st.session_state.get(_ASKED), engine.key_of(scenario)
        if before is not None and before != key:
            engine.drop(before)
        st.session_state[_ASKED] = key
        with st.spinner(f"Planning {md(scenario.model.id)} on {md(scenario.system.id)} …"):
            result, complete = engine.best(scenario)
        if complete and saved is not None and not state.edited():
            library.keep_result(result)
        return result, complete
    except engine.CannotPlanError as error:
        st.title(":material/block: Cannot be planned", anchor=False)
        st.error(md(str(error)), icon=":material/error:")
        head.buttons()
    except Exception:
        with guard("planning this scenario"):
            raise
    return None, True


def _notices() -> None:
    notice = state.pending_notice()
    if notice:
        st.warning(md(notice), icon=":material/link_off:")
    faults = state.faults()
    if faults:
        texts = list(faults.values())
        more = f" And {len(texts) - 1} more in the sidebar." if len(texts) > 1 else ""
        st.warning(md(f"{texts[0]} The last good value is used below.{more}"), icon=":material/edit_off:")
    large = link.too_large()
    if large:
        st.info(md(large), icon=":material/link_off:")


def _fits(result: Result, complete: bool) -> None:
    where.show(result)
    time.show(result)
    left, right = st.columns(2, gap="large")
    with left, guard("showing the memory"):
        memory.show(result)
    with right, guard("showing energy and money"):
        money.show(result)
    with guard("showing what the policy reports"):
        reports.show(result, complete)
        ablation.show(result)
    simulate.show(result)
    with guard("showing how sure this is"):
        sure.show(result, complete)
    with guard("showing advice"):
        guidance.show(result)
    with guard("showing the assumptions"):
        rests.show(result)


def _does_not_fit(result: Result) -> None:
    with guard("showing the changes that fit"):
        unfit.show(result)
    with guard("showing the memory"):
        memory.show(result, wide=True)
    where.show(result)
    with guard("showing the assumptions"):
        rests.show(result)


def _foot(result: Result) -> None:
    policy = result.policy
    parts = [
        f"{policy.name}: {policy.sentence}",
        f"KV cache on {policy.kv_location}, attention on {policy.attention_device}, prefill {policy.prefill}; "
        f"{policy.parallelism}; GPU weights {policy.gpu_format}, other experts {policy.expert_format}.",
        *policy.notes,
        f"Source: {policy.source}.",
    ]
    if result.placement is not None:
        parts.append(f"Placement {result.placement.learned_on}.")
    with st.expander("How this policy works here"):
        st.html("".join(f'<p class="tl-note-line">{escape(part)}</p>' for part in parts))
    stamp = (
        f"Engine {result.engine_version}, catalog {result.catalog_digest[:12]}, scenario {result.scenario_hash[:12]}."
    )
    st.html(f'<p class="tl-quiet">{escape(stamp)}</p>')
