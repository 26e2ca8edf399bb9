"""``show``: the parameters, bytes and KV bytes of a model of the catalog, or of any config.json."""

from __future__ import annotations

from typing import Any

from planner.cli.configs import config_file, is_config_argument, name_of
from planner.cli.output import as_json, columns, json_text
from planner.cli.parsing import CommandParser


def run(command: str, arguments: list[str]) -> str:
    """The counts as text, or with ``--json`` as the contract has them. Raises ModelError for what is not understood."""
    parser = CommandParser(command, "Counts the parameters and bytes of a model, by component and by weight format.")
    parser.add_argument("model", metavar="MODEL", help="id of a catalog model, or the path of a config.json")
    options = parser.read(arguments)

    import models

    name: str = options.model
    if is_config_argument(name) or name == "-":
        architecture = models.read_config(config_file(name), name_of(name))
    else:
        architecture = models.load(name)
    shown: dict[str, Any] = as_json(models.show(architecture))
    return json_text(shown) if options.json else text(shown)


def text(shown: dict[str, Any]) -> str:
    """The counts for reading: every number in full, one block for each group, nothing that is not there."""
    facts = [(label(key), cell(value)) for key, value in shown.items() if _plain(value)]
    blocks = [columns(facts)]
    blocks += [f"{label(key)}\n{_group(value)}" for key, value in shown.items() if isinstance(value, dict)]
    for key, value in shown.items():
        if isinstance(value, list) and value:
            blocks.append(f"{label(key)}\n" + "".join(f"  {cell(item)}\n" for item in value))
    return "\n".join(blocks)


def _plain(value: Any) -> bool:
    return value is not None and not isinstance(value, (dict, list))


def _group(group: dict[str, Any]) -> str:
    numbers = [(f"  {label(key)}", cell(value)) for key, value in group.items() if _plain(value)]
    text = columns(numbers, numbers=(1,) if all(isinstance(value, (int, float)) for value in group.values()) else ())
    for key, value in group.items():
        if isinstance(value, dict) and value:
            text += f"  {label(key)}\n" + columns(
                ((f"    {label(k)}", cell(v)) for k, v in value.items()), numbers=(1,)
            )
        elif isinstance(value, list) and value:
            text += f"  {label(key)}\n" + "".join(f"    {cell(item)}\n" for item in value)
    return text


def label(key: str) -> str:
    """``kv_bytes_per_token`` as ``kv bytes per token``; a bare width such as ``4`` as ``4 bit``."""
    return f"{key} bit" if key.isdigit() else key.replace("_", " ")


def cell(value: Any) -> str:
    """One value in full, thousands apart."""
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return f"{value:,}" if not float(value).is_integer() else f"{int(value):,}"
    if isinstance(value, dict):
        return ", ".join(f"{label(key)} {cell(inner)}" for key, inner in value.items() if inner is not None)
    return ", ".join(map(cell, value)) if isinstance(value, list) else str(value)
