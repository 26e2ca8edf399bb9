"""A machine of one's own: other devices, the serving engine, and a calibration from one's own runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner import calibration as kept
from planner import measured_machines
from planner.calibration import Calibration, Coefficient, engines
from planner.measured_machine import MeasuredFigure, MeasuredMachine
from planner.scenario import PolicyChoice, Scenario, SystemChoice
from tests.ui.conftest import html, texts
from ui import address
from ui.inputs import calibration
from validation.measured.own import Own

Open = Callable[..., AppTest]
HEAD = (
    b"model,weight_bits,gpu,n_gpu,cpu,sockets,mem_GBps_theoretical,batch,input_len,output_len,phase,regime,tok_s,per\n"
)
RUNS = (
    HEAD
    + b"""\
Qwen/Qwen3-30B-A3B,4.5,RTX 4090 24GB,1,Ryzen 9 7950X,1,83.2,1,512,128,decode,cpu_experts,31,request
Qwen/Qwen3-30B-A3B,4.5,RTX 4090 24GB,1,Ryzen 9 7950X,1,83.2,1,1024,128,decode,cpu_experts,30,request
Qwen/Qwen3-30B-A3B,4.5,RTX 4090 24GB,1,Ryzen 9 7950X,1,83.2,1,2048,128,decode,cpu_experts,29.5,request
Qwen/Nobody-Has-This,4.5,RTX 4090 24GB,1,Ryzen 9 7950X,1,83.2,1,512,128,decode,cpu_experts,40,request
"""
)


def scenario(at: AppTest) -> Scenario:
    found: Scenario = at.session_state["scenario"]
    return found


def record(name: str = "mine") -> Calibration:
    figure = Coefficient(value=0.7, low=0.6, high=0.8, rows=5, groups=1)
    return Calibration(name=name, engine_version="0", fitted_on="5 runs from mine.csv", date="2026-01-02",
                       families={"generic": {"dram.read_efficiency": figure}})  # fmt: skip


def outcome(before: float, after: float) -> calibration.Outcome:
    return calibration.Outcome(Own(record(), 5, before, after, before, after), "mine.csv", ("row 4: no such model",))


def upload(at: AppTest, data: bytes = RUNS, name: str = "mine.csv") -> AppTest:
    uploader: Any = next(one for one in at.get("file_uploader") if str(one.key).startswith("runs-file"))
    uploader.set_value([(name, data, "text/csv")])
    at.run()
    assert not at.exception
    return at


# --- devices ----------------------------------------------------------------------------------------------------------
def test_another_gpu_is_taken_kept_in_the_address_and_given_back(app: Open) -> None:
    at = app()
    at.selectbox(key="in.system.gpu").select("h200-sxm-141gb").run()
    assert not at.exception
    assert scenario(at).system.gpu == "h200-sxm-141gb"
    assert address.decode(at.query_params["s"]).system.gpu == "h200-sxm-141gb"
    assert any("Hardware" in m.value and "1 edited" in m.value for m in at.markdown)
    assert "Put together from parts" in html(at)
    at.button(key="reset-hw").click().run()
    assert scenario(at).system == SystemChoice()


def test_edited_figures_stay_with_another_device_and_another_system_starts_afresh(app: Open) -> None:
    start = SystemChoice(id="2x-h100-sxm", overrides={"gpu.price_usd": 20000.0})
    at = app(s=address.encode(Scenario(system=start)))
    at.selectbox(key="in.system.gpu").select("h200-sxm-141gb").run()
    assert scenario(at).system.overrides == {"gpu.price_usd": 20000.0}
    at.selectbox(key="in.system.id").select("1x-h200-sxm").run()
    assert not at.exception
    assert scenario(at).system == SystemChoice(id="1x-h200-sxm")


def test_figures_shown_and_checked_are_those_of_the_chosen_device(app: Open) -> None:
    at = app(s=address.encode(Scenario(system=SystemChoice(gpu="h200-sxm-141gb"))))
    at.session_state["fold-hw"] = True
    at.run()
    at.selectbox(key="hw-group").select("GPU").run()
    key = "in.system.overrides.gpu.memory_bandwidth_bytes_per_s"
    assert at.text_input(key=key).value == "4800"
    at.text_input(key=key).set_value("5000").run()
    assert not at.exception
    assert scenario(at).system.overrides == {"gpu.memory_bandwidth_bytes_per_s": 5e12}
    assert "edited, was 4800" in html(at)


def test_device_that_the_catalog_lacks_is_shown_and_the_page_stays(app: Open) -> None:
    at = app(s=address.encode(Scenario(system=SystemChoice(gpu="a-gpu-of-tomorrow"))))
    assert not at.exception
    assert at.selectbox(key="in.system.gpu").value == "a-gpu-of-tomorrow"
    at.selectbox(key="in.system.gpu").select(None).run()
    assert scenario(at).system.gpu is None


def test_measured_machine_that_is_kept_can_be_chosen_and_given_back(app: Open) -> None:
    assert not [box for box in app().selectbox if box.key == "in.system.measured"]
    figure = MeasuredFigure(value=0.7, low=0.6, high=0.8, source="timed")
    machine = MeasuredMachine(
        name="The one under the desk", engine_version="0", date="2026-01-01",
        figures={"dram.read_efficiency": figure},
    )  # fmt: skip
    digest = measured_machines.register(machine)
    at = app()
    at.selectbox(key="in.system.measured").select(digest).run()
    assert not at.exception
    assert scenario(at).system.measured == digest
    assert address.decode(at.query_params["s"]).system.measured == digest
    at.button(key="reset-hw").click().run()
    assert scenario(at).system.measured is None


# --- engine and addresses ---------------------------------------------------------------------------------------------
def test_serving_engine_is_one_of_the_fitted_families_or_generic(app: Open) -> None:
    at = app()
    box = at.selectbox(key="in.policy.engine")
    assert box.value is None
    assert len(box.options) == 1 + len(engines())
    box.select(engines()[0]).run()
    assert not at.exception
    assert scenario(at).policy.engine == engines()[0]
    assert address.decode(at.query_params["s"]).policy.engine == engines()[0]


def test_addresses_carry_the_new_fields_and_old_ones_leave_them_unsaid() -> None:
    baseline = copy.deepcopy(address.BASELINE_1)
    full = Scenario(
        system=SystemChoice(gpu="a", cpu="b", dimm="c", chassis="d", calibration="e" * 64, measured="f" * 64),
        policy=PolicyChoice(engine="vllm"),
    )
    assert address.decode(address.encode(full)) == full
    assert address._difference(baseline) == {}
    read = address.decode(address.encode(Scenario()))
    assert (read.system.parts, read.system.calibration, read.policy.engine) == ({}, None, None)


# --- calibration ------------------------------------------------------------------------------------------------------
def test_calibration_that_helps_is_used_when_a_person_says_so(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "fitted", lambda data, name, progress=None: outcome(0.31, 0.12))
    at = upload(app())
    said = texts(at)
    assert "31.0 % with the shipped figures, 12.0 % on runs left out" in said
    assert "row 4: no such model" in said
    assert scenario(at).system.calibration is None
    assert kept.known() == {}
    at.button(key="use-calibration").click().run()
    assert not at.exception
    assert scenario(at).system.calibration == record().digest
    assert kept.known() == {record().digest: record()}
    assert at.selectbox(key="in.system.calibration").value == record().digest
    assert address.decode(at.query_params["s"]).system.calibration == record().digest


def test_calibration_that_hurts_is_refused_and_can_be_accepted(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "fitted", lambda data, name, progress=None: outcome(0.12, 0.31))
    at = upload(app())
    assert "makes runs that were left out worse" in html(at)
    assert scenario(at).system.calibration is None
    assert at.button(key="use-calibration").label == "Use it all the same"
    at.button(key="use-calibration").click().run()
    assert scenario(at).system.calibration == record().digest


def test_the_same_file_is_fitted_once(app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def once(data: bytes, name: str, progress: object = None) -> calibration.Outcome:
        asked.append(name)
        return outcome(0.31, 0.12)

    monkeypatch.setattr(calibration, "fitted", once)
    at = upload(app())
    at.text_input(key="in.workload.batch").set_value("16").run()
    assert asked == ["mine.csv"]
    assert at.button(key="use-calibration").label == "Use this calibration"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"a,b\n1,2\n", "has no column model"),
        (RUNS.split(b"\n")[0] + b"\n" + RUNS.split(b"\n")[1] + b"\n", "a calibration takes 3 to"),
        (RUNS.split(b"\n")[0] + b"\n" + 101 * (RUNS.split(b"\n")[1] + b"\n"), "the page fits up to 100"),
        (b"\0" * 50, "is not a CSV file"),
    ],
)
def test_bad_files_are_one_sentence_and_change_nothing(app: Open, data: bytes, said: str) -> None:
    at = upload(app(), data)
    faults = [element.value for element in at.html if 'tl-fault" role' in element.value]
    assert len(faults) == 1
    assert said in faults[0]
    assert "Nothing was changed" in faults[0]
    assert scenario(at) == Scenario()


def test_runs_are_fitted_for_real_and_what_was_not_used_says_why() -> None:
    told: list[int] = []
    found = calibration.fitted(RUNS, "mine.csv", lambda: told.append(1))
    assert found.own.rows == 3
    assert told
    assert len(found.unusable) == 1
    assert "Nobody-Has-This" in found.unusable[0]
    assert found.own.calibration.name == "mine"


def test_calibration_of_another_machine_is_named_and_the_page_stays(app: Open) -> None:
    at = app(s=address.encode(Scenario(system=SystemChoice(calibration="ab" * 32))))
    assert not at.exception
    assert at.selectbox(key="in.system.calibration").value == "ab" * 32
    at.button(key="reset-hw").click().run()
    assert scenario(at).system.calibration is None
