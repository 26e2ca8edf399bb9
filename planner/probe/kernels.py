"""Compiled loops of the probe: a streaming read, and products with packed weights. No interpreter lock."""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def read_words(words: np.ndarray, passes: int) -> int:
    """Sum of int64 [n], read ``passes`` times: one load per word and nothing else worth mentioning."""
    total = 0
    for _ in range(passes):
        part = 0
        for i in range(words.size):
            part += words[i]
        total ^= part
    return total


@numba.njit(cache=True, nogil=True)
def touch_words(words: np.ndarray, value: int) -> None:
    """Write int64 [n]: the first touch decides on which NUMA node a page lies."""
    for i in range(words.size):
        words[i] = value


@numba.njit(cache=True, nogil=True, fastmath=True)
def product_int8(weights: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """out [rows] = weights int8 [rows, columns] times x float32 [columns]."""
    for row in range(weights.shape[0]):
        total = np.float32(0.0)
        for column in range(weights.shape[1]):
            total += np.float32(weights[row, column]) * x[column]
        out[row] = total


@numba.njit(cache=True, nogil=True, fastmath=True)
def product_int4(packed: np.ndarray, even: np.ndarray, odd: np.ndarray, out: np.ndarray) -> None:
    """out [rows] = weights of 4 bit, two in a byte (uint8 [rows, columns / 2]), times the even and odd halves of x."""
    for row in range(packed.shape[0]):
        total = np.float32(0.0)
        for column in range(packed.shape[1]):
            pair = packed[row, column]
            total += np.float32(np.int32(pair & 15) - 8) * even[column]
            total += np.float32(np.int32(pair >> 4) - 8) * odd[column]
        out[row] = total


def warm() -> None:
    """Compile the kernels, or load them from the cache."""
    words = np.ones(8, np.int64)
    touch_words(words, 1)
    read_words(words, 1)
    x = np.ones(8, np.float32)
    product_int8(np.ones((1, 8), np.int8), x, np.empty(1, np.float32))
    product_int4(np.ones((1, 4), np.uint8), x[:4].copy(), x[:4].copy(), np.empty(1, np.float32))
