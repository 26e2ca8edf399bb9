"""``probe`` measures the machine it runs on; ``import-machine`` keeps a measured machine for scenarios."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from planner.cli.output import check_out, columns, json_text
from planner.cli.parsing import CommandParser

if TYPE_CHECKING:
    from planner.measured_machine import MeasuredMachine

IMPORT = "import-machine"


def run(command: str, arguments: list[str]) -> str:
    """What was measured or kept. Raises PlanError with a sentence."""
    return _import(command, arguments) if command == IMPORT else _probe(command, arguments)


def _probe(command: str, arguments: list[str]) -> str:
    parser = CommandParser(
        command,
        "Measures this machine without root, in at most two minutes: memory, expert-shaped products, GPU and link "
        "where torch with a GPU is installed; and says what costs speed.",
    )
    parser.add_argument("--out", metavar="FILE", help="JSON file to write, for import-machine")
    parser.add_argument("--quick", action="store_true", help="a few seconds instead of a minute or two, less exact")
    options = parser.read(arguments)
    check_out(options.out)

    from planner.files import write_whole
    from planner.probe.run import load_torch, measured_machine, record

    machine = measured_machine(record(options.quick, _say, load_torch()))
    if options.out is not None:
        write_whole(options.out, machine.text().encode())
    if options.json:
        return json_text({**machine.model_dump(mode="json"), "digest": machine.digest, "file": options.out})
    kept = f"Wrote {options.out}; keep it for scenarios with import-machine.\n" if options.out else ""
    return report(machine) + kept


def _say(text: str) -> None:
    """Progress, to standard error of a person at a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(text + "\n")


def report(machine: MeasuredMachine) -> str:
    """A measured machine as a page of text."""
    from hardware import path_schema

    units = {spec.path: spec.unit for spec in path_schema()}
    lines = [f"{machine.name}, measured {machine.date}\n"]
    parts = ", ".join(f"{kind} {device}" for kind, device in machine.parts.items())
    lines.append(f"Recognised in the catalog: {parts or 'nothing'}.\n\n")
    rows = [[path, f"{f.value:.4g}", units[path], f.source] for path, f in machine.figures.items()]
    lines.append(columns(rows, ("figure", "measured", "unit", "how"), (1,)))
    lines.append("\nNot measured, these keep the catalog's figures:\n")
    lines.append(columns([[path, why] for path, why in machine.not_measured.items()]))
    lines.append("\nWhat costs speed:\n")
    marks = {"costs": "costs", "unknown": "unknown", "fine": "fine"}
    for f in machine.findings:
        worth = f" Worth a factor of {f.worth:.2f}." if f.worth is not None and f.state == "costs" else ""
        lines.append(f"  {marks[f.state]:8}{f.id:11}{f.sentence}{worth} ({f.how})\n")
    return "".join(lines)


def _import(command: str, arguments: list[str]) -> str:
    parser = CommandParser(
        command, "Checks a measured machine and keeps it, so that scenarios can name it by its digest."
    )
    parser.add_argument("file", metavar="FILE", help="JSON that probe wrote")
    options = parser.read(arguments)

    from planner import measured_machines
    from planner.measured_machine import read

    machine = read(options.file)
    digest = measured_machines.register(machine)
    if options.json:
        return json_text(
            {
                "digest": digest,
                "name": machine.name,
                "date": machine.date,
                "parts": machine.parts,
                "figures": len(machine.figures),
            }
        )
    return (
        f"{machine.name}: {len(machine.figures)} figures, measured {machine.date}.\n"
        f"Kept on this machine; a scenario takes it with --set system.measured={digest}.\n"
    )
