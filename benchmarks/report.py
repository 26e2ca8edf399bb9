"""One table per benchmark: what was measured, how long it took, against what, and whether the aim was met."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One measured figure. ``ratio`` compares it with the row or program named in ``against``."""

    name: str
    value: float
    unit: str
    ratio: float | None = None
    against: str = ""
    aim: float | None = None  # an upper bound in the same unit
    note: str = ""

    @property
    def met(self) -> bool:
        return self.aim is None or self.value <= self.aim


def median_s(work: Callable[[], object], repeats: int = 9) -> float:
    """Median wall time of ``work()`` in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def show(title: str, rows: Sequence[Row]) -> int:
    """Print the table; the exit status is 1 when an aim was missed."""
    cells = [("", "value", "ratio", "aim")]
    for row in rows:
        ratio = f"{row.ratio:.3g}x {row.against}" if row.ratio is not None else ""
        aim = "" if row.aim is None else f"< {row.aim:.3g} {row.unit}: {'met' if row.met else 'MISSED'}"
        cells.append((row.name, f"{row.value:.4g} {row.unit}", ratio, aim))
    widths = [max(len(line[column]) for line in cells) for column in range(4)]
    print(f"\n{title}")
    for line in cells:
        print("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    for row in rows:
        if row.note:
            print(f"  {row.name}: {row.note}")
    return 0 if all(row.met for row in rows) else 1
