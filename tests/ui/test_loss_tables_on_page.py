"""A person's loss table: uploaded, checked, kept, chosen, used, and its provenance in the reports."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import models
import planner
from planner import loss_tables
from planner.loss_table import BITS, LossTable, LossTableError, Provenance
from planner.loss_table_io import rows_bytes
from planner.result import Result
from planner.scenario import Scenario
from tests.ui.conftest import html, texts
from tests.ui.test_policies_page import CONTEXT, SMALL
from ui import address, engine
from ui.inputs import losses

Open = Callable[..., AppTest]
ARCH = models.load(SMALL.id)
PLACE = "in.loss-table"


def table(experts: int = ARCH.experts, source: str = "made for a test") -> LossTable:
    rng = np.random.default_rng(1)
    first = rng.uniform(0.2, 0.6, (len(ARCH.moe_layers), experts, 1))
    values = first * 0.25 ** np.arange(len(BITS))
    about = Provenance(source=source, method="gptq: in a test", model=ARCH.id, calibration="drawn", date="2026-01-02")
    return LossTable(tuple(ARCH.moe_layers), values, False, about)


def file_of(found: LossTable, kind: str = "csv") -> bytes:
    axes = np.meshgrid(found.layers, np.arange(found.experts), BITS, indexing="ij")
    layer, expert, bits = (axis.ravel() for axis in axes)
    return rows_bytes(layer, expert, bits, found.values.ravel(), found.surrogate, found.provenance, kind)


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, app: Open) -> AppTest:
    def compute(scenario: Scenario, complete: bool = True) -> Result:
        return planner.plan(scenario, with_ranges=False, with_marginals=False)

    monkeypatch.setattr(engine, "compute", compute)
    at = app(s=address.encode(CONTEXT))
    assert not at.exception
    return at


def upload(at: AppTest, name: str, data: bytes) -> AppTest:
    uploader = next(one for one in at.get("file_uploader") if str(one.key).startswith("loss-file"))
    kind = "text/csv" if name.endswith("csv") else "application/octet-stream"
    uploader.set_value([(name, data, kind)])
    at.run()
    assert not at.exception
    return at


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_uploaded_table_is_kept_chosen_used_and_told(page: AppTest, kind: str) -> None:
    found = table()
    at = upload(page, f"mine.{kind}", file_of(found, kind))
    assert loss_tables.known() == (found.digest,)
    assert at.selectbox(key=PLACE).value == found.digest
    text = texts(at)
    assert f"Loss table {found.digest[:8]} is kept" in text
    for said in ("Made for a test", "gptq: in a test", "activations: drawn", "2026-01-02"):
        assert said in text, said
    expected = planner.plan(
        CONTEXT.model_copy(
            update={"policy": CONTEXT.policy.model_copy(update={"options": {"loss_table": found.digest}})}
        ),
        with_ranges=False,
    )
    assert expected.details is not None
    assert expected.details.selector is not None
    assert not expected.details.selector.surrogate
    at.selectbox(key=PLACE).set_value("surrogate").run()
    assert "Made for a test" not in html(at)
    assert any(found.digest[:8] in name for name in at.selectbox(key=PLACE).options)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.csv", b"layer,expert,bits\n0,0,1\n", "lacks the column loss"),
        ("a.csv", b"\xff\xfe\x00", "neither CSV in UTF-8 nor Parquet"),
        ("a.parquet", b"PAR1 no more", "a.parquet"),
        ("a.csv", file_of(table(experts=8)), "has 8 experts in each layer; the model has 64"),
        ("a.csv", file_of(table()).rpartition(b"15,63,4")[0], "lacks layer 15, expert 63 at 4"),
    ],
    ids=["column", "bytes", "parquet", "other-model", "missing"],
)
def test_bad_file_is_one_sentence_and_changes_nothing(page: AppTest, name: str, data: bytes, said: str) -> None:
    at = upload(page, name, data)
    text = html(at)
    assert said in text
    assert "Nothing was changed." in text
    assert "Traceback" not in text
    assert at.selectbox(key=PLACE).value == "surrogate"
    assert loss_tables.known() == ()
    # The same place takes the mended file.
    at = upload(at, "mended.csv", file_of(table()))
    assert at.selectbox(key=PLACE).value == table().digest
    assert "Nothing was changed." not in html(at)


def test_spread_of_the_surrogate_is_a_field_that_keeps_what_was_refused(page: AppTest) -> None:
    at = page.selectbox(key=PLACE).set_value("surrogate:").run()
    at.text_input(key="in.loss-spread").set_value("wide").run()
    assert "it takes a number from 0" in html(at)
    assert at.text_input(key="in.loss-spread").value == "wide"
    at.text_input(key="in.loss-spread").set_value("0,8").run()
    assert not at.exception
    assert "surrogate:0.8" in str(at.session_state["scenario"].policy.options)


def test_pages_neither_take_huge_files_nor_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LossTableError, match="larger than 8 MB"):
        losses.take(b"x" * 8_000_001, "a.csv", ARCH)
    monkeypatch.setattr(losses, "MOST_KEPT", 1)
    first = losses.take(file_of(table()), "a.csv", ARCH)
    assert losses.take(file_of(table()), "again.csv", ARCH) == first
    with pytest.raises(LossTableError, match="already keeps 1 loss tables"):
        losses.take(file_of(table(source="another")), "b.csv", ARCH)
    assert loss_tables.known() == (first,)
