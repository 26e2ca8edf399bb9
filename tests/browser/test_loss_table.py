"""A person brings a loss table: a bad file is refused in a sentence, a good one is used, and its source is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from tests.browser.driver import Visit
from ui import address

LAYERS, EXPERTS = 16, 64  # OLMoE-1B-7B
SCENARIO = Scenario(
    model=ModelChoice(id="allenai/OLMoE-1B-7B-0924"),
    system=SystemChoice(id="h100-cxl-ndp"),
    workload=Workload(batch=1, prompt_tokens=64, output_tokens=16),
    policy=PolicyChoice(id="context-aware", gpu_experts_per_layer=8),
)


def table(experts: int) -> str:
    """Losses that fall fourfold with each bit, every expert a little worse than the one before."""
    lines = ['# tierline-loss-table: {"source": "a journey through the page", "date": "2026-01-02"}']
    lines.append("layer,expert,bits,loss")
    for layer in range(LAYERS):
        for expert in range(experts):
            lines += [f"{layer},{expert},{bits},{(0.3 + expert / 1000) / 4**bits:.6f}" for bits in (1, 2, 3, 4)]
    return "\n".join(lines) + "\n"


def test_loss_table_from_file_to_report(visit: Callable[..., Visit], tmp_path: Path) -> None:
    wrong, right = tmp_path / "other model.csv", tmp_path / "mine.csv"
    wrong.write_text(table(EXPERTS - 1))
    right.write_text(table(EXPERTS))
    page = visit("/?s=" + address.encode(SCENARIO))
    page.await_verdict("Fits")
    page.page.get_by_text("Formats, parallelism and options").click()
    upload = page.page.locator('[class*="st-key-loss-file"] input[type="file"]')
    upload.set_input_files(wrong)
    page.await_text(f"The loss table has {EXPERTS - 1} experts in each layer; the model has {EXPERTS} routed experts.")
    page.settle()
    assert "a journey through the page" not in page.text.lower()
    page.page.locator('[class*="st-key-loss-file"] input[type="file"]').set_input_files(right)
    page.await_text("A journey through the page; 2026-01-02")
    page.settle()
    assert page.verdict.startswith("Fits")
    link = page.copy_link()
    other = visit(link)
    other.await_verdict("Fits")
    assert "A journey through the page" in other.text
