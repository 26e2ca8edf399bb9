"""``warm``: compile the kernels, so that the first plan does not wait for it."""

from __future__ import annotations

import time

from planner.cli.output import json_text
from planner.cli.parsing import CommandParser


def run(command: str, arguments: list[str]) -> str:
    """What was compiled or found in the cache took so long."""
    parser = CommandParser(command, "Compiles the numeric kernels and keeps them in the cache.")
    options = parser.read(arguments)

    from planner.kernels import warm_all

    start = time.perf_counter()
    warm_all()
    took_s = time.perf_counter() - start
    return json_text({"seconds": took_s}) if options.json else f"Kernels ready after {took_s:.1f} s.\n"
