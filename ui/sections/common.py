"""What every section shares: a heading, one quiet Data menu, the finding, and then the chart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui import tables
from ui.charts.base import CONFIG, Spec
from ui.theme import Ink, ink


@dataclass(frozen=True)
class Data:
    """What is behind a chart: a table to read and the rows as a file. ``csv`` is only called on download."""

    name: str
    file: str
    table: tables.Table | None
    csv: Callable[[], str]


def pen() -> Ink:
    """The ink of the theme that the browser shows."""
    return ink(st.context.theme.type)


@contextmanager
def section(title: str, key: str, data: Sequence[Data] = ()) -> Iterator[None]:
    """One section of the page: heading left, Data menu right, and close together whatever follows."""
    with st.container(gap="xsmall", key=key):
        heading(title, key, data)
        yield


def heading(title: str, key: str, data: Sequence[Data] = ()) -> None:
    """The heading row of a section."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.subheader(title, anchor=False, width="content")
        if data:
            data_menu(key, data)


def data_menu(key: str, data: Sequence[Data]) -> None:
    """Table and CSV of a section, in one menu."""
    with st.popover("Data", type="tertiary", icon=":material/table_rows:", key=f"{key}-data"):
        for index, item in enumerate(data):
            if item.table is not None:
                st.html(tables.finding(item.name) + item.table.html())
            st.download_button(
                f"{item.name}, CSV",
                data=item.csv,
                file_name=item.file,
                mime="text/csv",
                key=f"{key}-csv-{index}",
                icon=":material/download:",
                on_click="ignore",
            )


def say(text: str) -> None:
    """The finding: a sentence in bold, as text, so that it wraps."""
    st.html(tables.finding(text))


def draw(figure: Spec, key: str, alt: str, **more: Any) -> Any:
    """A Plotly chart in our own ink, with its finding as the accessible name."""
    return st.plotly_chart(figure, theme=None, key=key, config=CONFIG, alt=alt, **more)
