"""Charts draw what the result says: parts add up, cells are the placement, nothing is hidden by drawing it."""

from __future__ import annotations

import ast
import base64
from array import array
from itertools import pairwise
from pathlib import Path

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.result import Step, StepPart
from tests.ui import fixture_result
from ui import tables, theme
from ui.charts import map_data, map_large, map_small, memory, split, step
from ui.charts.base import round_ticks
from ui.safe import md
from ui.sections import where

INKS = (theme.LIGHT, theme.DARK)


def unpacked(spec: dict) -> list[int]:
    data = array({"u1": "B", "u2": "H"}[spec["dtype"]])
    data.frombytes(base64.b64decode(spec["bdata"]))
    return list(data)


@pytest.mark.parametrize("pen", INKS)
@pytest.mark.parametrize("view", ["tier", "bits", "load"])
@pytest.mark.parametrize("order", ["load", "number"])
def test_every_map_is_a_figure_that_plotly_accepts(pen: theme.Ink, view: str, order: str) -> None:
    for result, chart in ((fixture_result.large(), map_large), (fixture_result.unfit(), map_small)):
        figure = go.Figure(chart.figure(result.placement, view, order, pen))
        assert figure.data[0].type == "heatmap"


def test_map_shows_each_expert_in_its_class() -> None:
    place = fixture_result.large().placement
    figure = map_large.figure(place, "tier", "load", theme.LIGHT)
    cells = unpacked(figure["data"][0]["z"])
    points = {}
    for trace, klass in zip(figure["data"][1 : 1 + len(place.classes)], range(len(place.classes)), strict=True):
        for x, y, expert in zip(unpacked(trace["x"]), unpacked(trace["y"]), unpacked(trace["customdata"]), strict=True):
            points[y - 1, x - 1] = (expert, klass)
    assert len(points) == 59 * 160
    for layer in range(59):
        loads = [place.load[layer][points[layer, rank][0]] for rank in range(160)]
        assert loads == sorted(loads, reverse=True)
        for rank in range(160):
            expert, klass = points[layer, rank]
            assert place.klass[layer][expert] == klass == cells[layer * 160 + rank]


def test_large_map_is_light_to_send() -> None:
    figure = go.Figure(map_large.figure(fixture_result.large().placement, "tier", "load", theme.LIGHT))
    assert len(figure.to_json()) < 90_000


def test_shares_beside_the_map_add_up_to_all_tokens() -> None:
    data = map_data.arrange(fixture_result.large().placement, "tier", "load")
    for layer in range(data.layers):
        assert sum(row[layer] for row in data.shares) == pytest.approx(1.0)


def test_bits_are_written_only_where_they_differ() -> None:
    written = map_small.figure(fixture_result.unfit().placement, "tier", "load", theme.LIGHT)["data"]
    assert {text for trace in written for text in trace.get("text", []) if trace["type"] == "scatter"} == {
        "4",
        "3",
        "2",
    }
    plain = map_small.figure(fixture_result.small().placement, "tier", "load", theme.LIGHT)["data"]
    assert not [trace for trace in plain if trace["type"] != "bar" and "text" in trace]


def test_csv_of_the_map_has_every_expert_once() -> None:
    place = fixture_result.unfit().placement
    lines = where._csv(place).splitlines()
    assert len(lines) == 1 + 56 * 8
    assert lines[0].startswith("moe_layer,model_layer,expert,tier,bits,format,tokens_per_step")


parts = st.lists(
    st.tuples(
        st.sampled_from(step.ORDER),
        st.sampled_from([*step.LANES, "overhead"]),
        st.floats(0, 1),
        st.floats(0, 1),
    ),
    min_size=1,
    max_size=10,
    unique_by=lambda part: (part[0], part[1]),
)


def made(rows: list[tuple[str, str, float, float]]) -> Step:
    """A step whose exposed parts add up; no lane is busy for longer than the step."""
    total = sum(row[2] for row in rows)
    lanes: dict[str, float] = {}
    built = []
    for part, lane, exposed, hidden in rows:
        room = total - sum(row[2] for row in rows if row[1] == lane) - lanes.get(lane, 0.0)
        more = max(0.0, min(hidden * total, room))
        busy = exposed + more
        lanes[lane] = lanes.get(lane, 0.0) + more
        built.append(StepPart(part=part, lane=lane, busy_s=busy, exposed_s=exposed))
    return fixture_result.large().decode.model_copy(update={"parts": tuple(built), "total_s": total})


@given(parts)
def test_exposed_parts_fill_the_step_and_lanes_never_overlap_themselves(rows: list) -> None:
    drawn = made(rows)
    pieces = step.segments(drawn)
    shown = sorted((p.start_s, p.start_s + p.length_s) for p in pieces if p.row == step.STEP_ROW)
    assert sum(high - low for low, high in shown) == pytest.approx(drawn.total_s)
    for (_, high), (low, _) in pairwise(shown):
        assert low == pytest.approx(high)
    for lane in step.LANES:
        spans = sorted((p.start_s, p.start_s + p.length_s) for p in pieces if p.row == lane)
        for (_, high), (low, _) in pairwise(spans):
            assert low >= high - 1e-9
        busy = sum(p.busy_s for p in drawn.parts if p.lane == lane)
        assert sum(high - low for low, high in spans) == pytest.approx(busy, abs=1e-6)


