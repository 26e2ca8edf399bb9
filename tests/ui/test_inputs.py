"""Inputs: whatever is typed stays, one sentence says what is wrong, and the last good value keeps computing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from planner.scenario import PolicyChoice, RoutingChoice, Scenario, SystemChoice, Workload
from tests.ui.conftest import html
from ui import address

Open = Callable[..., AppTest]


@pytest.mark.parametrize("typed", ["0", "-3", "abc", "NaN", "inf", "1e400", "1.5", "99999999", "", "4 5 x"])
def test_bad_batch_keeps_its_text_and_the_last_good_value(app: Open, typed: str) -> None:
    at = app()
    at.text_input(key="in.workload.batch").set_value(typed).run()
    assert not at.exception
    assert at.text_input(key="in.workload.batch").value == typed
    assert at.session_state["scenario"].workload.batch == 32
    faults = [element.value for element in at.html if 'tl-fault" role' in element.value]
    assert len(faults) == 1
    assert "Batch" in faults[0]
    assert "from 1 to 65,536" in faults[0]
    assert "32 is used" in faults[0]
    assert at.title[0].value.startswith(":material/check_circle: Fits")


@pytest.mark.parametrize(
    ("typed", "value"), [("64", 64), ("1,024", 1024), ("1 024", 1024), ("2k", 2000), ("1e3", 1000)]
)
def test_numbers_are_read_as_they_are_meant(app: Open, typed: str, value: int) -> None:
    at = app()
    at.text_input(key="in.workload.batch").set_value(typed).run()
    assert at.session_state["scenario"].workload.batch == value
    assert at.text_input(key="in.workload.batch").value == str(value)
    assert address.decode(at.query_params["s"]).workload.batch == value


def test_a_good_value_clears_the_sentence(app: Open) -> None:
    at = app()
    at.text_input(key="in.workload.batch").set_value("x").run()
    at.text_input(key="in.workload.batch").set_value("16").run()
    assert not [element for element in at.html if 'tl-fault" role' in element.value]
    assert at.session_state["scenario"].workload.batch == 16


def test_refused_text_survives_a_page_switch_and_other_edits(app: Open) -> None:
    at = app()
    at.text_input(key="in.workload.batch").set_value("many").run()
    at.text_input(key="in.workload.prompt_tokens").set_value("2048").run()
    assert at.text_input(key="in.workload.batch").value == "many"
    assert at.session_state["scenario"].workload.prompt_tokens == 2048


def test_one_statement_of_the_load_clears_the_other(app: Open) -> None:
    at = app()
    at.text_input(key="in.workload.requests_per_s").set_value("2.5").run()
    at.text_input(key="in.workload.output_tokens_per_day").set_value("1e9").run()
    work = at.session_state["scenario"].workload
    assert work.requests_per_s is None
    assert work.output_tokens_per_day == 1e9
    at.text_input(key="in.workload.output_tokens_per_day").set_value("").run()
    assert at.session_state["scenario"].workload.output_tokens_per_day is None


def test_preset_fills_the_numbers_and_edits_are_counted_and_reset(app: Open) -> None:
    at = app()
    at.selectbox(key="in.workload.preset").select("chat").run()
    work = at.session_state["scenario"].workload
    assert (work.preset, work.prompt_tokens, work.slo_tpot_s) == ("chat", 1155, 0.05)
    at.text_input(key="in.workload.batch").set_value("7").run()
    assert any("Workload" in m.value and "1 edited" in m.value for m in at.markdown)
    at.button(key="reset-workload").click().run()
    assert at.session_state["scenario"].workload.batch == work.batch
    assert at.text_input(key="in.workload.batch").value == str(work.batch)


def test_reset_drops_a_refused_text(app: Open) -> None:
    at = app()
    at.text_input(key="in.workload.batch").set_value("x").run()
    at.button(key="reset-workload").click().run()
    assert at.text_input(key="in.workload.batch").value == "32"


def test_another_system_and_policy_are_taken_over(app: Open) -> None:
    at = app()
    at.selectbox(key="in.system.id").select("trimoe-server").run()
    at.selectbox(key="in.policy.id").select("trimoe").run()
    scenario = at.session_state["scenario"]
    assert (scenario.system.id, scenario.policy.id) == ("trimoe-server", "trimoe")
    assert "880\u00a0output" in at.title[0].value


def test_changed_hardware_figure_stays_visible_and_can_be_undone(app: Open) -> None:
    at = app(s=address.encode(Scenario(system=SystemChoice(id="2x-h100-sxm", overrides={"gpu.price_usd": 20000.0}))))
    assert any("Hardware" in m.value and "1 edited" in m.value for m in at.markdown)
    assert any("GPU price: $20\u202f000, edited" in element.value for element in at.html)
    at.button(key="undo-gpu.price_usd").click().run()
    assert at.session_state["scenario"].system.overrides == {}


def test_hardware_figures_are_edited_in_their_own_unit(app: Open) -> None:
    at = app()
    at.session_state["fold-hw"] = True
    at.run()
    at.selectbox(key="hw-group").select("GPU").run()
    key = "in.system.overrides.gpu.memory_bandwidth_bytes_per_s"
    assert at.text_input(key=key).label.endswith("GB/s")
    at.text_input(key=key).set_value("4000").run()
    assert at.session_state["scenario"].system.overrides == {"gpu.memory_bandwidth_bytes_per_s": 4e12}
    at.text_input(key=key).set_value("fast").run()
    assert at.text_input(key=key).value == "fast"
    assert at.session_state["scenario"].system.overrides == {"gpu.memory_bandwidth_bytes_per_s": 4e12}
    at.text_input(key=key).set_value("0").run()
    assert any('tl-fault" role' in e.value and "it takes from" in e.value for e in at.html)


def test_unchanged_hardware_text_is_no_edit(app: Open) -> None:
    at = app()
    at.session_state["fold-hw"] = True
    at.run()
    field = at.text_input(key="in.system.overrides.gpu.bf16_flop_per_s")
    field.set_value(field.value + " ").run()
    assert at.session_state["scenario"].system.overrides == {}


def test_refused_config_stays_in_its_box(app: Open) -> None:
    at = app()
    for text, word in (("{not json", "JSON"), ("[1, 2]", "list"), (json.dumps({"model_type": "llama"}), "")):
        at.text_area(key="paste-text").set_value(text).run()
        at.button(key="paste-use").click().run()
        assert not at.exception
        assert at.text_area(key="paste-text").value == text
        assert at.error
        assert word in at.error[0].value
        assert at.session_state["scenario"].model.config is None


def test_config_that_is_understood_becomes_the_model(app: Open) -> None:
    config = {
        "model_type": "mixtral",
        "architectures": ["MixtralForCausalLM"],
        "hidden_size": 1024,
        "intermediate_size": 2048,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "num_hidden_layers": 4,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "vocab_size": 32000,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
        "max_position_embeddings": 4096,
    }
    at = app()
    at.text_input(key="paste-name").set_value("my <i>mix</i>").run()
    at.text_area(key="paste-text").set_value(json.dumps(config)).run()
    at.button(key="paste-use").click().run()
    assert not at.exception
    assert not at.error
    assert at.session_state["scenario"].model.config == config
    assert address.decode(at.query_params["s"]).model.config == config
    assert "<i>mix</i>" not in html(at)


def test_trace_of_another_model_gives_way_to_the_generator(app: Open) -> None:
    start = Scenario(
        model={"id": "openai/gpt-oss-20b"}, routing=RoutingChoice(source="trace", trace="gpt-oss-20b-decode")
    )
    at = app(s=address.encode(start))
    assert not at.error
    assert at.selectbox(key="in.routing").value == "gpt-oss-20b-decode"
    at.selectbox(key="in.model.id").select("mistralai/Mixtral-8x7B-v0.1").run()
    scenario = at.session_state["scenario"]
    assert (scenario.routing.source, scenario.routing.trace) == ("generated", None)
    assert any("belongs to the model before" in element.value for element in at.warning)


def test_options_of_a_policy_are_shown_and_set(app: Open) -> None:
    at = app(s=address.encode(Scenario(policy=PolicyChoice(id="trimoe"))))
    at.selectbox(key="in.policy.options.ndp_compute").select("scaled").run()
    assert at.session_state["scenario"].policy.options == {"ndp_compute": "scaled"}
    at.selectbox(key="in.policy.options.ndp_compute").select("gemv").run()
    assert at.session_state["scenario"].policy.options == {}


def test_values_from_a_link_that_are_no_usual_choice_are_shown(app: Open) -> None:
    at = app(s=address.encode(Scenario(workload=Workload(preset="of-another-version"))))
    assert not at.exception
    assert at.selectbox(key="in.workload.preset").value == "of-another-version"
