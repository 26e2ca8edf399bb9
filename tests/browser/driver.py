"""What a person does on the page, in the page's own terms. Waits for what is shown, never for time to pass."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import TracebackType
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, Response, TimeoutError, expect

PATIENCE_MS = 60_000
HEIGHTS = {1440: 1000, 400: 860}
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"][data-test-connection-state="CONNECTED"]'
UNFINISHED = '[data-testid="stSkeleton"], [data-stale="true"], .tl-working'
OTHER_CARDS = """gone => {
    const values = [...document.querySelectorAll(".tl-card .tl-value")].map(value => value.innerText);
    return values.length > 0 && values.join(" ").replace(/\\s+/g, " ").trim() !== gone;
}"""
# Opened at a page's own address, Streamlit's client looks for the server below that address first.
PROBE = re.compile(r"^http://127\.0\.0\.1:\d+/[a-z]+/_stcore/(health|host-config)$")
LOCAL = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class Card:
    """A headline card as it is written: value with unit, range, and the line that says per what."""

    value: str
    span: str
    note: str


class Visit:
    """One person's browser context with one page; keeps every fault that it sees in ``faults``."""

    def __init__(self, browser: Browser, url: str, width: int = 1440, theme: str = "light") -> None:
        self.url = url
        self.faults: list[str] = []
        self.context = browser.new_context(
            viewport={"width": width, "height": HEIGHTS.get(width, 1000)},
            color_scheme="dark" if theme == "dark" else "light",
            permissions=["clipboard-read", "clipboard-write"],
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.context.on("request", self._request)
        self.context.on("response", self._response)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.faults.append(f"script error: {error}"))

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.context.close()

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in LOCAL:
            self.faults.append(f"outside request: {request.url}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and not PROBE.search(response.url):
            self.faults.append(f"answer {response.status}: {response.url}")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not PROBE.search(message.location.get("url", "")):
            self.faults.append(f"console error: {message.text}")

    # Moving about

    def goto(self, path: str) -> None:
        """Open an address (a path, or a whole address as it was copied) and wait until it is drawn."""
        self.page.goto(path if path.startswith("http") else self.url + path)
        self.settle()

    def settle(self) -> None:
        """Wait until the script has ended, nothing shown belongs to an earlier run, and no figure is still to come."""
        self.page.wait_for_selector(IDLE)
        expect(self.page.locator(UNFINISHED)).to_have_count(0, timeout=PATIENCE_MS)
        self.page.wait_for_selector(IDLE)

    @property
    def text(self) -> str:
        """All that is written on the page."""
        return self.page.locator('[data-testid="stApp"]').inner_text()

    def key(self, name: str) -> Locator:
        """The element that the page gave this key."""
        return self.page.locator(f".st-key-{name}")

    @property
    def notices(self) -> str:
        """What the page says above the answer; empty when it has nothing to say."""
        return " ".join(self.key("notices").all_inner_texts()).strip()

    # The Plan page

    @property
    def verdict(self) -> str:
        """The answer in one sentence: the page's heading, without its icon."""
        return " ".join(self.page.locator("h1").inner_text().split()).partition(" ")[2]

    def cards(self) -> dict[str, Card]:
        """The headline figures by the name of their card."""
        self.page.wait_for_selector(".tl-card")
        found = {}
        for card in self.page.locator(".tl-card").all():

            def part(name: str, card: Locator = card) -> str:
                return " ".join(" ".join(card.locator(f".tl-{name}").all_inner_texts()).split())

            found[card.get_attribute("aria-label") or ""] = Card(part("value"), part("span"), part("note"))
        return found

    def field(self, path: str) -> Locator:
        """The text field of a scenario's field, for example ``workload.batch``."""
        return self.key("in-" + path.replace(".", "-")).locator("input")

    def enter(self, path: str, text: str) -> None:
        """Type into a field and leave it with Enter."""
        self.field(path).fill(text)
        self.field(path).press("Enter")

    def choose(self, path: str, text: str) -> None:
        """Choose an option of a drop-down by typing what it is called."""
        box = self.field(path)
        box.click()
        box.fill(text)
        self.page.get_by_role("option").first.wait_for()
        box.press("Enter")

    def await_verdict(self, start: str) -> str:
        """Wait until the answer begins with these words, and read it."""
        expect(self.page.locator("h1")).to_contain_text(start, timeout=PATIENCE_MS)
        self.settle()
        return self.verdict

    def await_text(self, text: str) -> None:
        """Wait until the page says this."""
        self.page.get_by_text(text).first.wait_for()

    def await_address(self, pattern: str) -> str:
        """Wait until the address matches this regular expression, and read it."""
        self.page.wait_for_url(re.compile(pattern))
        return self.page.url

    def await_other_cards(self, before: dict[str, Card]) -> dict[str, Card]:
        """Wait until the figures differ from ``before``, and read them."""
        gone = " ".join(card.value for card in before.values())
        self.page.wait_for_function(OTHER_CARDS, arg=gone)
        self.settle()
        return self.cards()

    # Save and Share

    def save(self, name: str, note: str = "") -> None:
        """Save what is shown under a name."""
        self.key("save").get_by_role("button").click()
        self.key("save-name").locator("input").fill(name)
        self.key("save-note").locator("textarea").fill(note)
        self.key("save-new").get_by_role("button").click()
        self.page.get_by_text("Saved as").first.wait_for()
        self.settle()

    def _copy(self, code: Locator) -> None:
        """Press a code block's copy button, which is there under the pointer only: what moves it takes it away."""
        for patience_ms in (3_000, 10_000, PATIENCE_MS):
            self.page.mouse.move(0, 0)
            code.hover()
            try:
                code.get_by_role("button").first.click(timeout=patience_ms)
                return
            except TimeoutError:
                continue
        raise AssertionError("the copy button does not stay under the pointer")

    def copy_link(self, number: int = 0, make: str | None = None) -> str:
        """Copy a link of the Share dialog by its button, and read it from the clipboard; closes the dialog.

        ``make``: first make one, to the ``latest`` version of the saved scenario or to this one (``fixed``).
        """
        self.key("share").get_by_role("button").click()
        dialog = self.page.get_by_role("dialog")
        if make is not None:
            self.key(f"link-{make}").get_by_role("button").click()
            dialog.get_by_text("Opens ").first.wait_for()
            self.settle()
        code = dialog.locator('[data-testid="stCode"]').nth(number)
        self._copy(code)
        copied = self.page.evaluate("navigator.clipboard.readText()")
        self.page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
        self.settle()
        return str(copied)
