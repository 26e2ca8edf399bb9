"""The folder of compiled kernels changes with every source that a kernel can reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from planner import kernel_cache


def test_a_change_in_any_kernel_source_names_another_folder(tmp_path: Path) -> None:
    called, imported, plain = (tmp_path / name for name in ("called.py", "imported.py", "plain.py"))
    called.write_text("from numba import njit\nfrom imported import inner\n")
    imported.write_text("import numba\nX = 1\n")
    plain.write_text("X = 1\n")
    first = kernel_cache.digest(tmp_path)
    plain.write_text("X = 2\n")
    assert kernel_cache.digest(tmp_path) == first
    imported.write_text("import numba\nX = 2\n")
    assert kernel_cache.digest(tmp_path) != first


def test_the_environment_decides_when_it_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", "elsewhere")
    kernel_cache.choose(tmp_path)
    assert os.environ["NUMBA_CACHE_DIR"] == "elsewhere"
    assert kernel_cache.forget_old() == 0


def test_old_folders_go_and_the_newest_and_foreign_ones_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = tmp_path / "kernels"
    names = [f"{i:016x}" for i in range(7)]
    for age, name in enumerate(names):
        (room / name).mkdir(parents=True)
        os.utime(room / name, (1e9 - age, 1e9 - age))
    (room / "notes").mkdir()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(room / names[6]))  # the one in use is the oldest
    assert kernel_cache.forget_old(kept=2) == 4
    assert {p.name for p in room.iterdir()} == {names[0], names[1], names[6], "notes"}


def test_without_a_cache_of_its_own_a_user_gets_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: blocked / name)
    assert kernel_cache.folder(tmp_path).name == kernel_cache.digest(tmp_path)
    assert blocked not in kernel_cache.folder(tmp_path).parents
