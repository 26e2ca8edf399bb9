"""Inputs of the experts over which their outputs are compared: given in a file, or drawn.

Given activations are the real thing. Drawn ones are normal numbers with unit variance and correlation rho^|i - j|
between the channels i and j: a stand-in that is said to be one.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from planner.calibrate.errors import CalibrationError
from planner.fields.sentences import shown
from planner.routing.counter_rng import child, normal_quantile, uniform

DRAWN = "drawn"
MAX_SAMPLES = 65_536
DEFAULT_CORRELATION = 0.5
_MAX_MEMBER_BYTES = 8_000_000_000
_KINDS = ("float16", "float32", "float64")
_ROOT = np.uint64(0x616374697661)


class Drawn:
    """Seeded normal activations; every layer has its own."""

    def __init__(self, samples: int | None = None, correlation: float = DEFAULT_CORRELATION, seed: int = 0) -> None:
        """samples: None for as many as the method needs. Raises CalibrationError for what is out of range."""
        self.samples = None if samples is None else _samples(samples)
        if not 0.0 <= correlation < 1.0:
            raise CalibrationError(
                f"The correlation between channels is {shown(correlation)}; accepted is 0 to below 1."
            )
        if not 0 <= seed < 2**63:
            raise CalibrationError(f"The seed is {shown(seed)}; accepted is a whole number from 0 to 2^63 - 1.")
        self.correlation, self.seed = correlation, seed
        self._used = 0

    @property
    def sentence(self) -> str:
        return (
            f"{self._used:,} drawn activations, not of this model: normal, unit variance, correlation "
            f"{self.correlation:g}^|i-j| between channels, seed {self.seed}"
        )

    def of_layer(self, layer: int, width: int, wanted: int) -> np.ndarray:
        """float32 [samples, width]; ``wanted`` samples when none were asked for."""
        samples = wanted if self.samples is None else self.samples
        self._used = max(self._used, samples)
        keys = child(child(child(_ROOT, self.seed), layer), np.arange(width))
        x = np.empty((width, samples), np.float32)
        rho, rest = np.float32(self.correlation), np.float32((1.0 - self.correlation**2) ** 0.5)
        for i in range(width):  # an autoregression along the channels has just this correlation
            x[i] = normal_quantile(uniform(child(keys[i], np.arange(samples))))
            if i:
                x[i] = rho * x[i - 1] + rest * x[i]
        return np.ascontiguousarray(x.T)

    def second_moment(self, width: int) -> np.ndarray | None:
        """What the samples only estimate: rho^|i-j|, float64 [width, width]."""
        away = self.correlation ** np.arange(width)
        return np.stack([np.concatenate([away[i:0:-1], away[: width - i]]) for i in range(width)])


class Given:
    """Activations from ``.npy`` (all layers) or ``.npz`` (``layer_7`` or ``7`` for each layer), [samples, width]."""

    def __init__(self, path: str | Path, samples: int | None = None) -> None:
        """samples: how many rows to use, the first ones (default: up to 65,536). Raises CalibrationError."""
        self._path = Path(path)
        self._most = MAX_SAMPLES if samples is None else _samples(samples)
        self._asked = samples
        self._named = shown(self._path.name)
        self._arrays: Any = self._open()
        self._used = 0

    def _open(self) -> Any:
        try:
            if self._path.suffix.lower() == ".npz":
                with zipfile.ZipFile(self._path) as packed:
                    large = [item.filename for item in packed.infolist() if item.file_size > _MAX_MEMBER_BYTES]
                if large:
                    raise CalibrationError(f"{shown(large[0])} in {self._named} is larger than 8 GB.")
                return np.load(self._path, allow_pickle=False)
            return np.load(self._path, mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise CalibrationError(f"There is no activation file {self._named}.") from None
        except CalibrationError:
            raise
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, SyntaxError, TypeError) as error:
            reason = getattr(error, "strerror", None) or "it is not an array of numbers in NumPy's format"
            raise CalibrationError(f"The activation file {self._named} cannot be read: {reason}.") from None

    @property
    def sentence(self) -> str:
        used = f", the first {self._used:,} rows of each layer" if self._used else ""
        return f"activations given in {self._path.name}{used}"

    def second_moment(self, width: int) -> np.ndarray | None:
        """Not known but from the samples."""
        return None

    def of_layer(self, layer: int, width: int, wanted: int) -> np.ndarray:
        """float32 [samples, width]. Raises CalibrationError for another shape or type, or if not finite."""
        array, name = self._array(layer)
        if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.name not in _KINDS:
            kind = f"{array.dtype} of shape {list(array.shape)}" if isinstance(array, np.ndarray) else "no array"
            raise CalibrationError(
                f"The activations {name} are {kind}; [samples, {width}] of {', '.join(_KINDS)} is needed."
            )
        if array.shape[1] != width or not len(array):
            raise CalibrationError(
                f"The activations {name} have the shape {list(array.shape)}; the experts of layer {layer} take "
                f"[samples, {width}]."
            )
        if self._asked is not None and self._asked > len(array):
            raise CalibrationError(
                f"{self._asked:,} samples are asked for and the activations {name} have only {len(array):,}."
            )
        with np.errstate(over="ignore"):  # float64 beyond float32 becomes infinite and is refused
            x = np.array(array[: self._most], np.float32)
        if not np.isfinite(x).all():
            raise CalibrationError(f"The activations {name} hold values that are not finite numbers.")
        self._used = max(self._used, len(x))
        return x

    def _array(self, layer: int) -> tuple[Any, str]:
        if isinstance(self._arrays, np.ndarray):
            return self._arrays, self._named
        names = (f"layer_{layer}", str(layer))
        found = next((name for name in names if name in self._arrays), None)
        if found is None:
            raise CalibrationError(
                f"The activation file {self._named} has no array {names[0]} for layer {layer}; a .npy file serves all "
                "layers."
            )
        try:
            return self._arrays[found], f"{found} of {self._named}"
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, SyntaxError, TypeError, MemoryError):
            raise CalibrationError(f"The array {found} of {self._named} cannot be read.") from None


def _samples(samples: int) -> int:
    if not 1 <= samples <= MAX_SAMPLES:
        raise CalibrationError(f"The number of samples is {shown(samples)}; accepted is 1 to {MAX_SAMPLES:,}.")
    return samples
