"""Two people at one scenario: both saves are kept, and both pages say so."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import expect

from tests.browser.driver import PATIENCE_MS, Visit


def save_version(page: Visit, author: str) -> None:
    """Save what is shown as a version of the scenario that is open."""
    page.key("save").get_by_role("button").click()
    page.key("save-author").locator("input").fill(author)
    page.key("save-update").get_by_role("button").click()
    page.page.get_by_text("Saved as version").first.wait_for()
    page.settle()


def test_two_who_save_at_once_both_keep_their_work(visit: Callable[..., Visit]) -> None:
    ann = visit()
    before = ann.cards()
    ann.save("Shared by two")
    address = ann.await_address(r"\?saved=[0-9a-f-]{36}$")
    ben = visit(address)
    ann.enter("workload.batch", "48")
    ann.await_other_cards(before)
    ben.enter("workload.batch", "96")
    bens = ben.await_other_cards(before)
    save_version(ann, "Ann")

    # Ben's page is open, with edits that are not saved: it notices, and loses nothing.
    ben.await_text("Ann saved version 2")
    assert ben.field("workload.batch").input_value() == "96"
    save_version(ben, "Ben")
    ann.await_text("Ben saved version 3 from version 1, beside your version 2")
    assert ben.cards() == bens

    ann.key("open-theirs").get_by_role("button").click()
    expect(ann.field("workload.batch")).to_have_value("96", timeout=PATIENCE_MS)
    ann.settle()
    assert ann.cards() == bens
    old = visit(address + ".2")
    assert old.field("workload.batch").input_value() == "48"
