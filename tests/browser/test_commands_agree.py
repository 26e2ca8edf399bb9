"""The comparison and the sweep of the page, done again on the command line from what the page gives: same figures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from planner.words import comparison as words
from tests.browser.driver import Visit
from tests.browser.server import ROOT, Server, environment
from tests.browser.test_meeting import plain
from tests.compare.compare_cases import BASE
from ui import address

PATIENCE_MS = 120_000


def command(server: Server, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "planner", *arguments],
        cwd=ROOT, env=environment(server.data), capture_output=True, text=True, timeout=180, check=True,
    )  # fmt: skip
    return done.stdout


def test_the_command_line_compares_as_the_page_does(
    visit: Callable[..., Visit], server: Server, tmp_path: Path
) -> None:
    page = visit("/?s=" + address.encode(BASE))
    page.save("Base of the meeting")
    page.enter("workload.batch", "8")
    page.await_address(r"\?s=")
    page.settle()  # a click while figures still arrive may be lost
    page.page.get_by_role("link", name="Compare").click()
    page.settle()
    page.page.locator(".st-key-reasons").wait_for()
    page.settle()
    other = BASE.model_copy(update={"workload": BASE.workload.model_copy(update={"batch": 8})})
    names = []
    for name, scenario in (("Base of the meeting", BASE), ("Open now", other)):
        file = tmp_path / f"{name}.json"
        file.write_text(scenario.model_dump_json(), encoding="utf-8")
        names.append(str(file))
    told = json.loads(command(server, "compare", *names, "--json"))
    delta = next(d for d in told["pairs"][0]["deltas"] if d["metric"] == "tokens_per_s_end_to_end")
    assert delta["delta"] == sum(part["value"] for part in delta["parts"])
    text = plain(page.text)
    for value in (delta["base"], delta["other"]):
        assert plain(words.value_text("tokens_per_s_end_to_end", value)) in text
    printed = plain(command(server, "compare", *names, "--metric", "tokens_per_s_end_to_end"))
    for part in delta["parts"]:
        assert plain(words.value_text("tokens_per_s_end_to_end", abs(part["value"]))) in printed
    sentence = next(line for line in printed.split("From Base of the meeting to Open now", 1)[1].split(". ") if line)
    assert sentence.strip() in text


def test_the_command_line_sweeps_as_the_page_does(visit: Callable[..., Visit], server: Server, tmp_path: Path) -> None:
    here = visit("/explore?s=" + address.encode(BASE))
    form = here.page.locator(".st-key-explore-frontier-form")
    form.get_by_role("button", name="Plan these points").click()
    here.page.get_by_role("button", name="Open as a scenario").wait_for(timeout=PATIENCE_MS)
    here.settle()
    files = {}
    for kind in ("spec", "json"):
        button = here.key(f"explore-frontier-{kind}").get_by_role("button")
        if not button.is_visible():
            here.page.get_by_role("button", name="Data").first.click()
        with here.page.expect_download() as waiting:
            button.click()
        files[kind] = tmp_path / f"{kind}.json"
        waiting.value.save_as(files[kind])
    page = json.loads(files["json"].read_text(encoding="utf-8"))
    told = json.loads(command(server, "sweep", str(files["spec"]), "--json", "--quiet"))
    assert len(told["points"]) == len(page["points"]) >= 8
    for ours, theirs in zip(told["points"], page["points"], strict=True):
        assert ours["values"] == theirs["values"]
        assert ours["outcome"]["figures"] == theirs["outcome"]["figures"]
    assert any(point["outcome"]["figures"] for point in page["points"])
