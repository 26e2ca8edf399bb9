"""``python -m planner``: the command line."""

import sys

from planner.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
