"""A real server and a real headless Chromium for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser import chromium
from tests.browser.driver import Visit
from tests.browser.server import Server, serving

HERE = Path(__file__).parent
PICTURES = HERE.parents[1] / "test-results"
FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the session (for each test process)."""
    with serving(tmp_path_factory.mktemp("server")) as running:
        yield running


# One browser per file, not per session: the driver leaves an event loop running while it lives.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Headless Chromium; without one the tests fail, they are never skipped."""
    path = chromium.find()
    if path is None:
        pytest.fail(chromium.NONE_FOUND, pytrace=False)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(chromium.ARGUMENTS))
        yield running
        running.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture
def visit(request: pytest.FixtureRequest, browser: Browser, server: Server) -> Iterator[Callable[..., Visit]]:
    """``visit(path, width=1440, theme="light")`` opens the page as a person who has never been there.

    Each call is a browser context of its own. At the end of the test every visit must have been clean: nothing
    requested from outside, no error in the console, no failed answer, no traceback in the server's log. When the test
    fails, what each visit showed is kept as a picture in test-results/.
    """
    opened: list[Visit] = []
    written_before = len(server.output())

    def open_visit(path: str = "/", width: int = 1440, theme: str = "light") -> Visit:
        one = Visit(browser, server.url, width=width, theme=theme)
        opened.append(one)
        one.goto(path)
        return one

    yield open_visit
    faults = [fault for one in opened for fault in one.faults]
    for number, one in enumerate(opened, 1):
        if request.node.stash.get(FAILED, False):
            PICTURES.mkdir(exist_ok=True)
            one.page.screenshot(path=PICTURES / f"{request.node.name}-{number}.png", full_page=True)
        one.close()
    assert not faults, "the page was not clean:\n" + "\n".join(faults)
    written = server.output()[written_before:]
    assert "Traceback" not in written, f"the server wrote a traceback:\n{written}"
