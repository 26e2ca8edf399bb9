"""A virtual environment and a process for each peer."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ADAPTERS = Path(__file__).parent / "adapters"
MARK = "answer:"
INSTALL_S, ANSWER_S = 900.0, 60.0


@dataclass(frozen=True)
class Peer:
    name: str
    requirement: str
    adapter: str


PEERS = (
    Peer("aiconfigurator", "aiconfigurator==0.12.0", "aiconfigurator_estimate.py"),
    Peer("genz-llm", "genz-llm==0.0.16", "genz_estimate.py"),
    Peer("llm-d-planner", "llm-d-planner==0.3.3", "llm_d_planner_estimate.py"),
)


@dataclass(frozen=True)
class Answers:
    """What a peer said: by question id, and why it said nothing at all."""

    by_id: dict[str, dict[str, Any]]
    reason: str = ""
    start_s: float = 0.0
    """Until the first answer: imports and loading of data, the first estimate included."""


def python_of(peer: Peer, folder: Path) -> Path:
    return folder / peer.name / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def installed(peer: Peer, folder: Path) -> str:
    """Make the peer's environment unless it is there. The reason why it cannot be, or nothing."""
    python = python_of(peer, folder)
    if python.exists() and _quiet([str(python), "-m", "pip", "show", peer.name], INSTALL_S) == "":
        return ""
    return _quiet([sys.executable, "-m", "venv", str(folder / peer.name)], INSTALL_S) or _quiet(
        [str(python), "-m", "pip", "install", "--quiet", peer.requirement], INSTALL_S
    )


def _quiet(command: Sequence[str], limit_s: float) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{type(error).__name__}: {error}"
    lines = (done.stderr or done.stdout).strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1][:300] if lines else f"exit status {done.returncode}")


def ask(python: Path, adapter: Path, questions: Sequence[dict[str, Any]], limit_s: float) -> Answers:
    """Put all questions to an adapter in a process of its own, away from this repository."""
    text = "".join(json.dumps(q) + "\n" for q in questions)
    begun = time.perf_counter()
    process = subprocess.Popen(
        [str(python), str(adapter)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=adapter.parent,
        env=_environment(),
    )
    reason = ""
    try:
        out, err = process.communicate(text, timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        reason = f"stopped after {limit_s:.0f} s"
    found = {}
    for line in out.splitlines():
        if line.startswith(MARK):
            said = json.loads(line.removeprefix(MARK))
            found[str(said.pop("id"))] = said
    if process.returncode and not reason:
        last = err.strip().splitlines()
        reason = last[-1][:300] if last else f"exit status {process.returncode}"
    spent = time.perf_counter() - begun
    return Answers(found, reason, spent - sum(a.get("seconds", 0.0) for a in found.values()))


def _environment() -> dict[str, str]:
    """The caller's, without what would lead the peer's Python into this repository."""
    import os

    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
