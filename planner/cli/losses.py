"""``calibrate-losses`` measures a loss table, ``import-losses`` checks one and keeps it for scenarios."""

from __future__ import annotations

from typing import Any

from planner.cli.output import json_text
from planner.cli.parsing import CommandParser

CALIBRATE = "calibrate-losses"


def run(command: str, arguments: list[str]) -> str:
    """What was measured or imported. Raises PlanError with a sentence."""
    if command == CALIBRATE:
        from planner.calibrate.command import run as calibrate

        return calibrate(arguments)
    return _import(command, arguments)


def _import(command: str, arguments: list[str]) -> str:
    parser = CommandParser(command, "Checks a loss table and keeps it, so that scenarios can name it by its digest.")
    parser.add_argument("file", metavar="FILE", help="CSV or Parquet with the columns layer, expert, bits, loss")
    parser.add_argument("--model", metavar="ID", help="also check that it fits this model of the catalog")
    options = parser.read(arguments)

    from planner import loss_tables
    from planner.loss_table_io import read_table

    table = read_table(options.file)
    if options.model is not None:
        import models

        architecture = models.load(options.model)
        table.for_model(architecture.moe_layers, architecture.experts)
    digest = loss_tables.register(table)
    answer: dict[str, Any] = {
        "digest": digest,
        "layers": list(table.layers),
        "experts": table.experts,
        "surrogate": table.surrogate,
        "provenance": table.provenance.as_dict(),
    }
    if options.json:
        return json_text(answer)
    return (
        f"{len(table.layers)} layers x {table.experts} experts: {table.source}.\n"
        f"Kept on this machine; a scenario names it loss_table = {digest}.\n"
    )
