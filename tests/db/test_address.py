"""The address codec: every scenario comes back the same, and every damage is one sentence."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.examples import EXAMPLES
from planner.scenario import ModelChoice, PolicyChoice, Scenario, SystemChoice, Workload
from tests.db.scenarios import scenarios
from ui import address
from ui.address import AddressError, decode, encode, too_large

ROOT = Path(__file__).resolve().parents[2]
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

# Written by the first release; must be read for ever.
OF_THE_FIRST_RELEASE = (
    "AfYaOBx42l2MQQrCMBBF7zJrS7HgJuveQHArsflgSOKEmUEpJXdv48KFu8d_j79R4YBMbqMYyFEAqgJp8HGcD752vk3UTlQ5x2X9lSaxMLrQVQ3lTwwKeUO6"
    "_7CkzD704uFteZK7nKfjULhUuxsnvPS7tbYDtCgwpQ"
)


def write(version: int, payload: bytes) -> str:
    """A frame with a right checksum, written here apart from the codec."""
    head = bytes([version])
    frame = head + hashlib.sha256(head + payload).digest()[:4] + payload
    return base64.urlsafe_b64encode(frame).decode().rstrip("=")


def write_json(data: object) -> str:
    return write(1, zlib.compress(json.dumps(data).encode()))


def sentence(text: object) -> str:
    with pytest.raises(AddressError) as caught:
        decode(text)  # type: ignore[arg-type]
    said = str(caught.value)
    assert said.endswith(".")
    assert said.isprintable()
    assert len(said) < 400
    return said


@given(scenarios())
def test_every_scenario_comes_back_exactly(scenario: Scenario) -> None:
    text = encode(scenario)
    read = decode(text)
    assert read == scenario
    assert read.canonical_json() == scenario.canonical_json()  # 1, 1.0 and True are told apart
    assert set(text) <= set(ALPHABET)
    assert decode(f" {text}\n") == scenario  # as pasted


@given(scenarios(), st.data())
def test_any_damage_to_one_character_is_noticed(scenario: Scenario, data: st.DataObject) -> None:
    text = encode(scenario)
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from(ALPHABET + " .=%+/é\x00\ud800").filter(lambda c: c != text[place]))
    for damaged in (text[:place] + other + text[place + 1 :], text[:place] + text[place + 1 :]):
        if damaged.strip() != text:
            sentence(damaged)


def test_every_damage_to_a_real_address_is_noticed() -> None:
    text = encode(EXAMPLES[1].scenario)
    for place in range(len(text)):
        for other in ALPHABET.replace(text[place], ""):
            with pytest.raises(AddressError):
                decode(text[:place] + other + text[place + 1 :])
        with pytest.raises(AddressError):
            decode(text[:place])
        with pytest.raises(AddressError):
            decode(text[place + 1 :])
        if place and text[place] != text[place - 1]:
            with pytest.raises(AddressError):
                decode(text[: place - 1] + text[place] + text[place - 1] + text[place + 1 :])


@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda b: base64.urlsafe_b64encode(b).decode()))
def test_any_other_text_is_refused(text: str) -> None:
    sentence(text)


@given(st.binary(max_size=60))
def test_any_content_under_a_right_checksum_is_a_scenario_or_a_sentence(payload: bytes) -> None:
    for text in (write(1, payload), write(1, zlib.compress(payload))):
        try:
            read = decode(text)
        except AddressError:
            sentence(text)
        else:
            assert decode(encode(read)) == read


@pytest.mark.parametrize("text", ["", "  ", None, 7, b"AQ", ["a"]])
def test_nothing_is_said_to_be_nothing(text: object) -> None:
    assert "holds no scenario" in sentence(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A" * 500_000, "too long"),
        (write(2, b"of tomorrow"), "newer Tierline (format 2; this one reads up to 1)"),
        (write(255, b""), "newer Tierline"),
        (write(0, zlib.compress(b"{}")), "damaged"),
        (write(1, b""), "damaged"),
        (write(1, b"not zlib"), "damaged"),
        (write(1, zlib.compress(b"{}")[:-1]), "damaged"),
        (write(1, zlib.compress(b"{}") + b"more"), "damaged"),
        (write(1, zlib.compress(b"")), "damaged"),
        (write(1, zlib.compress(b"{")), "damaged"),
        (write(1, zlib.compress(b"\xff\xfe\x00")), "damaged"),
        (write(1, zlib.compress(b"[" * 200_000)), "damaged"),
        (write(1, zlib.compress(b'{"model":{"config":' + b'{"a":' * 400 + b"1" + b"}" * 402)), "nested too deep"),
        (write(1, zlib.compress(b'{"workload":{"batch":' + b"9" * 5000 + b"}}")), "damaged"),
        (write_json([1]), "not an object"),
        (write_json("x"), "not an object"),
        (write_json({"workload": {"batch": 0}}), "workload.batch is 0"),
        (write_json({"workload": {"bathc": 8}}), "workload.batch"),
        (write_json({"workload": [1]}), "workload"),
        (write_json({"wrokload": {"batch": 8}}), "wrokload"),
        (write_json({"workload": None}), "workload"),
        (write_json({"schema_version": 2, "cluster": {}}), "newer Tierline"),
        (write_json({"<script>\n\x00": 1}), "script"),
        (write_json({"model": {"id": "\ud800"}}), "half a character"),
        (write(1, zlib.compress(b'{"workload":{"slo_ttft_s":NaN}}')), "slo_ttft_s"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    assert says in sentence(text)


def test_a_bomb_is_not_unpacked() -> None:
    bomb = zlib.compress(b'{"model":{"id":"' + b" " * 50_000_000 + b'"}}', 9)
    assert len(bomb) < 100_000
    assert "more than 256 kB" in sentence(write(1, bomb))


def of_the_baseline(scenario: Scenario) -> Scenario:
    """The scenario as an address of version 1 means it where it says nothing: a prefill chunk of 8,192 tokens."""
    return scenario.model_copy(update={"policy": scenario.policy.model_copy(update={"prefill_chunk_tokens": 8192})})


@pytest.mark.parametrize("size", [255_999, 256_000, 256_001])
def test_the_limit_of_the_unpacked_size(size: int) -> None:
    data = b"{" + b" " * (size - 2) + b"}"
    text = write(1, zlib.compress(data))
    if size <= address.MAX_JSON_BYTES:
        assert decode(text) == of_the_baseline(Scenario())
    else:
        assert "more than 256 kB" in sentence(text)


def test_an_address_of_the_first_release_is_read_for_ever() -> None:
    assert decode(OF_THE_FIRST_RELEASE) == of_the_baseline(EXAMPLES[1].scenario)
    baseline = json.dumps(address.BASELINE_1, sort_keys=True).encode()
    # A changed baseline changes what every link out there means: add a version 2 instead.
    assert hashlib.sha256(baseline).hexdigest() == "aa88abc47c0be92647b95c3412558813898d9f9a115321a434ddeaa8f2a4df93"


def test_a_changed_default_does_not_change_what_an_old_link_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the release after the link had another default: the codec's baseline differs from Scenario()."""
    other = copy.deepcopy(address.BASELINE_1)
    other["economics"]["electricity_usd_per_kwh"] = 0.5
    monkeypatch.setattr(address, "BASELINE_1", other)
    assert decode(encode(Scenario())) == Scenario()
    assert decode(write_json({})).economics.electricity_usd_per_kwh == 0.5


