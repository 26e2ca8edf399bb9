"""``calibrate-losses``: the loss table of a model, measured on its checkpoint."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from models import Architecture, ModelError, load, model_ids, parse_config_file, read_config
from planner import ENGINE_VERSION, loss_tables
from planner.calibrate.activations import DEFAULT_CORRELATION, DRAWN, Drawn, Given
from planner.calibrate.errors import CalibrationError
from planner.calibrate.experts import activation_of
from planner.calibrate.gptq import DAMPING
from planner.calibrate.layouts import ExpertReader
from planner.calibrate.measure import HELD_OUT, METHODS, Measured, Method, Source, measure
from planner.calibrate.quantise import GROUPS, WHOLE_ROW, group_length
from planner.calibrate.safetensors import Checkpoint
from planner.cli.output import check_out, json_text, shown_file
from planner.cli.parsing import CommandParser
from planner.fields.sentences import nearest, one_of, shown
from planner.files import write_whole
from planner.loss_table import BITS, LossTable, Provenance, falling
from planner.loss_table_io import kind_of, rows_bytes

COMMAND = "calibrate-losses"
_MANY = 100_000


def run(arguments: Sequence[str]) -> str:
    """Measure and write the table; what was done as text, or with ``--json``. Raises PlanError with a sentence."""
    options = _parser().read(arguments)
    out = _writable(options.out)
    bits = tuple(_numbers(options.bits, "--bits", BITS[0], BITS[-1]))
    method = cast(Method, _one_of(options.method, "--method", METHODS))
    group_size = _whole(options.group_size, "--group-size", 0, max(GROUPS))
    group_length(group_size, 1)
    source = _source(options)
    folder = Path(options.checkpoint)
    config = _config(folder)
    architecture = _architecture(options.model, config, folder)
    checkpoint = Checkpoint(folder)
    reader = ExpertReader(checkpoint, architecture)
    layers = _layers(options.layers, architecture)
    activation = activation_of(architecture.model_type, config)
    whole = bits == BITS and layers == architecture.moe_layers
    if options.register and not whole:
        raise CalibrationError("--register keeps whole tables only; leave out --layers and --bits.")
    with _Progress(len(layers)) as progress:
        found = measure(reader, layers, source, activation, bits, method, group_size, progress)
    about = Provenance(
        source=f"measured on the weights of {architecture.id}: error of each expert's output against full precision",
        method=_method(method),
        calibration=source.sentence,
        model=architecture.id,
        group_size=None if group_size == WHOLE_ROW else group_size,
        software=f"Tierline {ENGINE_VERSION}",
        date=datetime.date.today().isoformat(),
        notes=_notes(group_size, activation.kind),
    )
    answer = _write(found, about, out, whole, options.repair, options.register)
    return json_text(answer) if options.json else _text(answer)


def _parser() -> CommandParser:
    parser = CommandParser(COMMAND, "Measures the loss of every expert of a safetensors checkpoint at 1 to 4 bits.")
    parser.add_argument("checkpoint", metavar="CHECKPOINT_DIR", help="folder with config.json and safetensors files")
    parser.add_argument("--out", metavar="FILE", required=True, help="the table: .csv or .parquet")
    parser.add_argument("--model", metavar="ID", help="catalog id of the model (default: from config.json)")
    parser.add_argument("--bits", metavar="LIST", default="1,2,3,4", help="bit-widths (default 1,2,3,4)")
    parser.add_argument("--method", metavar="NAME", default="gptq", help="rtn or gptq (default gptq)")
    parser.add_argument(
        "--activations", metavar="FILE", default=DRAWN, help=".npy or .npz with the experts' inputs, or drawn (default)"
    )
    parser.add_argument(
        "--samples", metavar="N", help="activations to use (default: all given, or as many drawn as the method needs)"
    )
    parser.add_argument(
        "--correlation", metavar="RHO", help=f"of neighbouring drawn channels (default {DEFAULT_CORRELATION:g})"
    )
    parser.add_argument("--group-size", metavar="N", default="128", help="weights that share a scale; 0: a row")
    parser.add_argument(
        "--layers", metavar="LIST", help="layers to measure, such as 3-10,12 (default: all with experts)"
    )
    parser.add_argument("--seed", metavar="N", help="of drawn activations (default 0)")
    parser.add_argument("--repair", action="store_true", help="level losses that rise with bits, and say so")
    parser.add_argument("--register", action="store_true", help="also keep the table for scenarios of this machine")
    return parser


# --- options ---------------------------------------------------------------------------------------------------------
def _writable(name: str) -> Path:
    """Refused before hours of work, not after."""
    kind_of(name)
    check_out(name, CalibrationError)
    return Path(name)


def _whole(text: str, option: str, low: int, high: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise CalibrationError(f"{option} is {shown(text)}; accepted is a whole number from {low} to {high:,}.")
    return value


def _one_of(text: str, option: str, accepted: Sequence[str]) -> str:
    if text not in accepted:
        close = nearest(text, accepted)
        hint = f"; the nearest is {close[0]}" if close else ""
        raise CalibrationError(f"{option} is {shown(text)}; accepted is {one_of(accepted)}{hint}.")
    return text


def _numbers(text: str, option: str, low: int, high: int) -> list[int]:
    """Whole numbers and ranges, ``3-10,12``, ascending and once each."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        a = _whole(first, option, low, high)
        b = _whole(last, option, low, high) if dash else a
        if a > b:
            raise CalibrationError(f"{option} holds {shown(part)}; a range runs from the smaller to the larger number.")
        found.update(range(a, b + 1))
    return sorted(found)


