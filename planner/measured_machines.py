"""The measured machines of this machine, kept by their content; a scenario names one in ``system.measured``."""

from __future__ import annotations

from planner.keeper import Keeper
from planner.measured_machine import LARGEST_BYTES, MeasuredMachine, parse

_MACHINES = Keeper[MeasuredMachine](
    folder="machines",
    suffix=".json",
    plural="machines",
    subject="system.measured",
    option="system.measured",
    accepted="the 64 hexadecimal digits of a kept machine's digest, which import-machine prints, or nothing for the "
    "catalog's figures",
    again="import the file that it came from (import-machine)",
    largest_bytes=LARGEST_BYTES,
    read=lambda data: parse(data, "the kept file"),
    write=lambda machine: machine.text().encode(),
    digest=lambda machine: machine.digest,
)
directory, register, get, known = _MACHINES.directory, _MACHINES.register, _MACHINES.get, _MACHINES.sound
