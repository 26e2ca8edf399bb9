"""Runs the silicon table and writes the stored run and its page: ``python -m validation.silicon [--table FILE]``.

``--keep-figures`` predicts with the figures of the stored run instead of fitting anew; ``--page`` only writes the page
from the stored run and needs no table.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from validation.silicon import store, table
from validation.silicon.page import markdown
from validation.silicon.run import whole

PAGE = Path(__file__).resolve().parents[2] / "docs" / "silicon.md"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m validation.silicon", description=__doc__)
    parser.add_argument("--table", type=Path, help="CSV file with the table's columns; default: the installed package")
    parser.add_argument("--keep-figures", action="store_true", help="predict with the stored figures")
    parser.add_argument("--page", action="store_true", help="only write the page from the stored run")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args(arguments)
    if not given.page:
        try:
            path = given.table or table.installed()
            rows = table.read(path)
        except table.TableError as error:
            print(error, file=sys.stderr)
            return 2
        assert path is not None
        fitted = store.fitted_of(store.snapshot()) if given.keep_figures else None
        run = whole(rows, given.processes, fitted, lambda text: print(text, flush=True))
        version = table.version() or "not installed"
        about = {"version": version, "sha256": table.digest(path), "rows": len(rows), "scored": len(run.cases)}
        store.write(store.record(run, about))
    PAGE.write_text(markdown(store.snapshot()), encoding="utf-8")
    errors = store.snapshot()["errors"]["after"]
    for name in ("tpot", "ttft"):
        found = errors[name]
        if found:
            print(f"{name.upper()}: median {found['median']:.1%}, p90 {found['p90']:.1%} of {found['rows']} rows")
    print(f"written: {PAGE.relative_to(PAGE.parents[1])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