def test_only_differences_travel() -> None:
    # Each field that a later schema adds travels always, for the baseline does not know it.
    assert len(encode(Scenario())) < 200
    assert all(len(encode(example.scenario)) < 500 for example in EXAMPLES)


def test_what_is_too_large_says_so_and_offers_save() -> None:
    assert too_large(Scenario()) is None
    small = Scenario(model=ModelChoice(id="mine", config={"hidden_size": 4096, "num_hidden_layers": 32}))
    assert too_large(small) is None
    noise = {f"k{n}": hashlib.sha256(str(n).encode()).hexdigest() for n in range(200)}
    large = Scenario(model=ModelChoice(id="mine", config=noise))
    said = too_large(large)
    assert said is not None
    assert "because of the pasted config" in said
    assert "save it" in said
    assert decode(encode(large)) == large  # though it is longer than is safe
    figures = Scenario(system=SystemChoice(overrides={f"gpu.{key}": float(n) for n, key in enumerate(noise.values())}))
    assert "because of the edited hardware figures" in (too_large(figures) or "")
    options = Scenario(policy=PolicyChoice(options=noise))
    assert "because of the policy's options" in (too_large(options) or "")


def test_what_no_address_can_carry_offers_save_too() -> None:
    huge = Scenario(model=ModelChoice(id="mine", config={"a": "x" * 300_000}))
    with pytest.raises(AddressError, match="save it"):
        encode(huge)
    assert "save it" in (too_large(huge) or "")
    deep: dict[str, object] = {}
    for _ in range(500):
        deep = {"a": deep}
    with pytest.raises(AddressError, match="nested too deep"):
        encode(Scenario(model=ModelChoice(id="mine", config=deep)))


def test_the_preset_travels_too() -> None:
    assert decode(encode(Scenario(workload=Workload(preset="chat")))).workload.preset == "chat"


def test_it_needs_neither_the_page_nor_the_store() -> None:
    check = (
        "import sys, ui.address; "
        "assert not {'streamlit', 'sqlalchemy', 'db', 'plotly', 'pandas'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=True, timeout=60)
