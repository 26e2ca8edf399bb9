"""Memory of the serving process: idle, after the first plan, after ten plans opened in a browser."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from benchmarks.plans import scenario
from benchmarks.report import Row, show
from tests.browser import chromium
from tests.browser.driver import Visit
from tests.browser.server import serving
from ui import address

BATCHES = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def resident_mb(pid: int) -> float:
    """Resident memory of a process in MB (10^6 bytes), from /proc."""
    status = Path(f"/proc/{pid}/status").read_text()
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(kib) * 1024 / 1e6


def main() -> int:
    browser_path = chromium.find()
    if browser_path is None:
        print(chromium.NONE_FOUND, file=sys.stderr)
        return 1
    if not Path("/proc/self/status").exists():
        print("The memory benchmark reads /proc, which this system does not have.", file=sys.stderr)
        return 1
    asked = scenario("all-gpu")
    wholes = [
        address.encode(asked.model_copy(update={"workload": asked.workload.model_copy(update={"batch": batch})}))
        for batch in BATCHES
    ]
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "run") as server, sync_playwright() as driver:
        idle = resident_mb(server.pid)
        browser = driver.chromium.launch(executable_path=browser_path, args=list(chromium.ARGUMENTS))
        used = []
        for whole in wholes:
            with Visit(browser, server.url) as visit:
                visit.goto(f"/?s={whole}")
                visit.cards()
            used.append(resident_mb(server.pid))
        browser.close()
    return show(
        f"Memory of the serving process, DeepSeek-V3, {len(BATCHES)} plans in sessions of their own",
        [
            Row("idle, before the first visit", idle, "MB"),
            Row("after the first plan", used[0], "MB", used[0] / idle, "idle"),
            Row("after ten plans", used[-1], "MB", used[-1] / used[0], "the first plan"),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
