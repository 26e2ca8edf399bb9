"""The tables of ``docs/models.md`` are the data."""

from __future__ import annotations

from pathlib import Path

import pytest

import models
from models import tables
from models.counts import COMPONENTS

DOC = (Path(models.__file__).parent.parent / "docs" / "models.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", [tables.formats_table, tables.kv_table, tables.compute_table, tables.compute_sources])
def test_tables_are_up_to_date(table) -> None:
    assert table() in DOC, "run python -m models.tables and paste"


def test_every_component_is_explained() -> None:
    used = {name for model_id in models.model_ids() for name in models.parameters(models.load(model_id)).by_component}
    assert used <= set(COMPONENTS)
    assert [name for name in COMPONENTS if f"`{name}`" not in DOC] == []
