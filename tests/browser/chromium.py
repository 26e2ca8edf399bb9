"""Find a Chromium (or Chrome) to drive. As a script: print its path, exit 1 when there is none."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
NONE_FOUND = (
    "The browser tests need Chromium or Google Chrome (Debian and Ubuntu: apt install chromium); "
    "none was found on the PATH, and TIERLINE_CHROMIUM does not name one."
)
# No sandbox: the tests run as root in CI, and the only page opened is our own. The rest keeps the browser from
# calling its maker, so that every outside request seen by a test is one that the page made.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def find() -> str | None:
    """Path of the browser: ``TIERLINE_CHROMIUM``, else an installed one, else the one Playwright downloaded."""
    named = os.environ.get("TIERLINE_CHROMIUM")
    if named:
        return named if os.access(named, os.X_OK) else None
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    candidates = [Path(path) for path in MAC]
    cache = Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH", Path.home() / ".cache" / "ms-playwright"))
    candidates += sorted(cache.glob("chromium-*/chrome-linux*/chrome"), reverse=True)
    return next((str(path) for path in candidates if os.access(path, os.X_OK)), None)


if __name__ == "__main__":
    found = find()
    print(found or NONE_FOUND, file=sys.stdout if found else sys.stderr)
    sys.exit(0 if found else 1)
