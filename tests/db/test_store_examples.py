"""The two examples of a new store."""

from __future__ import annotations

from db import Store, install_examples, open_store
from db.examples import EXAMPLES


def test_a_new_store_gets_two_examples_in_order(store: Store) -> None:
    assert install_examples(store) == 2
    first, second = store.list()
    assert (first.name, second.name) == ("Mixtral-8x7B on two H100", "DeepSeek-V2 on a TriMoE server")
    for row, example in zip((first, second), EXAMPLES, strict=True):
        opened = store.get(row.id)
        assert opened is not None
        assert opened.scenario == example.scenario
    assert first.headline is None  # answers are computed when it is opened


def test_deleted_and_changed_examples_stay_so(store_url: str) -> None:
    store = open_store(store_url)
    install_examples(store)
    first, second = store.list()
    store.archive(first.id)
    store.update(second.id, name="mine now", expected_version=1)
    store.close()
    again = open_store(store_url)
    assert install_examples(again) == 0
    assert [row.name for row in again.list()] == ["mine now"]
    again.close()