def _source(options: Any) -> Source:
    samples = None if options.samples is None else _whole(options.samples, "--samples", 1, _MANY)
    if options.activations != DRAWN:
        for given, option in ((options.seed, "--seed"), (options.correlation, "--correlation")):
            if given is not None:
                raise CalibrationError(f"{option} is for drawn activations; --activations names a file.")
        return Given(options.activations, samples)
    seed = 0 if options.seed is None else _whole(options.seed, "--seed", 0, 2**63 - 1)
    try:
        rho = DEFAULT_CORRELATION if options.correlation is None else float(options.correlation)
    except ValueError:
        rho = float("nan")
    return Drawn(samples, rho, seed)


def _config(folder: Path) -> dict[str, Any] | None:
    path = folder / "config.json"
    if not path.is_file():
        return None
    try:
        return parse_config_file(path)
    except ModelError as error:
        raise CalibrationError(f"config.json of the checkpoint cannot be used: {error}") from None


def _architecture(model: str | None, config: dict[str, Any] | None, folder: Path) -> Architecture:
    if model is not None and model not in model_ids():
        close = nearest(model, model_ids())
        hint = f"; the nearest is {close[0]}" if close else ""
        raise CalibrationError(f"--model is {shown(model)}, which is not in the catalog{hint}.")
    if model is not None:
        found = load(model)
    elif config is not None:
        try:
            found = read_config(config, folder.absolute().name or "checkpoint")
        except ModelError as error:
            raise CalibrationError(f"config.json of the checkpoint is not understood: {error}") from None
    elif folder.is_dir():
        raise CalibrationError(f"The folder {shown_file(str(folder))} has no config.json; name the model with --model.")
    else:
        raise CalibrationError(f"There is no checkpoint folder {shown_file(str(folder))}.")
    if not found.plannable:
        raise CalibrationError(f"{found.id} cannot be calibrated: {found.why_not}.")
    return found


def _layers(text: str | None, architecture: Architecture) -> tuple[int, ...]:
    have = architecture.moe_layers
    if text is None:
        return have
    asked = _numbers(text, "--layers", 0, max(have))
    without = [layer for layer in asked if layer not in have]
    if without:
        raise CalibrationError(
            f"--layers names layer {without[0]}, which has no experts; the MoE layers of {architecture.id} are "
            f"{have[0]} to {have[-1]}{'' if len(have) == have[-1] - have[0] + 1 else ', not all of them'}."
        )
    return tuple(asked)


