"""The whole path of a person and a colleague: plan, change an input, save, send the link, see the same figures."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.browser.driver import Visit


def test_plan_change_save_and_open_the_link_elsewhere(visit: Callable[..., Visit]) -> None:
    first = visit()
    assert first.verdict.startswith("Fits.")
    before = first.cards()
    assert len(before) == 5
    assert all(card.value and card.span for card in before.values()), before

    first.enter("workload.batch", "64")
    after = first.await_other_cards(before)
    assert after["Throughput"].value != before["Throughput"].value
    assert "64 sequences" in after["Per token, TPOT"].note

    first.save("Twice the batch", "for the review")
    first.await_address(r"\?saved=[0-9a-f-]{36}$")
    link = first.copy_link(make="latest")
    assert re.search(r"\?scenario=[\w-]{32}$", link)
    assert first.cards() == after

    second = visit(link)
    assert second.cards() == after
    assert second.verdict == first.verdict
    second.await_text("Opened by a link, to read and to copy.")
    second.await_text("this is no access control")
    assert second.field("workload.batch").count() == 0  # nothing to edit, and nothing to overwrite
    assert second.key("save").count() == 0

    # What the colleague changes is theirs: the saved scenario and its link stay as they were.
    second.key("fork").get_by_role("button").click()
    second.await_address(r"\?saved=[0-9a-f-]{36}$")
    second.settle()
    second.enter("workload.batch", "16")
    second.await_other_cards(after)
    third = visit(link)
    assert third.cards() == after

    # The link is closed: who has it open sees so within seconds, and who opens it is told what any wrong link says.
    first.key("share").get_by_role("button").click()
    # By its key: the dialog's own cross is called Close too.
    first.page.locator('[class*="st-key-revoke-"]').get_by_role("button").click()
    third.await_text("This link leads to nothing here")
    never = visit(re.sub(r"[\w-]{32}$", "A" * 32, link))
    assert visit(link).notices == never.notices
    assert "leads to nothing here" in never.notices


def test_unsaved_scenario_travels_in_its_address(visit: Callable[..., Visit]) -> None:
    first = visit()
    before = first.cards()
    first.enter("workload.output_tokens", "2000")
    after = first.await_other_cards(before)
    address = first.await_address(r"\?s=[\w-]+$")

    second = visit(address)
    assert second.cards() == after
    assert second.field("workload.output_tokens").input_value() == "2000"

    second.page.get_by_role("link", name="Scenarios").click()
    second.await_text("scenarios, last changed first")
    second.settle()
    second.page.get_by_role("link", name=re.compile("Plan")).first.click()
    second.await_verdict("Fits.")
    assert second.cards() == after
    assert second.await_address(r"\?s=[\w-]+$").partition("?")[2] == address.partition("?")[2]
