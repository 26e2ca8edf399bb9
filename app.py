"""Entry point of the pages: navigation and nothing else."""

from __future__ import annotations

from ui.app import main

main()
