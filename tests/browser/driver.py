"""What a person does on the page, in the page's own terms. Waits for what is shown, never for time to pass."""

from __future__ import annotations

from types import TracebackType
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, Response, expect

PATIENCE_MS = 30_000
HEIGHTS = {1440: 1000, 400: 860}
IDLE = '[data-testid="stApp"][data-test-script-state="notRunning"][data-test-connection-state="CONNECTED"]'
LOCAL = ("127.0.0.1", "localhost")


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
        if response.status >= 400:
            self.faults.append(f"answer {response.status}: {response.url}")

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.faults.append(f"console error: {message.text}")

    # Moving about

    def goto(self, path: str) -> None:
        """Open an address (a path, or a whole address as it was copied) and wait until it is drawn."""
        self.page.goto(path if path.startswith("http") else self.url + path)
        self.settle()

    def settle(self) -> None:
        """Wait until the script has ended and nothing shown belongs to an earlier run."""
        self.page.wait_for_selector(IDLE)
        unfinished = self.page.locator('[data-testid="stSkeleton"], [data-stale="true"]')
        expect(unfinished).to_have_count(0, timeout=PATIENCE_MS)

    @property
    def text(self) -> str:
        """All that is written on the page."""
        return self.page.locator('[data-testid="stApp"]').inner_text()

    def key(self, name: str) -> Locator:
        """The element that the page gave this key."""
        return self.page.locator(f".st-key-{name}")
