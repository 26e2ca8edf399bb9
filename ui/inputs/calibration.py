"""The calibration of a scenario: the shipped one, one that this machine keeps, or one fitted to a person's own runs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import TYPE_CHECKING

import streamlit as st

from planner import calibration as kept
from planner.errors import PlanError
from planner.fields import ScenarioError
from planner.words.formats import count, shorten
from ui import state
from ui.inputs.fields import caption, choice

if TYPE_CHECKING:
    from validation.measured.own import Own

PATH = "system.calibration"
LARGEST_MB = 1
MOST_RUNS = 100  # about half a minute; the command takes more
MOST_KEPT = 200  # a page may not fill the disk of the machine that serves it
_FILE, _ROUND, _FAULT, _OUTCOME = "runs-file", "runs-file-round", "runs-file-fault", "runs-file-outcome"


@dataclass(frozen=True)
class Outcome:
    """A fit that a person has not yet decided on: what it does to runs that were left out, and what was not used."""

    own: Own
    source: str
    unusable: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """Before and after, on runs that the fit has not seen."""
        own = self.own
        return (
            f"{count(own.rows)} runs of {shorten(self.source, 60)}. Median error {100 * own.held_out_before:.1f} % "
            f"with the shipped figures, {100 * own.held_out_after:.1f} % on runs left out of the fit."
        )


def show() -> None:
    """The choice, the upload, and what an upload would change; folded."""
    known = dict(list(kept.known().items())[:MOST_KEPT])
    chosen = state.value(PATH)
    with st.expander("Calibration" + (" :orange-badge[own]" if chosen else ""), key="fold-calibration"):
        choice(
            PATH,
            [None, *known],
            edited=chosen is not None,
            format_func=partial(_name, {digest: found.name for digest, found in known.items()}),
            more="A calibration takes the place of the catalog's efficiencies and fixed times.",
        )
        if chosen in known:
            caption(f"{known[chosen].fitted_on}; {known[chosen].date}.")
        elif chosen is None:
            caption(f"{kept.shipped().fitted_on}; {kept.shipped().date}.")
        _upload()


def _name(names: dict[str, str], digest: str | None) -> str:
    if digest is None:
        return "Shipped"
    return (
        f"{shorten(names[digest], 40)} \u00b7 {digest[:8]}"
        if digest in names
        else f"Not on this machine: {digest[:12]}"
    )


# --- a person's own runs ----------------------------------------------------------------------------------------------
def fitted(data: bytes, name: str, progress: object = None) -> Outcome:
    """Read a CSV of runs and fit them. Raises PlanError, one sentence."""
    from validation.measured.own import from_lines
    from validation.measured.reading import decode, read_text

    if len(data) > LARGEST_MB * 1_000_000:
        raise PlanError(f"{shorten(name, 60)} is larger than {LARGEST_MB} MB, the most that is read here.")
    lines = tuple(read_text(decode(data, shorten(name, 60)), shorten(name, 60)))
    if len(lines) > MOST_RUNS:
        raise PlanError(
            f"{shorten(name, 60)} has {count(len(lines))} runs; the page fits up to {MOST_RUNS}, the command calibrate "
            "takes more."
        )
    tell = progress if callable(progress) else lambda: None
    stem = name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    own, unusable = from_lines(lines, stem[:120] or "own runs", shorten(name, 60), tell)
    return Outcome(own, name, tuple(f"{ident}: {why}" for ident, why in unusable))


def _upload() -> None:
    turn = st.session_state.setdefault(_ROUND, 0)
    file = st.file_uploader(
        "Runs of your own, CSV", type=["csv"], key=f"{_FILE}-{turn}", max_upload_size=LARGEST_MB,
        help="Columns: model, gpu or cpu, batch, phase, tokens_per_s and what else is known (docs/cli.md, validate). "
        f"At least 3 runs of one machine, at most {MOST_RUNS}.",
    )  # fmt: skip
    if file is not None:
        _fit(file.getvalue(), file.name)
    fault = st.session_state.get(_FAULT)
    if fault:
        st.html(f'<p class="tl-fault" role="alert">{escape(fault)} Nothing was changed.</p>')
    outcome = st.session_state.get(_OUTCOME)
    if outcome is not None:
        _decide(outcome[1])


def _fit(data: bytes, name: str) -> None:
    """Fit a file once; the same bytes are not fitted again on the next run of the page."""
    digest = hashlib.sha256(data).hexdigest()
    now = st.session_state.get(_OUTCOME)
    if (now is not None and now[0] == digest) or st.session_state.get(f"{_FAULT}-of") == digest:
        return
    st.session_state[_OUTCOME] = st.session_state[_FAULT] = st.session_state[f"{_FAULT}-of"] = None
    bar = st.progress(0.0, text="Fitting \u2026")
    done = 0

    def progress() -> None:
        nonlocal done
        done += 1
        bar.progress(min(done / (3.0 * max(data.count(b"\n"), 1)), 1.0), text=f"Fitting: {done} runs evaluated \u2026")

    try:
        st.session_state[_OUTCOME] = (digest, fitted(data, name, progress))
    except PlanError as error:
        st.session_state[_FAULT], st.session_state[f"{_FAULT}-of"] = str(error), digest
    finally:
        bar.empty()


def _decide(outcome: Outcome) -> None:
    """Before and after, and the choice: one that makes runs left out worse is refused unless a person accepts it."""
    helps = outcome.own.helps
    caption(outcome.sentence)
    if outcome.own.mixture:
        caption(outcome.own.mixture)
    if not helps:
        st.html(
            '<p class="tl-fault" role="alert">Not used: it makes runs that were left out worse than the shipped '
            "figures do.</p>"
        )
    if outcome.unusable:
        first = "; ".join(outcome.unusable[:3])
        more = f"; and {len(outcome.unusable) - 3} more" if len(outcome.unusable) > 3 else ""
        caption(f"{len(outcome.unusable)} not used: {first}{more}.")
    st.button(
        "Use this calibration" if helps else "Use it all the same",
        key="use-calibration",
        type="primary" if helps else "secondary",
        icon=":material/tune:",
        on_click=_use,
        args=(outcome,),
    )


def _use(outcome: Outcome) -> None:
    try:
        digest = outcome.own.calibration.digest
        if digest not in (known := kept.known()) and len(known) >= MOST_KEPT:
            raise PlanError(
                f"This machine already keeps {len(known)} calibrations, the most that pages add to; delete some of "
                "them from its data folder, or use the command calibrate."
            )
        state.change({PATH: kept.register(outcome.own.calibration)})
    except (PlanError, ScenarioError) as error:
        st.session_state[_FAULT] = str(error)
        return
    st.session_state[_OUTCOME] = None
    st.session_state[_ROUND] += 1  # an empty uploader
