"""Run every benchmark of this folder, each in a process of its own: ``python -m benchmarks [name ...]``."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOT_BENCHMARKS = {"__init__", "__main__", "report"}


def names() -> list[str]:
    """The benchmarks of this folder."""
    return sorted(path.stem for path in HERE.glob("*.py") if path.stem not in NOT_BENCHMARKS)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", help=f"which: {', '.join(names())} (default: all)")
    chosen = parser.parse_args().name or names()
    unknown = [name for name in chosen if name not in names()]
    if unknown:
        print(f"no benchmark is called {unknown[0]!r}; there are {', '.join(names())}", file=sys.stderr)
        return 2
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}", flush=True)
    missed = [
        name
        for name in chosen
        if subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], cwd=HERE.parent, check=False).returncode != 0
    ]
    if missed:
        print(f"\nFailed or missed an aim: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
