"""A person asks how sure a plan is, puts in another GPU, calibrates with own runs, and looks at the accuracy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from tests.browser.driver import Visit
from ui import address

SCENARIO = Scenario(
    model=ModelChoice(id="Qwen/Qwen3-30B-A3B", weight_format="gguf-q4_k"),
    system=SystemChoice(id="desktop-rtx4090"),
    workload=Workload(batch=1, prompt_tokens=512, output_tokens=128),
    policy=PolicyChoice(id="cpu-experts"),
)
HEAD = (
    "model,weight_bits,gpu,n_gpu,cpu,sockets,mem_GBps_theoretical,batch,input_len,output_len,phase,regime,tok_s,per\n"
)
RUN = "Qwen/Qwen3-30B-A3B,4.5,RTX 4090 24GB,1,Ryzen 9 7950X,1,83.2,1,{},128,decode,cpu_experts,{},request\n"


def test_from_a_plan_to_a_calibration_and_the_accuracy_page(visit: Callable[..., Visit], tmp_path: Path) -> None:
    runs, wrong = tmp_path / "my runs.csv", tmp_path / "wrong.csv"
    runs.write_text(HEAD + "".join(RUN.format(tokens, rate) for tokens, rate in ((512, 25), (1024, 24), (2048, 23))))
    wrong.write_text("speed\n1\n")
    page = visit("/?s=" + address.encode(SCENARIO))
    page.await_verdict("Fits")
    sure = page.key("sure").inner_text()
    assert "80 % interval" in sure
    assert "What to measure next" in sure
    before = page.cards()
    page.page.get_by_text("Devices of your own").click()
    page.choose("system.gpu", "RTX 3090")
    page.await_other_cards(before)
    assert page.verdict.startswith("Fits")
    page.page.get_by_text("Calibration", exact=True).first.click()
    upload = page.page.locator('[class*="st-key-runs-file"] input[type="file"]')
    upload.set_input_files(wrong)
    page.await_text("has no column model")
    page.page.locator('[class*="st-key-runs-file"] input[type="file"]').set_input_files(runs)
    page.await_text("on runs left out of the fit")
    page.settle()
    page.key("use-calibration").get_by_role("button").click()
    page.await_text("3 runs from my runs.csv")
    page.settle()
    assert page.verdict.startswith("Fits")
    page.page.get_by_role("link", name="Accuracy").click()
    page.await_text("Predicted against measured")
    page.settle()
    assert page.page.locator("h1").inner_text() == "Accuracy"
    assert "of what was measured" in page.key("scatter").inner_text()
    assert "Qwen/Qwen3-30B-A3B on desktop-rtx4090" in page.text
