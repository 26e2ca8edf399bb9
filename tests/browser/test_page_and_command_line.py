"""The page and the command line give the same figures: both only write down what the engine answered."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser import figures
from tests.browser.driver import Visit
from tests.browser.server import ROOT, Server, environment

CARDS = {
    "First token, TTFT": "ttft_s",
    "Per token, TPOT": "tpot_s",
    "Throughput": "tokens_per_s_system",
    "Energy": "energy_j_per_output_token",
    "Cost": "usd_per_million_output_tokens",
}
DEEPSEEK = ["--model", "deepseek-ai/DeepSeek-V2", "--system", "trimoe-server", "--policy", "trimoe", "--batch", "512"]
DEEPSEEK += ["--prompt-tokens", "512", "--output-tokens", "256"]


def headline(server: Server, *arguments: str) -> dict[str, Any]:
    """The ``headline`` of ``python -m planner plan --json`` with these arguments."""
    done = subprocess.run(
        [sys.executable, "-m", "planner", "plan", "--json", *arguments],
        cwd=ROOT, env=environment(server.data), capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return dict(json.loads(done.stdout)["headline"])


@pytest.mark.parametrize(
    ("example", "arguments"),
    [("Mixtral-8x7B on two H100", []), ("DeepSeek-V2 on a TriMoE server", DEEPSEEK)],
    ids=["mixtral", "deepseek"],
)
def test_cards_are_the_headline_of_the_command_line(
    visit: Callable[..., Visit], server: Server, example: str, arguments: list[str]
) -> None:
    page = visit("/scenarios")
    entry = page.page.locator('[class*="st-key-row-"]').filter(has_text=example)
    entry.get_by_role("button", name="Open").click()
    page.await_verdict("Fits.")
    page.await_address(r"/\?saved=")
    cards = page.cards()
    told = headline(server, *arguments)
    assert told["fits"] is True
    for name, key in CARDS.items():
        shown, factor = figures.read(cards[name].value)
        assert shown.is_(told[key]), f"{name} shows {cards[name].value}, the command line says {told[key]}"
        low, high = figures.read_span(cards[name].span, factor)
        ends = told["intervals"][key]
        assert low.is_(ends[0]), f"{name} shows {cards[name].span}, the command line says {ends}"
        assert high.is_(ends[1]), f"{name} shows {cards[name].span}, the command line says {ends}"
