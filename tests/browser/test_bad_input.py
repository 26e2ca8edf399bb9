"""What is wrong is said in one sentence, and nothing already entered is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.driver import Visit


def test_refused_text_stays_and_the_last_good_figures_stay(visit: Callable[..., Visit]) -> None:
    page = visit()
    before = page.cards()
    page.enter("workload.batch", "-3 & <i>x</i>")
    fault = page.page.get_by_role("alert").filter(has_text="Batch").first
    fault.wait_for()
    page.settle()
    assert "-3 & <i>x</i>" in fault.inner_text()
    assert page.field("workload.batch").input_value() == "-3 & <i>x</i>"
    assert page.cards() == before

    page.enter("workload.batch", "48")
    after = page.await_other_cards(before)
    assert "48 sequences" in after["Per token, TPOT"].note
    assert page.notices == ""


@pytest.mark.parametrize(
    "address",
    ["/?s=AAAA", "/?s=%00%ff", "/?s=" + "A" * 3000, "/?scenario=there-is-no-such-scenario-at-all"],
    ids=["cut", "foreign", "long", "nothing"],
)
def test_damaged_address_is_said_and_the_page_works(visit: Callable[..., Visit], address: str) -> None:
    page = visit(address)
    said = page.notices
    assert "address" in said or "link" in said, said
    before = page.cards()
    assert before["Throughput"].value != "—"
    page.enter("workload.batch", "8")
    page.await_other_cards(before)
