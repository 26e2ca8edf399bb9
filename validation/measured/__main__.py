"""``python -m validation.measured [--fit]``: predicts all points, stores them, writes the page; ``--fit`` fits first.

The fit takes about ten minutes on one core; the predictions another two.
"""

from __future__ import annotations

import sys

from planner import ENGINE_VERSION
from validation.measured import page, ship
from validation.measured.stream import rows


def main() -> None:
    if "--fit" in sys.argv[1:]:
        ship.write()
    page.write([row.record() for row in rows(ship.points())], ENGINE_VERSION)


if __name__ == "__main__":
    main()
