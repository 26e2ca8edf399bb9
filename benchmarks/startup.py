"""From the start of a process to its first plan, with a warm compile cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.report import Row, median_s, show

ROOT = Path(__file__).resolve().parent.parent
AIM_S = 4.0
DEEPSEEK = ["--model", "deepseek-ai/DeepSeek-V3", "--system", "8x-h200-sxm", "--policy", "all-gpu", "--batch", "256"]


def run(*arguments: str) -> None:
    """One fresh process, output thrown away."""
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    run("-m", "planner", "plan", "--json")  # fills the compile cache
    run("-m", "planner", "plan", "--json", *DEEPSEEK)
    bare = median_s(lambda: run("-c", "pass"), 5)
    default = median_s(lambda: run("-m", "planner", "plan", "--json"), 5)
    deepseek = median_s(lambda: run("-m", "planner", "plan", "--json", *DEEPSEEK), 5)
    return show(
        "Process start to first plan, warm compile cache",
        [
            Row("python -c pass", bare, "s"),
            Row("planner plan, defaults", default, "s", default / bare, "bare Python", AIM_S),
            Row("planner plan, DeepSeek-V3, batch 256", deepseek, "s", deepseek / bare, "bare Python", AIM_S),
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
