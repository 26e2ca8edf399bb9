"""A plan that does not fit is an answer: it has reasons, a way out, and is saved and shared like any other."""

from __future__ import annotations

from collections.abc import Callable

from tests.browser.driver import Visit


def test_does_not_fit_says_why_and_what_would(visit: Callable[..., Visit]) -> None:
    first = visit()
    first.choose("system.id", "1x H100 SXM")
    verdict = first.await_verdict("Does not fit")
    assert "GB" in verdict
    cards = first.cards()
    assert len(cards) == 5
    assert all(card.value == "—" and card.note for card in cards.values()), cards
    assert first.page.get_by_text("Where the time goes").count() == 0

    first.save("Too small a machine")
    link = first.copy_link(make="fixed")
    second = visit(link)
    assert second.verdict == verdict

    second.key("use-0").get_by_role("button").click()
    second.await_verdict("Fits.")
    assert all(card.value != "—" for card in second.cards().values())
    assert visit(link).verdict == verdict
