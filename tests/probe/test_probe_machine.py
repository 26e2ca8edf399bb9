"""A real, short run on this machine; keeping it, planning with it, and files that are no measured machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hardware import HardwareError
from planner import measured_machines, plan
from planner.cli.main import main
from planner.context import machine_parts
from planner.errors import PlanError
from planner.fields import set_paths
from planner.measured_machine import LARGEST_BYTES, MeasuredFigure, MeasuredMachine, parse, read
from planner.probe import cpu, host
from planner.probe.recording import Recording
from planner.probe.run import measured_machine
from planner.scenario import Scenario

HYBRID = [("system.id", "h100-amx-server"), ("policy.id", "cpu-experts"), ("workload.batch", 4)]


@pytest.fixture
def measured(timed_recording: tuple[Recording, float]) -> tuple[MeasuredMachine, float]:
    return measured_machine(timed_recording[0]), timed_recording[1]


def made(**figures: float) -> MeasuredMachine:
    return MeasuredMachine(
        name="A machine", engine_version="0", date="2026-01-01",
        figures={path.replace("__", "."): MeasuredFigure(value=v, low=v / 2, high=v, source="timed")
                 for path, v in figures.items()},
    )  # fmt: skip


# --- this machine --------------------------------------------------------------------------------------------------
def test_this_machine_within_physical_bounds(measured):
    machine, seconds = measured
    value = {path: figure.value for path, figure in machine.figures.items()}
    assert 1e8 < value["dram.bandwidth_bytes_per_s"] < 2e13
    assert 1e9 < value["cpu.vector_flop_per_s"] * value["cpu.vector_efficiency"] < 1e15
    assert 0 < value["dram.read_efficiency"] <= 1
    assert 1 <= value["cpu.cores_per_socket"] * value["cpu.sockets"] <= (os.cpu_count() or 1)
    assert seconds < 120


def test_all_reads_and_products_are_there_and_affinity_is_as_before(measured):
    machine, _ = measured
    assert machine.recording is not None
    assert {"read", "product", "dense", "unpack"} <= {s.kind for s in machine.recording.series}
    nodes = machine.recording.host.nodes
    assert [s.points[-1].x for s in machine.recording.find("read") if s.node is not None] == [
        len(host.first_threads(cpus)) for cpus in host.nodes().values()
    ]
    assert sum(nodes) == machine.recording.host.allowed_cpus == len(host.allowed_cpus())


def test_what_is_not_measured_is_named_and_not_a_figure(measured):
    machine, _ = measured
    assert not set(machine.not_measured) & set(machine.figures)
    assert machine.not_measured["cpu.layer_sync_s"]
    assert {f.id for f in machine.findings} >= {"amx", "channels", "smt", "numa", "pageable", "quota", "governor"}


def test_a_read_counts_all_bytes_once_per_pass():
    words = cpu.local_block(host.allowed_cpus(), 2**20)
    assert words.tolist() == [3] * (2**20 // 8)
    point = cpu.read([(host.allowed_cpus(), words)], cpu.Effort(2, 1e-6, (1,), 8))
    assert point.bytes == 2**20
    assert len(point.seconds) == 2


# --- in a scenario -------------------------------------------------------------------------------------------------
def test_measured_figures_are_planned_with_and_named(measured):
    digest = measured_machines.register(measured[0])
    scenario = set_paths(Scenario(), [*HYBRID, ("system.measured", digest), ("model.id", "allenai/OLMoE-1B-7B-0924")])
    named = {a.path.removeprefix("system.overrides."): a for a in plan(scenario).assumptions}
    figure = named["dram.bandwidth_bytes_per_s"]
    assert (figure.kind, figure.date) == ("measured", measured[0].date)
    assert figure.value == measured[0].figures["dram.bandwidth_bytes_per_s"].value
    assert figure.source.startswith(measured[0].name)


def test_between_the_calibration_and_the_users_own(measured):
    digest = measured_machines.register(made(cpu__overlap=0.25, dram__bandwidth_bytes_per_s=1e11, gpu__overlap=0.3))
    changes = [*HYBRID, ("system.measured", digest), ("system.overrides.cpu.overlap", 0.75)]
    system = machine_parts(set_paths(Scenario(), changes))
    assert system.value("cpu.overlap") == 0.75
    assert system.value("dram.bandwidth_bytes_per_s") == 1e11  # not sockets x channels x rate any more
    assert system.measured == ("dram.bandwidth_bytes_per_s", "gpu.overlap")
    assert system.figures["gpu.overlap"].kind == "measured"


def test_a_paper_systems_own_figures_give_way():
    digest = measured_machines.register(made(dram__read_efficiency=0.5))
    changes = [("system.id", "trimoe-server"), ("system.measured", digest)]
    assert machine_parts(set_paths(Scenario(), changes)).value("dram.read_efficiency") == 0.5


def test_recognised_parts_come_along_and_an_exchanged_part_takes_its_figures_away():
    machine = made(gpu__overlap=0.3, cpu__overlap=0.25, pcie__efficiency=0.5).model_copy(
        update={"parts": {"gpu": "rtx-5090-32gb"}}
    )
    digest = measured_machines.register(machine)
    chosen = [*HYBRID, ("system.measured", digest)]
    system = machine_parts(set_paths(Scenario(), chosen))
    assert system.gpu_name == "NVIDIA GeForce RTX 5090"
    assert system.measured == ("cpu.overlap", "gpu.overlap", "pcie.efficiency")
    other = machine_parts(set_paths(Scenario(), [*chosen, ("system.gpu", "rtx-4090-24gb")]))
    assert other.gpu_name == "NVIDIA GeForce RTX 4090"
    assert other.measured == ("cpu.overlap",)


def test_old_scenarios_keep_their_hash():
    plain = Scenario()
    assert "measured" not in json.loads(plain.canonical_json())["system"]
    with_one = set_paths(plain, [("system.measured", "0" * 64)])
    assert with_one.content_hash() != plain.content_hash()


def test_unknown_and_changed_machines_are_one_sentence():
    with pytest.raises(PlanError, match="not on this machine"):
        measured_machines.get("0" * 64)
    with pytest.raises(PlanError, match="64 hexadecimal"):
        measured_machines.get("../../etc/passwd")
    digest = measured_machines.register(made(cpu__overlap=0.125))
    path = measured_machines.directory() / f"{digest}.json"
    path.write_text(made(cpu__overlap=0.5).text())
    with pytest.raises(PlanError, match="changed on disk"):
        measured_machines.get(digest)
    assert digest not in measured_machines.known()
    path.unlink()


# --- files ---------------------------------------------------------------------------------------------------------
def with_figure(path: str, value: float, low: float, high: float) -> bytes:
    figure = {"value": value, "low": low, "high": high, "source": "x"}
    return json.dumps({**GOOD, "figures": {path: figure}}).encode()


GOOD = json.loads(made(cpu__overlap=0.5).text())
BAD = {
    "empty": b"",
    "not JSON": b"{",
    "a list": b"[1]",
    "binary": bytes(range(256)),
    "deep": b"[" * 100_000,
    "NaN": json.dumps(GOOD).replace("0.5", "NaN").encode(),
    "another kind": json.dumps({**GOOD, "kind": "datasheet"}).encode(),
    "an unknown field": json.dumps({**GOOD, "run": "rm"}).encode(),
    "an unknown figure": json.dumps({**GOOD, "figures": {"cpu.overlp": GOOD["figures"]["cpu.overlap"]}}).encode(),
    "out of bounds": with_figure("cpu.overlap", 2, 2, 2),
    "value outside its range": with_figure("cpu.overlap", 1, 0, 0.5),
    "half a socket": with_figure("cpu.sockets", 1.5, 1, 2),
    "a part that is no device": json.dumps({**GOOD, "parts": {"gpu": "../x"}}).encode(),
    "a part of another kind": json.dumps({**GOOD, "parts": {"gpu": "xeon-8470"}}).encode(),
    "two lines in its name": json.dumps({**GOOD, "name": "a\nb"}).encode(),
    "a terminal's escape in a source": json.dumps(GOOD).replace("timed", "\\u001b[2J").encode(),
    "newer": json.dumps({**GOOD, "schema_version": 2}).encode(),
    "too large": b" " * (LARGEST_BYTES + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_sentence_and_keeps_nothing(name, tmp_path, capsys):
    before = set(measured_machines.known())
    path = tmp_path / "machine.json"
    path.write_bytes(BAD[name])
    assert main(["import-machine", str(path)]) == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert len(printed.err) < 700
    assert "Traceback" not in printed.err
    assert set(measured_machines.known()) == before


def test_no_file_and_a_folder(tmp_path):
    with pytest.raises(PlanError, match="There is no file"):
        read(tmp_path / "none.json")
    with pytest.raises(PlanError, match="cannot be read"):
        read(tmp_path)
    with pytest.raises((PlanError, HardwareError)):
        parse(b"null", "It")


def test_probe_writes_a_file_that_is_imported_and_listed(measured, tmp_path, capsys, monkeypatch):
    recording = measured[0].recording
    monkeypatch.setattr("planner.probe.run.record", lambda *a, **k: recording)
    out = tmp_path / "machine.json"
    assert main(["probe", "--quick", "--out", str(out), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["kind"] == "measured"
    assert main(["import-machine", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["digest"] == printed["digest"]
    for listing in ("systems", "hardware"):
        assert main([listing, "--json"]) == 0
        assert printed["digest"] in {row["id"] for row in json.loads(capsys.readouterr().out)}
    assert main(["probe"]) == 0
    text = capsys.readouterr().out
    assert "dram.bandwidth_bytes_per_s" in text
    assert "Not measured" in text


@pytest.mark.parametrize("out", ["nowhere/here.json", "."])
def test_probe_says_at_once_that_it_cannot_write(out, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["probe", "--out", out]) == 2
    assert capsys.readouterr().err.startswith("--out is")


def test_a_file_kept_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("TIERLINE_DATA", str(tmp_path / "file"))
    Path(tmp_path / "file").write_text("in the way")
    with pytest.raises(PlanError, match="cannot be made"):
        measured_machines.register(made(cpu__overlap=0.1))
