"""What a page sends to the browser: the client once, and then what belongs to the page itself."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, WebSocket, sync_playwright

from benchmarks.plans import scenario
from benchmarks.report import Row, show
from planner.scenario import Scenario
from tests.browser import chromium
from tests.browser.driver import Visit
from tests.browser.server import serving
from ui import address
from ui.app import PAGES

QUIET_MS = 8000
"""After the heading; what is still computed then (ranges, flip points) is not waited for."""


def sent(browser: Browser, url: str, path: str) -> tuple[float, float]:
    """(bytes of the client's files as transferred, bytes over the socket and of the page's own images) of one visit."""
    with Visit(browser, url) as visit:
        session = visit.context.new_cdp_session(visit.page)
        session.send("Network.enable")
        files = own = 0.0
        media: dict[str, bool] = {}

        def answered(event: dict) -> None:
            media[event["requestId"]] = urlsplit(event["response"]["url"]).path.startswith("/media/")

        def finished(event: dict) -> None:
            nonlocal files, own
            if media.get(event["requestId"]):
                own += event["encodedDataLength"]
            else:
                files += event["encodedDataLength"]

        def opened(socket: WebSocket) -> None:
            def received(payload: str | bytes) -> None:
                nonlocal own
                own += len(payload)

            socket.on("framereceived", received)

        session.on("Network.responseReceived", answered)
        session.on("Network.loadingFinished", finished)
        visit.page.on("websocket", opened)
        visit.page.goto(url + path)
        visit.page.locator("h1").first.wait_for()
        visit.page.wait_for_timeout(QUIET_MS)
        return files, own


def main() -> int:
    browser_path = chromium.find()
    if browser_path is None:
        print(chromium.NONE_FOUND, file=sys.stderr)
        return 1
    asked = {"8 experts": Scenario(), "58 x 256": scenario("all-gpu")}
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "run") as server, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=list(chromium.ARGUMENTS))
        rows: list[Row] = []
        small = 0.0
        for name, whole in asked.items():
            files, own = sent(browser, server.url, f"/?s={address.encode(whole)}")
            if not rows:
                rows.append(Row("the client, once (then cached)", files / 1e6, "MB"))
                small = own
            rows.append(Row(f"Plan, {name}", own / 1e3, "kB", own / small, "Plan, 8 experts"))
        for room, (title, *_) in PAGES.items():
            if room != "plan":
                _, own = sent(browser, server.url, f"/{room}")
                rows.append(Row(title, own / 1e3, "kB", own / small, "Plan, 8 experts"))
        browser.close()
    return show("What a page sends", rows)


if __name__ == "__main__":
    sys.exit(main())
