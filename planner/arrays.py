"""Arrays in the one form that the compiled kernels are built for."""

from __future__ import annotations

from typing import Any

import numpy as np


def kernel_input(array: Any, dtype: Any) -> np.ndarray:
    """C-contiguous, of this type, and writable: Numba compiles a kernel again for read-only arrays (0.3 s each)."""
    out = np.ascontiguousarray(array, dtype)
    return out if out.flags.writeable else out.copy()