class _Progress:
    """A line on a terminal, overwritten and gone at the end; nothing in a pipe."""

    def __init__(self, layers: int) -> None:
        self._layers, self._done = layers, 0
        self._shown = bool(getattr(sys.stderr, "isatty", lambda: False)())

    def __call__(self, layer: int, expert: int, experts: int) -> None:
        if self._shown:
            share = self._done / (self._layers * experts)
            self._write(f"layer {layer}, expert {expert + 1} of {experts}, {share:.0%} done")
        self._done += 1

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._write("")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{text:<60}\r")
        sys.stderr.flush()


# --- answer ----------------------------------------------------------------------------------------------------------
def _method(method: str) -> str:
    if method == "rtn":
        return "rtn: round to nearest"
    return (
        f"gptq: arXiv 2210.17323, columns in order, damping {DAMPING:g}; every {HELD_OUT}th sample held out, and the "
        "loss taken over those"
    )


def _notes(group_size: int, activation: str) -> tuple[str, ...]:
    grouping = "one scale per row" if group_size == WHOLE_ROW else f"groups of {group_size} along the inputs"
    return (
        f"{grouping}; 1 bit: plus or minus the mean magnitude; 2 to 4 bits: scale and zero, range shrunk to the least "
        "squared error",
        f"expert activation {activation}; every expert of a layer sees the same activations; biases unquantised",
    )


def _write(found: Measured, about: Provenance, out: Path, whole: bool, repair: bool, register: bool) -> dict[str, Any]:
    values = found.losses
    rises = int((np.diff(values, axis=2) > 0).sum())
    if rises:
        done = " Levelled by least squares." if repair else ""
        about = replace(about, notes=(*about.notes, _rises(found, rises) + done))
    if rises and repair:
        values = np.apply_along_axis(falling, 2, values)
    table = LossTable(found.layers, values, False, about) if whole else None
    if table is not None and register:
        table.require_falling()
    layer, expert, bits = (
        axis.ravel()
        for axis in np.broadcast_arrays(
            np.array(found.layers)[:, None, None],
            np.arange(values.shape[1])[None, :, None],
            np.array(found.bits)[None, None, :],
        )
    )
    write_whole(out, rows_bytes(layer, expert, bits, values.ravel(), False, about, kind_of(out)))
    if table is not None and register:
        loss_tables.register(table)
    return {
        "file": out.name,
        "digest": table.digest if table is not None else None,
        "complete": whole,
        "registered": register,
        "layers": len(found.layers),
        "experts": int(values.shape[1]),
        "bits": list(found.bits),
        "mean_loss": {str(b): float(values[:, :, i].mean()) for i, b in enumerate(found.bits)},
        "rises": rises,
        "repaired": rises if repair else 0,
        "seconds": found.seconds,
        "read_bytes": found.read_bytes,
        "read_mb_per_s": found.read_bytes / 1e6 / found.seconds if found.seconds > 0 else None,
        "provenance": json.loads(json.dumps(about.as_dict())),
    }


def _rises(found: Measured, rises: int) -> str:
    layer, expert, step = (int(i[0]) for i in np.nonzero(np.diff(found.losses, axis=2) > 0))
    return (
        f"{rises} of {found.losses.size} losses rise with bits, the first in layer {found.layers[layer]}, "
        f"expert {expert}, from {found.bits[step]} to {found.bits[step + 1]} bits."
    )


def _text(answer: dict[str, Any]) -> str:
    losses = ", ".join(f"{loss:.3g} at {bits} bit" for bits, loss in answer["mean_loss"].items())
    lines = [
        f"{answer['file']}: {answer['layers']} layers x {answer['experts']} experts; mean loss {losses}.",
        f"{answer['provenance']['method']}; {answer['provenance']['calibration']}.",
        f"{answer['read_bytes'] / 1e6:,.1f} MB of experts in {answer['seconds']:,.1f} s.",
    ]
    if answer["rises"]:
        done = "levelled" if answer["repaired"] else "left as measured; the planner refuses them without --repair"
        lines.append(f"{answer['rises']} losses rise with bits and are {done}.")
    if not answer["complete"]:
        lines.append("This is a part of a table: the planner needs all MoE layers at 1, 2, 3 and 4 bits.")
    elif answer["registered"]:
        lines.append(f"Kept on this machine; a scenario names it loss_table = {answer['digest']}.")
    return "\n".join(lines) + "\n"
