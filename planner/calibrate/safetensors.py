"""Reads safetensors checkpoints: headers are checked, bytes are mapped piece by piece and never trusted before.

The format: 8 bytes with the length of the header (little endian), a JSON object from tensor name to dtype, shape and
offsets into the bytes that follow, then those bytes without holes (github.com/huggingface/safetensors, README). A
sharded checkpoint has ``model.safetensors.index.json``, which names the file of every tensor.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from planner.calibrate.errors import CalibrationError
from planner.fields.sentences import shown

MAX_HEADER_BYTES = 100_000_000
"""As the reference implementation."""
MAX_INDEX_BYTES = 400_000_000
INDEX_SUFFIX = ".safetensors.index.json"
SUFFIX = ".safetensors"
_LENGTH_BYTES = 8
_MOST_AXES = 8

STORAGE: dict[str, str] = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "F8_E4M3": "u1",
    "F8_E5M2": "u1",
    "F8_E8M0": "u1",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "u1",
    "BOOL": "u1",
}
"""How NumPy holds the bytes of each dtype; BF16 and FP8 as the whole number of their bits."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file. ``begin`` and ``end`` count bytes from the start of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: Path
    begin: int
    end: int

    @property
    def bytes(self) -> int:
        return self.end - self.begin

    def read(self, first: int = 0, count: int | None = None) -> np.ndarray:
        """Rows ``first`` to ``first + count`` along the first axis (default all), mapped, in the type of STORAGE."""
        kind = STORAGE.get(self.dtype)
        if kind is None:
            raise CalibrationError(
                f"The tensor {shown(self.name)} has the dtype {shown(self.dtype)}, which is not understood; "
                f"{', '.join(STORAGE)} are."
            )
        shape = self.shape
        offset = self.begin
        if count is not None:
            if not shape or not 0 <= first <= first + count <= shape[0]:
                raise CalibrationError(f"The tensor {shown(self.name)} of shape {list(shape)} has no row {first}.")
            offset += first * (self.bytes // shape[0])
            shape = (count, *shape[1:])
        if 0 in shape:
            return np.empty(shape, kind)
        try:
            return np.memmap(self.path, kind, "r", offset, shape or (1,))
        except (OSError, ValueError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise CalibrationError(f"The tensor {shown(self.name)} cannot be read: {reason}.") from None


def read_header(path: Path) -> dict[str, Entry]:
    """The tensors of one file. Raises CalibrationError with a sentence when the header lies or cannot be read."""
    name = shown(path.name)
    try:
        size = path.stat().st_size
        if not path.is_file() and not path.is_dir():  # a pipe would be waited for
            raise CalibrationError(f"{name} is not a file.")
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            if size < _LENGTH_BYTES + 2:
                raise CalibrationError(f"The file {name} has {size} bytes; that is no safetensors file.")
            if length > MAX_HEADER_BYTES:
                raise CalibrationError(
                    f"The header of {name} claims {length:,} bytes; up to {MAX_HEADER_BYTES:,} are accepted."
                )
            if _LENGTH_BYTES + length > size:
                raise CalibrationError(
                    f"The header of {name} claims {length:,} bytes and the file has only {size:,}; it is cut off."
                )
            text = file.read(length)
    except OSError as error:
        raise CalibrationError(f"The file {name} cannot be read: {error.strerror or error}.") from None
    found = _json_object(text, f"The header of {name}")
    found.pop("__metadata__", None)
    start = _LENGTH_BYTES + length
    entries = {tensor: _entry(tensor, stated, path, start, size) for tensor, stated in found.items()}
    _no_overlap(entries.values(), start, size, name)
    return entries


def _json_object(text: bytes, what: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise CalibrationError(f"{what} names something twice.")
        return found

    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=once)
    except CalibrationError:
        raise
    except (ValueError, RecursionError):
        raise CalibrationError(f"{what} is not JSON.") from None
    if not isinstance(found, dict):
        raise CalibrationError(f"{what} is not an object from tensor names to tensors.")
    return found


def _counts(value: Any, most: int) -> bool:
    """Whether this is a list of at most ``most`` whole numbers from 0 up."""
    return (
        isinstance(value, list)
        and len(value) <= most
        and all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**63 for n in value)
    )


def _entry(tensor: str, stated: Any, path: Path, start: int, size: int) -> Entry:
    what = f"The header of {shown(path.name)} gives the tensor {shown(tensor)}"
    if not isinstance(stated, dict) or not {"dtype", "shape", "data_offsets"} <= set(stated):
        raise CalibrationError(f"{what} without dtype, shape and data_offsets.")
    dtype, shape, offsets = stated["dtype"], stated["shape"], stated["data_offsets"]
    if not isinstance(dtype, str):
        raise CalibrationError(f"{what} the dtype {shown(dtype)}; a text is needed.")
    if not _counts(shape, _MOST_AXES):
        raise CalibrationError(f"{what} a shape that is not a list of up to {_MOST_AXES} whole numbers from 0 up.")
    if not _counts(offsets, 2) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise CalibrationError(f"{what} data_offsets that are not a begin and an end.")
    begin, end = offsets
    if start + end > size:
        raise CalibrationError(
            f"{what} bytes up to {end:,}, and the file holds only {size - start:,} after its header; it is cut off or "
            "the header lies."
        )
    if dtype in STORAGE and end - begin != math.prod(shape) * np.dtype(STORAGE[dtype]).itemsize:
        raise CalibrationError(f"{what} {end - begin:,} bytes, which is not the size of {dtype} of shape {shape}.")
    return Entry(tensor, dtype, tuple(shape), path, start + begin, start + end)


def _no_overlap(entries: Iterable[Entry], start: int, size: int, name: str) -> None:
    """The bytes of the tensors follow one another from the header to the end of the file."""
    reached, last = start, ""
    for entry in sorted(entries, key=lambda e: (e.begin, e.end)):
        if entry.begin < reached:
            raise CalibrationError(f"The header of {name} lets {shown(last)} and {shown(entry.name)} overlap.")
        if entry.begin > reached:
            raise CalibrationError(
                f"The header of {name} leaves {entry.begin - reached:,} bytes before {shown(entry.name)} unnamed."
            )
        reached, last = entry.end, entry.name
    if reached != size:
        raise CalibrationError(f"The file {name} has {size - reached:,} bytes that its header does not name.")


class Checkpoint:
    """All tensors of a folder with safetensors files. Headers are read when a tensor of the file is asked for."""

    def __init__(self, folder: str | Path) -> None:
        """Raises CalibrationError when the folder, its index or a shard is not there."""
        self.folder = Path(folder)
        self._named = shown(self.folder.name or str(folder))
        self._headers: dict[str, dict[str, Entry]] = {}
        try:
            names = sorted(path.name for path in self.folder.iterdir())
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "its name is not valid"
            raise CalibrationError(f"The checkpoint folder {self._named} cannot be read: {reason}.") from None
        indices = [name for name in names if name.endswith(INDEX_SUFFIX)]
        shards = [name for name in names if name.endswith(SUFFIX)]
        if len(indices) > 1:
            raise CalibrationError(
                f"The folder {self._named} has {len(indices)} indices ({', '.join(map(shown, indices[:3]))}); "
                "one checkpoint is needed."
            )
        if indices:
            self._file_of = self._read_index(indices[0], set(shards))
        elif shards:
            self._file_of = self._by_headers(shards)
        else:
            raise CalibrationError(
                f"The folder {self._named} has no safetensors file; pickled (.bin, .pt) and GGUF checkpoints "
                "are not read."
            )

    def _read_index(self, name: str, shards: set[str]) -> dict[str, str]:
        path = self.folder / name
        try:
            with path.open("rb") as file:
                text = file.read(MAX_INDEX_BYTES + 1)
        except OSError as error:
            raise CalibrationError(f"The index {shown(name)} cannot be read: {error.strerror or error}.") from None
        if len(text) > MAX_INDEX_BYTES:
            raise CalibrationError(f"The index {shown(name)} is larger than {MAX_INDEX_BYTES / 1e6:.0f} MB.")
        found = _json_object(text, f"The index {shown(name)}").get("weight_map")
        if not isinstance(found, dict) or not found:
            raise CalibrationError(f"The index {shown(name)} has no weight_map from tensor names to files.")
        files = set()
        for tensor, file_name in found.items():
            plain = isinstance(file_name, str) and file_name.endswith(SUFFIX) and Path(file_name).name == file_name
            if not plain or "\\" in file_name or "\0" in file_name:
                raise CalibrationError(
                    f"The index {shown(name)} puts {shown(tensor)} into {shown(file_name)}; a {SUFFIX} file beside the "
                    "index is accepted."
                )
            files.add(file_name)
        missing = sorted(files - shards)
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            verb = "is" if len(missing) == 1 else "are"
            raise CalibrationError(
                f"{len(missing)} of the {len(files)} shards that {shown(name)} names {verb} missing: "
                f"{', '.join(missing[:3])}{more}."
            )
        return found

    def _by_headers(self, shards: list[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for shard in shards:
            for tensor in self._header(shard):
                if tensor in found:
                    raise CalibrationError(
                        f"The tensor {shown(tensor)} is in {shown(found[tensor])} and in {shown(shard)}, and no index "
                        "says which counts."
                    )
                found[tensor] = shard
        return found

    def _header(self, shard: str) -> dict[str, Entry]:
        if shard not in self._headers:
            self._headers[shard] = read_header(self.folder / shard)
        return self._headers[shard]

    @property
    def names(self) -> Iterable[str]:
        """Names of all tensors."""
        return self._file_of.keys()

    def __contains__(self, name: str) -> bool:
        return name in self._file_of

    def entry(self, name: str) -> Entry:
        """Where a tensor lies. Raises CalibrationError if there is none, or its shard does not hold it."""
        if name not in self._file_of:
            raise CalibrationError(f"The checkpoint has no tensor {shown(name)}.")
        shard = self._file_of[name]
        found = self._header(shard).get(name)
        if found is None:
            raise CalibrationError(f"The index puts the tensor {shown(name)} into {shown(shard)}, which lacks it.")
        return found
