"""Both themes and both widths: one heading, nothing wider than the window, the answer without any work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.driver import Visit

OVERFLOW = """() => {
    const main = document.querySelector('[data-testid="stMain"]');
    return [main.scrollWidth - main.clientWidth, document.documentElement.scrollWidth - window.innerWidth];
}"""
BACKGROUND = "() => getComputedStyle(document.querySelector('[data-testid=\"stApp\"]')).backgroundColor"


@pytest.mark.parametrize("width", [1440, 400])
@pytest.mark.parametrize(("theme", "background"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(18, 22, 29)")])
def test_plan_page_reads_well(visit: Callable[..., Visit], width: int, theme: str, background: str) -> None:
    page = visit(width=width, theme=theme)
    assert page.page.evaluate(BACKGROUND) == background
    assert page.page.locator("h1").count() == 1
    assert page.page.locator("h1").is_visible()
    page.page.locator(".tl-card").first.wait_for()
    for card in page.page.locator(".tl-card").all():
        box = card.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert max(page.page.evaluate(OVERFLOW)) <= 0
    for chart in page.page.locator('[data-testid="stPlotlyChart"]').all():
        chart.scroll_into_view_if_needed()
        chart.locator(".main-svg").first.wait_for()
    assert max(page.page.evaluate(OVERFLOW)) <= 0


@pytest.mark.parametrize("width", [1440, 400])
def test_scenarios_page_reads_well(visit: Callable[..., Visit], width: int) -> None:
    page = visit("/scenarios", width=width)
    page.await_text("last changed first")
    assert page.page.locator("h1").count() == 1
    assert max(page.page.evaluate(OVERFLOW)) <= 0


def test_click_on_the_map_tells_the_cell(visit: Callable[..., Visit]) -> None:
    page = visit()
    chart = page.key("map").locator('[data-testid="stPlotlyChart"]')
    chart.scroll_into_view_if_needed()
    plot = chart.locator(".nsewdrag").first
    plot.wait_for()
    said = page.key("map").get_by_role("status")
    assert "Click a cell" in said.inner_text()
    box = plot.bounding_box()
    assert box is not None
    # The third of 32 columns and the first of 8 rows: the busiest expert of MoE layer 3.
    page.page.mouse.click(box["x"] + box["width"] * 2.5 / 32, box["y"] + box["height"] * 0.5 / 8)
    page.page.wait_for_function(
        "() => [...document.querySelectorAll('.st-key-map [role=status]')].some(e => !e.innerText.includes('Click a'))"
    )
    told = said.inner_text()
    assert "layer 3" in told.lower(), told
    assert page.key("map_layer").locator("input").input_value() == "3"
    assert "GPU" in told
