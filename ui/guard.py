"""The last resort: whatever was not foreseen goes to the server's log, and a sentence to the page."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

LOG = logging.getLogger("tierline.ui")


@contextmanager
def guard(doing: str) -> Iterator[None]:
    """Run a part of a page; an unforeseen error says that ``doing`` failed, and the rest of the page stays."""
    try:
        yield
    except Exception:
        LOG.exception("Unforeseen error while %s", doing)
        st.error(
            f"Something unforeseen went wrong while {doing}. "
            "Your inputs are kept; the details are in the server's log.",
            icon=":material/error:",
        )
