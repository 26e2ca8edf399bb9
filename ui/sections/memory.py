"""Memory by tier: what takes how much of each, what is left, or what is missing."""

from __future__ import annotations

import streamlit as st

from planner.result import MemoryTier, Result
from planner.words import findings, names
from planner.words.formats import gb
from ui import tables
from ui.charts import memory as chart
from ui.sections.common import Data, draw, pen, say, section
from ui.tables import Row, Swatch, Table


def show(result: Result, wide: bool = False) -> None:
    """The section; ``wide`` puts the table beside the bars, where the page has room for it."""
    memory = result.memory
    if memory is None or not memory.tiers:
        return
    table = ledger(memory.tiers)
    with section(
        "Memory by tier", "memory", [Data("Memory", "tierline-memory.csv", table, lambda: _csv(memory.tiers))]
    ):
        text = findings.memory_finding(result)
        say(text)
        figure = chart.figure(memory.tiers, pen())
        if wide:
            left, right = st.columns([0.62, 0.38], gap="medium")
            with left:
                draw(figure, "memory-chart", f"Memory by tier. {text}")
            with right:
                st.html(table.html())
        else:
            draw(figure, "memory-chart", f"Memory by tier. {text}")
            st.html(table.html())


def ledger(tiers: tuple[MemoryTier, ...]) -> Table:
    """The legend of the bars: every part with its gigabytes in each tier, in the bars' order."""
    ink = pen()
    found = [(piece, tier) for tier in tiers for piece in chart.pieces(tier, ink)]
    colours: dict[str, set[str]] = {}
    for piece, _ in found:
        colours.setdefault(piece.name, set()).add(piece.colour)
    rows: list[Row] = []
    done: set[tuple[str, str]] = set()
    for piece, tier in sorted(found, key=lambda pair: chart.RANK[pair[0].kind]):
        if (piece.name, piece.colour) in done:
            continue
        done.add((piece.name, piece.colour))
        same = {t.name: p.bytes for p, t in found if (p.name, p.colour) == (piece.name, piece.colour)}
        cells = [gb(same[t.name]) if t.name in same else "" for t in tiers]
        # What has another colour in another tier is another row, named after its tier.
        name = f"{piece.name} in {names.plain_tier(tier.name)}" if len(colours[piece.name]) > 1 else piece.name
        rows.append(Row(name, cells, swatch=Swatch(piece.colour, "hatched" if piece.kind == "reserve" else "")))
    if any(chart.uneven_bytes(tier) > 0.002 * tier.capacity_bytes for tier in tiers):
        cells = [gb(chart.uneven_bytes(tier)) if chart.uneven_bytes(tier) else "" for tier in tiers]
        rows.append(
            Row("uneven split", cells, "the fullest device fills up before the others", Swatch(ink.hatch, "hatched"))
        )
    if any(tier.free_bytes < 0 for tier in tiers):
        rows.append(Row("needed", [gb(tier.used_bytes) for tier in tiers], bold=True))
        rows.append(Row("capacity", [gb(tier.capacity_bytes) for tier in tiers]))
    else:
        free = [gb(tier.free_bytes) for tier in tiers]
        rows.append(Row("free", free, swatch=Swatch(ink.text, "outline")))
        rows.append(Row("capacity", [gb(tier.capacity_bytes) for tier in tiers], bold=True))
    return Table("Memory by tier in GB of 10^9 bytes", ["GB", *(names.plain_tier(tier.name) for tier in tiers)], rows)


def _csv(tiers: tuple[MemoryTier, ...]) -> str:
    rows: list[list[object]] = []
    for tier in tiers:
        rows += [[tier.name, tier.devices, item.name, item.bytes] for item in tier.items]
        rows += [
            [tier.name, tier.devices, "free", tier.free_bytes],
            [tier.name, tier.devices, "capacity", tier.capacity_bytes],
        ]
    return tables.to_csv(["tier", "devices", "item", "bytes"], rows)
