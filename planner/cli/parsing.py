"""Options of a command. argparse, except that every mistake is one sentence with the nearest accepted option."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from planner.errors import PlanError
from planner.fields.sentences import nearest, shown

PROGRAM = "python -m planner"


class UsageError(PlanError):
    """A command line that cannot be understood; one sentence."""


class Helped(Exception):
    """``--help`` was asked for; ``text`` is the answer."""

    def __init__(self, text: str) -> None:
        super().__init__("help")
        self.text = text


class CommandParser(argparse.ArgumentParser):
    """A parser that raises UsageError and Helped, and never prints or exits."""

    def __init__(self, command: str, description: str) -> None:
        super().__init__(
            prog=f"{PROGRAM} {command}", description=description, allow_abbrev=False, add_help=False, epilog=None
        )
        self.command = command
        self.add_argument("-h", "--help", action="store_true", help="show this help")
        self.add_argument("--json", action="store_true", help="print JSON instead of text")

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The parsed options. Raises UsageError or Helped."""
        if any(argument in ("-h", "--help") for argument in arguments):
            raise Helped(self.format_help())
        known, unknown = self.parse_known_args(self._values_attached(arguments))
        if unknown:
            raise UsageError(self._unknown(unknown[0]))
        return known

    def error(self, message: str) -> NoReturn:
        """What argparse found, as a sentence."""
        text = " ".join(message.split())
        missing = re.fullmatch(r"argument (\S+): expected .*argument", text)
        if missing:
            raise UsageError(f"{missing[1]} needs a value; see {self.prog} --help.")
        required = re.fullmatch(r"the following arguments are required: (.*)", text)
        if required:
            raise UsageError(f"{required[1]} is missing; see {self.prog} --help.")
        extra = re.fullmatch(r"argument (\S+): ignored explicit argument (.*)", text)
        if extra:
            raise UsageError(f"{extra[1].rpartition('/')[2]} takes no value.")
        raise UsageError(f"{text[:1].upper()}{text[1:].rstrip('.')}.")

    def _values_attached(self, arguments: Sequence[str]) -> list[str]:
        """``--batch -1e5`` as ``--batch=-1e5``: a value that starts with a dash is still a value."""
        known = self._option_string_actions
        attached: list[str] = []
        pending = list(arguments)
        while pending:
            argument = pending.pop(0)
            if argument == "--":
                return [*attached, argument, *pending]
            action: Any = known.get(argument)
            takes_value = action is not None and action.nargs is None
            if takes_value and pending and pending[0].partition("=")[0] not in known and pending[0] != "--":
                argument = f"{argument}={pending.pop(0)}"
            attached.append(argument)
        return attached

    def _unknown(self, argument: str) -> str:
        option = argument.partition("=")[0]
        if not option.startswith("-") or option == "-":
            return f"{shown(argument)} is one argument too many for {self.command}; see {self.prog} --help."
        close = nearest(option, [name for name in self._option_string_actions if name.startswith("--")])
        near = f"; the nearest is {close[0]}" if close else f"; see {self.prog} --help"
        return f"There is no option {shown(option)} for {self.command}{near}."
