"""Numbers and sentences for people, shared by the page, the command line and exports. No user interface here."""

from __future__ import annotations

from planner.words import findings, formats, labels, names, places, sureness
from planner.words.verdict import outlook, verdict

__all__ = ["findings", "formats", "labels", "names", "outlook", "places", "sureness", "verdict"]
