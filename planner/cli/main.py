"""Chooses the command, prints its answer, and turns every error into one sentence and an exit code.

0: an answer, also that a plan does not fit. 1: a fault of Tierline itself, or an answer that could not be
written. 2: bad input, with one sentence on standard error and nothing on standard output.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NamedTuple

from planner.cli.parsing import PROGRAM, Helped, UsageError
from planner.errors import PlanError

OK, FAULT, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
DEBUG_VARIABLE = "TIERLINE_DEBUG"


class Command(NamedTuple):
    """A command: the module of ``planner.cli`` that runs it, and what it does."""

    module: str
    does: str


COMMANDS: dict[str, Command] = {
    "plan": Command("plan", "plan a scenario: does it fit, how fast, what does it cost"),
    "best": Command("rank", "rank every policy for a scenario's model, machine and workload"),
    "brief": Command("brief", "write the one page to decide on, as HTML, PDF, workbook or CSV"),
    "ask": Command("ask", "answer an example question of capacity planning"),
    "compare": Command("compare", "compare two to four scenarios, with the reason for every delta"),
    "ablation": Command("rank", "take the context-aware policy apart: placement, bits, alpha, K, hot sets"),
    "simulate": Command("simulate", "simulate decode steps under policy trimoe, experts moving with the load"),
    "sweep": Command("sweep", "plan a grid or a sequence of scenarios over any fields"),
    "sensitivity": Command("sensitivity", "what an answer hangs on: ranges, one per cent more, where a choice flips"),
    "models": Command("lists", "list the models of the catalog"),
    "hardware": Command("lists", "list GPUs, CPUs, memory and links with their figures"),
    "systems": Command("lists", "list whole systems that can be planned on"),
    "policies": Command("lists", "list the policies that place and schedule experts"),
    "traces": Command("lists", "list the routing traces that are shipped"),
    "presets": Command("lists", "list the workload presets"),
    "fields": Command("lists", "list every field of a scenario, for --set"),
    "show": Command("show", "count the parameters and bytes of a model or of a config.json"),
    "calibrate-losses": Command("losses", "measure the loss table of a model on its safetensors checkpoint"),
    "import-losses": Command("losses", "check a loss table and keep it for scenarios"),
    "export-times": Command("times", "write the times of experts on GPU and CPU under policy trimoe as a table"),
    "import-times": Command("times", "check a table of measured expert times and keep it for scenarios"),
    "probe": Command("probe", "measure this machine and say what costs speed"),
    "import-machine": Command("probe", "check a measured machine and keep it for scenarios"),
    "rehearse": Command("rehearse", "run one MoE layer of a scenario on this machine, beside its prediction"),
    "validate": Command("validate", "hold published claims, or a CSV of measured runs, against the model"),
    "calibrate": Command("calibrate", "fit coefficients to measured runs of a machine and keep them"),
    "export": Command("bundles", "write a scenario or a project of the library as one file"),
    "import": Command("bundles", "check a file that export wrote and add it to the library"),
    "schema": Command("schema", "print the JSON schema of scenario and result"),
    "warm": Command("warm", "compile the numeric kernels ahead of the first plan"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default ``sys.argv``) and return its exit code. Never raises for bad input."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _write(_answer(given))
    except Helped as helped:
        return _write(helped.text)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return _failed(error)


def _answer(given: list[str]) -> str:
    if not given:
        raise UsageError(f"No command is given; use one of {', '.join(COMMANDS)}, or --help.")
    name, rest = given[0], given[1:]
    if name in ("-h", "--help", "help"):
        return _help()
    if name not in COMMANDS:
        raise UsageError(_unknown_command(name))
    module = importlib.import_module(f"planner.cli.{COMMANDS[name].module}")
    answer: str = module.run(name, rest)
    return answer


def _unknown_command(name: str) -> str:
    from planner.fields.sentences import nearest, shown

    close = nearest(name, COMMANDS)
    near = f"; the nearest is {close[0]}" if close else f"; the commands are {', '.join(COMMANDS)}"
    kind = "option before a command" if name.startswith("-") else "command"
    return f"There is no {kind} {shown(name)}{near}."


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [
        f"usage: {PROGRAM} COMMAND [options]",
        "",
        "Plans Mixture-of-Experts inference on tiered memory.",
        "",
        "commands:",
        *(f"  {name:<{width}}  {command.does}" for name, command in COMMANDS.items()),
        "",
        f"Every command takes --json, and --help for its own options. Example: {PROGRAM} plan --batch 64 --json",
    ]
    return "\n".join(lines) + "\n"


def _write(text: str) -> int:
    """Print the answer. A reader that closes the pipe early got what it wanted."""
    try:
        _safe_stream(sys.stdout)
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    except OSError as error:
        _drop_output()
        return _say(f"The answer could not be written: {error.strerror or error}.", FAULT)
    return OK


def _failed(error: Exception) -> int:
    if isinstance(error, _bad_input_types()):
        return _say(str(error), BAD_INPUT)
    if os.environ.get(DEBUG_VARIABLE) == "1":
        traceback.print_exception(error)
    return _say(
        f"Tierline failed: {type(error).__name__}: {str(error)[:200]}; this is a fault of the program, "
        f"please report it to its issue tracker with the command and the traceback that {DEBUG_VARIABLE}=1 prints.",
        FAULT,
    )


def _bad_input_types() -> tuple[type[Exception], ...]:
    """The errors that are sentences for people. A room that was not imported cannot have raised its own."""
    found: list[type[Exception]] = [PlanError]
    for module, name in (("models", "ModelError"), ("hardware", "HardwareError"), ("planner.routing", "RoutingError")):
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and issubclass(kind, Exception):
            found.append(kind)
    return tuple(found)


def _say(sentence: str, code: int) -> int:
    _safe_stream(sys.stderr)
    text = " ".join(sentence.split())
    try:
        sys.stderr.write(text + ("\n" if text.endswith((".", "?", "!")) else ".\n"))
    except OSError:  # nowhere left to say it
        pass
    return code


def _safe_stream(stream: object) -> None:
    """A terminal that cannot show a character gets an escape instead of a traceback."""
    reconfigure = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Send what is still buffered to nowhere: the interpreter flushes once more when it ends."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # standard output is no file, for example in a test
        pass
