"""Side by side with peers: choice of runs, a process per peer, the table; an adapter stands in for a peer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers.environment import PEERS, Peer, ask, installed, python_of
from benchmarks.peers.questions import chosen, question
from benchmarks.peers.report import Column, as_rows, table
from validation.silicon.fit import Sample
from validation.silicon.mapping import Case, mapped
from validation.silicon.table import Row

ROW = Row(
    "a", "InferenceX", "vllm", "0.18.0", "openai/gpt-oss-120b", "h200_sxm", "fp4", "agg", 1024, 1024, "", "",
    8, 4, 1, 1, 4, 1, 0.2, 0.01,
)  # fmt: skip


@pytest.fixture
def cases() -> list[Case]:
    from dataclasses import replace

    rows = [replace(ROW, batch=n, backend=b) for n in (4, 8, 16) for b in ("vllm", "sglang")]
    return [mapped(row) for row in rows]


def test_runs_are_taken_from_every_group_in_turn(cases: list[Case]) -> None:
    assert [s.case.engine for s in chosen(cases, 2)] == ["sglang", "vllm"]
    assert len(chosen(cases, 99)) == len(cases)


def test_a_question_tells_nothing_that_was_measured(cases: list[Case]) -> None:
    asked = question(cases[0], "0")
    assert asked["gpus"] == 4 and asked["architecture"]["experts"] == 128
    assert not [k for k in asked if "ttft" in k or "tpot" in k]
    assert ROW.ttft_s not in asked.values() and ROW.tpot_s not in asked.values()


def test_a_peer_answers_in_its_own_process(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter.py"
    adapter.write_text(
        "import json, sys\n"
        "try:\n    import planner\n    ours = True\nexcept ImportError:\n    ours = False\n"
        "for line in sys.stdin:\n"
        "    q = json.loads(line)\n"
        "    print('noise')\n"
        "    print('answer:' + json.dumps({'id': q['id'], 'tpot_s': 0.02, 'ours': ours, 'seconds': 0.001}))\n",
        encoding="utf-8",
    )
    found = ask(Path(sys.executable), adapter, [{"id": "0"}, {"id": "1"}], 60)
    assert set(found.by_id) == {"0", "1"} and not found.reason
    assert found.by_id["0"]["ours"] is False  # this repository's package is out of its reach


def test_a_peer_that_fails_or_hangs_has_a_reason(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('no data here')\n", encoding="utf-8")
    assert "no data here" in ask(Path(sys.executable), broken, [{"id": "0"}], 60).reason
    slow = tmp_path / "slow.py"
    slow.write_text("import time\ntime.sleep(60)\n", encoding="utf-8")
    assert ask(Path(sys.executable), slow, [], 1).reason == "stopped after 1 s"


def test_a_package_that_cannot_be_installed_has_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.peers import environment

    monkeypatch.setattr(
        environment, "_quiet", lambda command, limit_s: "no such package" if "install" in command else ""
    )
    peer = Peer("nobody", "nobody==1", "nobody.py")
    assert installed(peer, tmp_path) == "no such package"
    assert python_of(peer, tmp_path).parent.parent == tmp_path / "nobody"


def test_the_table_by_hand(cases: list[Case]) -> None:
    measured = {str(i): Sample(c, 0.2, 0.01, 1) for i, c in enumerate(cases[:2])}
    answers: dict[str, dict[str, Any]] = {
        "0": {"ttft_s": 0.3, "tpot_s": 0.012, "seconds": 0.5},
        "1": {"reason": "a | b"},
    }
    ours = {i: {"ttft_s": 0.2, "tpot_s": 0.011, "seconds": 0.1} for i in measured}
    columns = [Column("ours", ours), Column("peer", answers, start_s=2.0), Column("silent", {}, "not installed: why")]
    text = table(measured, columns)
    assert "| ours | 2 | 10.0 / 10.0 | 0.0 / 0.0 |  |  | 0.100 | 0.0 |" in text
    assert "| peer | 1 | 20.0 / 20.0 | 50.0 / 50.0 | 10.0 / 10.0 | 0.0 / 0.0 | 0.500 | 2.0 |" in text
    assert "| peer | a / b | 1 |" in text and "| silent | not installed: why | 2 |" in text
    records = as_rows(measured, columns)
    assert len(records) == 6 and not any("measured" in key for key in records[0])


def test_every_adapter_is_there_and_imports_nothing_of_ours() -> None:
    from benchmarks.peers.environment import ADAPTERS

    for peer in PEERS:
        text = (ADAPTERS / peer.adapter).read_text(encoding="utf-8")
        compile(text, peer.adapter, "exec")
        assert "validation" not in text and "benchmarks" not in text