@pytest.mark.parametrize("pen", INKS)
def test_step_figure_is_accepted_and_marks_hidden_work_without_colour_alone(pen: theme.Ink) -> None:
    figure = go.Figure(step.figure(fixture_result.large().decode, pen))
    hidden = [bar for bar in figure.data if "hidden" in (bar.hovertemplate or "")]
    assert hidden
    assert all(bar.marker.line.width > 1 for bar in hidden)


@pytest.mark.parametrize("pen", INKS)
def test_memory_beyond_capacity_is_drawn_beyond_the_line_and_said(pen: theme.Ink) -> None:
    tiers = fixture_result.unfit().memory.tiers
    figure = go.Figure(memory.figure(tiers, pen))
    assert figure.layout.xaxis.range[1] > 1.06
    assert any("6.0\u00a0GB over capacity" in note.text for note in figure.layout.annotations)
    ends = [bar.base[0] + bar.x[0] for bar in figure.data if bar.y[0] == 1]
    assert max(ends) == pytest.approx(91.9 / 85.9, rel=1e-3)


def test_memory_parts_and_what_is_left_fill_the_capacity() -> None:
    for tier in fixture_result.large().memory.tiers:
        parts_ = sum(piece.bytes for piece in memory.pieces(tier, theme.LIGHT))
        assert parts_ + memory.uneven_bytes(tier) + tier.free_bytes == pytest.approx(tier.capacity_bytes)


def test_energy_and_money_have_the_same_parts_in_the_same_order() -> None:
    result = fixture_result.large()
    rows = split.rows(result.energy.by_device, result.cost.by_part)
    assert [row.id for row in rows] == ["gpu", "cpu", "dimms", "ndp", "chassis", "electricity"]
    assert sum(row.energy or 0 for row in rows) == pytest.approx(result.energy.j_per_output_token)
    assert sum(row.cost or 0 for row in rows) == pytest.approx(result.cost.usd_per_million_output_tokens)
    for pen in INKS:
        go.Figure(split.figure([(row.id, row.name, row.cost) for row in rows if row.cost], pen))


@given(st.floats(1e-6, 1e7))
def test_ticks_are_round_and_few(top: float) -> None:
    ticks = round_ticks(top)
    assert ticks[0] == 0
    assert 1 <= len(ticks) <= 8
    assert ticks[-1] <= top * 1.001


def test_bits_get_lighter_and_sixteen_is_the_colour_of_the_tier() -> None:
    assert theme.tier_colour("gpu", 16) == theme.TIERS["gpu"]
    shades = [theme.lightness_for(bits) for bits in (16, 8, 4.5, 4, 3, 2.5, 2, 1)]
    assert shades == sorted(shades)


def test_texts_on_colours_have_contrast() -> None:
    for tier in ("gpu", "host", "dimm_ndp", "cxl_ndp", "streamed"):
        for bits in (16, 8, 4, 3, 2, 1):
            colour = theme.tier_colour(tier, bits)
            assert theme.contrast(theme.text_on(colour), colour) >= 4.5
    for pen in INKS:
        assert theme.contrast(pen.muted, pen.background) >= 4.5
        assert theme.contrast(pen.over, pen.background) >= 4.5


def test_tables_escape_and_have_scopes() -> None:
    table = tables.Table("<cap>", ["Name", "A", ""], [tables.Row("<b>x</b>", ["<i>", "2"], small="& more")])
    html = table.html()
    assert "<b>x</b>" not in html
    assert "<i>" not in html
    assert html.count('scope="row"') == 1
    assert 'colspan="2"' in html


def test_csv_quotes_what_a_spreadsheet_would_run() -> None:
    cells = ["=1+1", "-5", "@x", "\u22122\u202f000", "-1.5 %", "-3 tok/s", "-2+3+A1", "-1*HYPERLINK(A1)", "-A1", None]
    text = tables.to_csv(["a"], [[cell] for cell in cells])
    safe = ["'=1+1", "-5", "'@x", "-2 000", "-1.5 %", "-3 tok/s", "'-2+3+A1", "'-1*HYPERLINK(A1)", "'-A1", '""']
    assert text.splitlines() == ["a", *safe]


@given(st.text(max_size=60))
def test_escaped_markdown_has_no_live_syntax(text: str) -> None:
    shown = md(text)
    bare = shown.replace("\\\\", "")
    for char in "*_`$[]<>:":
        for index, found in enumerate(bare):
            if found == char:
                assert index > 0
                assert bare[index - 1] == "\\"
    assert "\n" not in shown


def test_pages_import_no_array_libraries_and_hold_no_physics() -> None:
    for path in (Path(__file__).parents[2] / "ui").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name.split(".")[0] not in {"numpy", "numba", "scipy", "pandas"}, path
                assert not name.startswith("planner.physics"), path
