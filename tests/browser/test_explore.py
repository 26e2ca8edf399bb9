"""A sweep in a real browser: planned in worker processes, a point clicked and opened, saved, and opened by its link."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.driver import Visit
from tests.browser.test_looks import OVERFLOW

PATIENCE_MS = 120_000


def test_sweep_click_save_and_open_by_link(visit: Callable[..., Visit]) -> None:
    here = visit("/explore")
    page = here.page
    form = page.locator(".st-key-explore-frontier-form")
    form.get_by_role("button", name="Plan these points").click()
    chart = page.locator('[data-testid="stPlotlyChart"]')
    page.get_by_role("button", name="Open as a scenario").wait_for(timeout=PATIENCE_MS)
    here.settle()
    assert max(page.evaluate(OVERFLOW)) <= 0
    # The last point of the frontier: batch 1 has the most tokens per second and user.
    spot = chart.locator(".scatterlayer .points path").last
    spot.wait_for()
    box = spot.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    here.settle()
    expect(page.get_by_role("combobox", name="Point")).to_have_value(re.compile(r"All on GPUs, Batch 1\ssequences"))

    page.get_by_role("button", name="Save this sweep").click()
    page.get_by_role("button", name="Save", exact=True).click()
    code = page.locator('[data-testid="stPopoverBody"] [data-testid="stCode"] code')
    code.wait_for(timeout=PATIENCE_MS)
    address = code.inner_text()
    assert "/explore?study=" in address
    page.keyboard.press("Escape")

    other = visit(address)
    expect(other.page.get_by_text("a saved sweep")).to_be_visible(timeout=PATIENCE_MS)
    other.page.locator('[data-testid="stPlotlyChart"]').wait_for()

    page.get_by_role("button", name="Open as a scenario").click()
    page.locator(".tl-card").first.wait_for(timeout=PATIENCE_MS)
    here.settle()
    assert here.faults == [] and other.faults == []
