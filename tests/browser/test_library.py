"""The library in the browser: what was saved is found, opened, copied, archived and brought back."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Locator, expect

from tests.browser.driver import PATIENCE_MS, Visit


def entries(page: Visit, text: str) -> Locator:
    """The rows of the library that say ``text``."""
    return page.page.locator('[class*="st-key-row-"]').filter(has_text=text)


def test_saved_scenario_is_found_copied_archived_and_restored(visit: Callable[..., Visit]) -> None:
    first = visit()
    first.save("Kept <b>for</b> [later](http://example.org) $1 $2", "a note with <script>alert(1)</script>")
    link = first.await_address(r"\?saved=")

    first.page.get_by_role("link", name="Scenarios").click()
    row = entries(first, "Kept <b>for</b> [later](http://example.org) $1 $2")
    expect(row).to_have_count(1, timeout=PATIENCE_MS)
    expect(row).to_contain_text("a note with <script>alert(1)</script>")

    search = first.page.get_by_role("searchbox").or_(first.page.get_by_role("textbox", name="Search"))
    search.first.fill("later mixtral")
    expect(entries(first, "Mixtral-8x7B on two H100")).to_have_count(0, timeout=PATIENCE_MS)
    expect(row).to_have_count(1)
    search.first.fill("")
    expect(entries(first, "Mixtral-8x7B on two H100")).to_have_count(1, timeout=PATIENCE_MS)
    first.settle()

    row.get_by_role("button", name="Fork").click()
    expect(entries(first, "Kept <b>for</b>")).to_have_count(2, timeout=PATIENCE_MS)
    first.settle()  # the rows below a new one still move

    row.filter(has_text="a note with").last.get_by_role("button", name="Archive").click()
    first.key("undo-bar").wait_for()
    expect(entries(first, "Kept <b>for</b>")).to_have_count(1, timeout=PATIENCE_MS)
    gone = visit(link)
    gone.await_text("archived")
    assert gone.notices, "the address of an archived scenario must say so"

    first.key("library-undo").get_by_role("button").click()
    expect(entries(first, "Kept <b>for</b>")).to_have_count(2, timeout=PATIENCE_MS)
    back = visit(link)
    assert not back.notices


def test_examples_are_there_and_open(visit: Callable[..., Visit]) -> None:
    page = visit("/scenarios")
    for name in ("Mixtral-8x7B on two H100", "DeepSeek-V2 on a TriMoE server"):
        expect(entries(page, name).first).to_be_visible()
