"""``python -m db migrate | examples | health``: prepare or check the store that the environment names."""

from __future__ import annotations

import argparse
import sys

from db import StoreError, install_examples, open_store


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m db", description="Prepare or check Tierline's store.")
    parser.add_argument(
        "command",
        choices=("migrate", "examples", "health"),
        help="migrate: bring the schema up to date; examples: add the example scenarios to a store that never had "
        "them; health: say where the store is and what it holds",
    )
    command = parser.parse_args(arguments).command
    try:
        store = open_store()
        if command == "examples":
            added = install_examples(store)
            print(f"{added} example scenario{'' if added == 1 else 's'} added.")
        else:
            print(store.health())
    except StoreError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
