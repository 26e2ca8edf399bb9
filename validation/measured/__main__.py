"""``python -m validation.measured [--fit]``: the page of the documentation; with ``--fit`` the calibration first."""

from __future__ import annotations

import sys

from validation.measured import ship


def main() -> None:
    if "--fit" in sys.argv[1:]:
        ship.write()


if __name__ == "__main__":
    main()
