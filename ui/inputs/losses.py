"""The loss table of the bit-width selector: the surrogate, a table of this machine, or a file that a person uploads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from html import escape

import streamlit as st

from models import Architecture
from planner import loss_tables
from planner.fields import shown
from planner.loss_table import LossTable, LossTableError
from planner.loss_table_io import parse_table
from planner.losses import DEFAULT_SPREAD, LARGEST_SPREAD
from planner.policies import Option
from planner.words.formats import capital, shorten
from ui import state, typed
from ui.inputs.fields import caption, mark, show_fault
from ui.inputs.model import architecture

OPTION = "loss_table"
PATH = f"policy.options.{OPTION}"
LARGEST_MB = 8  # 58 layers of 256 experts are 2 MB as CSV
MOST_KEPT = 200  # a page may not fill the disk of the machine that serves it
OWN_SPREAD = "surrogate:"  # the choice that shows a field for the spread
_FILE, _ROUND, _FAULT, _TAKEN = "loss-file", "loss-file-round", "loss-file-fault", "loss-file-taken"
_SPREAD = "in.loss-spread"
SetOption = Callable[[Option, str], None]


@dataclass(frozen=True)
class Known:
    """What the list needs of a table."""

    digest: str
    layers: tuple[int, ...]
    experts: int
    name: str


def take(data: bytes, name: str, arch: Architecture | None) -> str:
    """Check an uploaded table against the open model, keep it, and return its digest. Raises LossTableError."""
    if len(data) > LARGEST_MB * 1_000_000:
        raise LossTableError(f"The file {shown(name)} is larger than {LARGEST_MB} MB, the most that is accepted here.")
    table = parse_table(data, name)
    if arch is not None:
        table.for_model(arch.moe_layers, arch.experts)
    kept = loss_tables.known()
    if table.digest not in kept and len(kept) >= MOST_KEPT:
        raise LossTableError(
            f"This machine already keeps {len(kept)} loss tables, the most that pages add to; delete some of them from "
            "its data folder, or use the command import-losses."
        )
    return loss_tables.register(table)


def choices(arch: Architecture | None) -> dict[str, Known]:
    """The tables of this machine that fit the model, by digest; damaged ones are left out."""
    found = {}
    for digest in loss_tables.known()[:MOST_KEPT]:
        try:
            known = _known(digest, str(loss_tables.directory()))
        except LossTableError:
            continue
        if arch is None or (known.layers == tuple(arch.moe_layers) and known.experts == arch.experts):
            found[digest] = known
    return found


@lru_cache(maxsize=2 * MOST_KEPT)
def _known(digest: str, folder: str) -> Known:
    table = loss_tables.get(digest)
    return Known(digest, table.layers, table.experts, _name(table))


def _name(table: LossTable) -> str:
    about = table.provenance
    parts = [about.method.partition(":")[0].upper(), about.model, about.date]
    text = ", ".join(part for part in parts if part) or about.source
    return f"{capital(shorten(text, 60))} \u00b7 {table.digest[:8]}"


def show(option: Option, set_option: SetOption) -> None:
    """The choice, the spread of the surrogate, and the upload."""
    arch, _ = architecture()
    stored = state.value(PATH)
    value = str(option.default if stored is None else stored)
    tables = choices(arch)
    options = [str(option.default), OWN_SPREAD, *tables]
    now = OWN_SPREAD if value.startswith(OWN_SPREAD) else value
    if now not in options:
        options.append(now)
    mark("in.loss-table", stored is not None and stored != option.default)
    st.session_state["in.loss-table"] = now
    st.selectbox(
        "Losses of the selector", options, key="in.loss-table", format_func=partial(_choice, tables),
        help="What each expert loses at 1 to 4 bit: a surrogate, or a table of this machine that fits the model.",
        on_change=_chosen, args=(option, set_option),
    )  # fmt: skip
    if now == OWN_SPREAD:
        kept = state.typed(PATH)
        st.session_state[_SPREAD] = kept if kept is not None else value.removeprefix(OWN_SPREAD)
        st.text_input(
            "Spread of the sensitivities", key=_SPREAD, on_change=_spread_typed, args=(option, set_option),
            help=f"Of ln(sensitivity) between experts. Takes a number from 0 to {LARGEST_SPREAD:g}.",
        )  # fmt: skip
    show_fault(PATH, value)
    _upload(option, set_option)


def _choice(tables: dict[str, Known], value: str) -> str:
    if value == loss_tables.SURROGATE:
        return "Surrogate (assumed)"
    if value == OWN_SPREAD:
        return "Surrogate with a spread of your own"
    return tables[value].name if value in tables else f"A table that is not here or of another model: {value[:12]}"


def _chosen(option: Option, set_option: SetOption) -> None:
    value = st.session_state["in.loss-table"]
    _set(option, set_option, f"{OWN_SPREAD}{DEFAULT_SPREAD:g}" if value == OWN_SPREAD else value)


def _spread_typed(option: Option, set_option: SetOption) -> None:
    text = str(st.session_state[_SPREAD] or "")
    spread = typed.number(text)
    if spread is None or not 0 <= spread <= LARGEST_SPREAD:
        takes = f"a number from 0 to {LARGEST_SPREAD:g}"
        state.refuse(PATH, text, f"The spread of the surrogate is \u201c{text[:40]}\u201d; it takes {takes}.")
        return
    _set(option, set_option, f"{OWN_SPREAD}{spread:.12g}")


def _set(option: Option, set_option: SetOption, value: str) -> None:
    state.forget(PATH)
    set_option(option, value)


def _upload(option: Option, set_option: SetOption) -> None:
    turn = st.session_state.setdefault(_ROUND, 0)
    key = f"{_FILE}-{turn}"
    st.file_uploader(
        "or a loss table of your own, CSV or Parquet", type=["csv", "parquet"], key=key, max_upload_size=LARGEST_MB,
        help="Columns layer, expert, bits, loss: mean squared error over the mean square of the reference output, at "
        f"1, 2, 3 and 4 bit. At most {LARGEST_MB} MB. `python -m planner calibrate-losses` measures one.",
        on_change=_uploaded, args=(option, set_option, key),
    )  # fmt: skip
    fault, taken = st.session_state.get(_FAULT), st.session_state.get(_TAKEN)
    if fault:
        st.html(f'<p class="tl-fault" role="alert">{escape(fault)} Nothing was changed.</p>')
    elif taken and taken == state.value(PATH):
        caption(f"Loss table {taken[:8]} is kept on this machine and used.")


def _uploaded(option: Option, set_option: SetOption, key: str) -> None:
    file = st.session_state.get(key)
    if file is None:
        return
    st.session_state[_FAULT] = st.session_state[_TAKEN] = None
    try:
        digest = take(file.getvalue(), file.name, architecture()[0])
    except LossTableError as error:
        st.session_state[_FAULT] = str(error)
        return
    finally:
        st.session_state[_ROUND] += 1  # an empty uploader: the same file can be given again after it was mended
    st.session_state[_TAKEN] = digest
    _set(option, set_option, digest)
