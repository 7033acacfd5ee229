"""Vectors in fewer bytes: first dimensions, half precision, 8-bit integers, single bits."""

from __future__ import annotations

import numpy as np

FLOAT32, FLOAT16, INT8, UBINARY = "float32", "float16", "int8", "ubinary"
PRECISIONS = (FLOAT32, FLOAT16, INT8, UBINARY)
_MOST = 127  # largest 8-bit integer that is used, of both signs


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """Return vectors [rows, size] scaled to the length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, np.finfo(np.float32).tiny)


def truncated(vectors: np.ndarray, dim: int) -> np.ndarray:
    """Return the first `dim` dimensions of vectors [rows, size].

    Raises:
        ValueError: `dim` is not between 1 and the size.
    """
    if not 1 <= dim <= vectors.shape[1]:
        raise ValueError(
            f"`truncate_dim` must be from 1 to {vectors.shape[1]}, the size of the vectors. "
            f"Received: truncate_dim={dim}"
        )
    return vectors[:, :dim]


def quantize(vectors: np.ndarray, precision: str) -> np.ndarray:
    """Return vectors in another number format.

    - "float32" and "float16": the numbers themselves.
    - "int8": numbers divided by the largest of their vector, times 127, and rounded. The direction
      stays, and the length is lost, so compare such vectors by their cosine.
    - "ubinary": one bit for each number, 1 for a positive one, eight to a byte.

    Args:
        vectors: float32 [rows, size].
        precision: one of the names above.

    Returns:
        [rows, size]; for "ubinary" uint8 [rows, size / 8], rounded up.

    Raises:
        ValueError: another precision.
    """
    if precision not in PRECISIONS:
        raise ValueError(
            f"`precision` must be one of {', '.join(PRECISIONS)}. Received: precision={precision!r}"
        )
    if precision in (FLOAT32, FLOAT16):
        return vectors.astype(precision, copy=False)
    if precision == UBINARY:
        return np.packbits(vectors > 0, axis=1)
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0.0)
    scaled = vectors / np.where(largest > 0, largest, 1.0)
    return np.rint(scaled * _MOST).astype(np.int8)


def precision_of(vectors: np.ndarray) -> str:
    """Return the name of the precision of vectors.

    Raises:
        ValueError: another dtype.
    """
    name = UBINARY if vectors.dtype == np.uint8 else vectors.dtype.name
    if name not in PRECISIONS or vectors.ndim != 2:
        raise ValueError(
            "Vectors must be an array [rows, size] of float32, float16, int8 or, for single bits, "
            f"uint8. Received: {vectors.dtype}, shape {vectors.shape}"
        )
    return name


def as_float32(vectors: np.ndarray, size: int) -> np.ndarray:
    """Return quantised vectors as float32 [rows, size]; bits become 1 and -1.

    Args:
        vectors: vectors of any precision.
        size: size of the vectors before the quantisation.
    """
    if vectors.dtype != np.uint8:
        return vectors.astype(np.float32, copy=False)
    bits = np.unpackbits(vectors, axis=1, count=size)
    return bits.astype(np.float32) * 2 - 1
