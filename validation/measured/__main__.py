"""``python -m validation.measured [--fit]``: predicts all points, stores them, writes the page; ``--fit`` fits first.

The fit takes about five minutes of one core, shared by all there are; the predictions another one. ``--per-machine``
instead calibrates each machine with five of its own runs and writes that page, about three minutes.
"""

from __future__ import annotations

import sys

from planner import ENGINE_VERSION
from validation.measured import page, per_machine, ship
from validation.measured.stream import rows


def main() -> None:
    if "--per-machine" in sys.argv[1:]:
        per_machine.write(ship.samples(ship.points()), lambda group: print(group, file=sys.stderr, flush=True))
        return
    if "--fit" in sys.argv[1:]:
        ship.write()
    page.write([row.record() for row in rows(ship.points())], ENGINE_VERSION)


if __name__ == "__main__":
    main()
