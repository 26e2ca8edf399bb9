"""PDF: the HTML file printed by a Chromium or Chrome that is installed. Nothing is downloaded, nothing is fetched."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from planner.brief.html import html
from planner.brief.records import Brief
from planner.errors import PlanError

VARIABLE = "TIERLINE_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge", "microsoft-edge")
PLACES = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
    r"C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe",
)
# Quiet: one local file is printed, and the browser itself is to call nobody.
ARGUMENTS = (
    "--headless",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pdf-header-footer",
    "--proxy-server=127.0.0.1:9",
)
TIMEOUT_S = 60.0
HOW_TO_GET = (
    "A PDF is printed by Chromium or Google Chrome, and none was found; install one (Debian, Ubuntu: apt install "
    f"chromium; macOS: brew install --cask chromium), or name its program in {VARIABLE}. The HTML file prints the same "
    "page from any browser."
)


class PdfError(PlanError):
    """There is no browser, or it printed nothing; one sentence."""


def browser() -> str | None:
    """The program that prints: the one that ``TIERLINE_CHROMIUM`` names, else the first that is installed."""
    named = os.environ.get(VARIABLE)
    if named:
        return named if os.access(named, os.X_OK) else shutil.which(named)
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    return found or next((place for place in PLACES if os.access(place, os.X_OK)), None)


def printer() -> str:
    """Like :func:`browser`. Raises PdfError, which says how to get one, where there is none."""
    program = browser()
    if program is None:
        named = os.environ.get(VARIABLE)
        raise PdfError(HOW_TO_GET if not named else f"{VARIABLE} names {named!r}, which is no program. {HOW_TO_GET}")
    return program


def pdf(brief: Brief) -> bytes:
    """The brief's HTML as PDF. Raises PdfError."""
    return printed(html(brief))


def printed(text: str, timeout_s: float = TIMEOUT_S) -> bytes:
    """An HTML text as PDF. Raises PdfError."""
    program = printer()
    # Chromium refuses to run as root inside its sandbox; as anyone else it keeps it.
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with tempfile.TemporaryDirectory(prefix="tierline-brief-", ignore_cleanup_errors=True) as folder:
        page, out = Path(folder) / "brief.html", Path(folder) / "brief.pdf"
        page.write_text(text, encoding="utf-8")
        command = [program, *ARGUMENTS, *(["--no-sandbox"] if root else []), f"--user-data-dir={folder}/profile",
                   f"--print-to-pdf={out}", page.as_uri()]  # fmt: skip
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=timeout_s, stdin=subprocess.DEVNULL, check=False
            )
        except subprocess.TimeoutExpired:
            raise PdfError(
                f"{Path(program).name} did not print the brief within {timeout_s:.0f} s; the HTML file prints the same "
                "page from any browser."
            ) from None
        except OSError as error:
            raise PdfError(
                f"{Path(program).name} could not be started ({error.strerror or error}); name another in {VARIABLE}."
            ) from None
        if not out.is_file() or out.stat().st_size == 0:
            raise PdfError(
                f"{Path(program).name} printed nothing (exit code {done.returncode}); name another one in {VARIABLE}, "
                "or print the HTML file."
            )
        return out.read_bytes()
