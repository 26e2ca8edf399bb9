"""Writes the stored run, its page and the summary in the README anew: ``python -m validation.published [--fit]``.

With ``--fit`` the fitted constants of the calibrations are fitted and written first.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from planner import ENGINE_VERSION
from validation.published import store
from validation.published.calibrations import FOLDER, calibration
from validation.published.compact import compact_json
from validation.published.expressions import Run
from validation.published.fit import FITS, residency
from validation.published.predict import rows
from validation.published.store import snapshot
from validation.published.table import markdown, readme_with

ROOT = Path(__file__).resolve().parents[2]
PAGE, README = ROOT / "docs" / "published_claims.md", ROOT / "README.md"


def refit() -> None:
    """Fit the constants of every calibration and write them into its file."""
    for name, fit in FITS.items():
        path = FOLDER / f"{name}.json"
        found = json.loads(path.read_text(encoding="utf-8"))
        values = fit()
        for constant in found["constants"]:
            if constant["name"] in values:
                constant["value"] = values[constant["name"]]
        if name == "P1":
            generated = residency(Run(), values["sigma"])
            found["data"]["residency"]["generated"] = {k: [round(p, 3) for p in v] for k, v in generated.items()}
        path.write_text(compact_json(found) + "\n", encoding="utf-8")
    calibration.cache_clear()


def main(arguments: list[str]) -> int:
    if set(arguments) - {"--fit"}:
        sys.stderr.write("usage: python -m validation.published [--fit]\n")
        return 2
    if "--fit" in arguments:
        refit()

    def progress(done: int, total: int) -> None:
        sys.stderr.write(f"\r{done} of {total} claims")

    store.FILE.write_text(store.text(rows(progress=progress)), encoding="utf-8")
    PAGE.write_text(markdown(snapshot().rows, ENGINE_VERSION), encoding="utf-8")
    README.write_text(readme_with(README.read_text(encoding="utf-8"), snapshot().rows), encoding="utf-8")
    sys.stderr.write(f"\nwrote {store.FILE.name}, {PAGE.name} and the summary in {README.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
