"""Vectors in fewer bytes: as float16, or as int8 (directions only, with a scale per dimension)."""

from __future__ import annotations

import base64

import numpy as np
import numpy.typing as npt

from lbhash.utils.arrays import largest_of, unit_rows

Floats = npt.NDArray[np.float32]

_FLOAT16 = np.finfo(np.float16)


def to_float16(vectors: npt.NDArray) -> npt.NDArray[np.float16]:
    """Return vectors as ``float16 [n, dim]``; a row whose largest number is out of range is scaled to length 1."""
    largest = largest_of(vectors, 1)
    outside = (largest > _FLOAT16.max) | ((largest < _FLOAT16.tiny) & (largest > 0))
    if outside.any():
        vectors = vectors.astype(np.promote_types(vectors.dtype, np.float32))
        vectors[outside] = unit_rows(vectors[outside])
    return vectors.astype(np.float16, copy=False)


def scales_of(vectors: npt.NDArray) -> Floats:
    """Return the int8 step of each dimension, ``[dim]``: 1/127 of the largest number after scaling rows to length 1."""
    largest = largest_of(unit_rows(vectors), 0)
    others = largest.max(initial=0) or np.float32(1)  # for a dimension with zeros only so far
    return np.where(largest > 0, largest, others).astype(np.float32) / np.float32(127)


def to_int8(vectors: npt.NDArray, scales: Floats) -> npt.NDArray[np.int8]:
    """Return vectors as ``int8 [n, dim]``, scaled to length 1, or less if a number would exceed 127 steps."""
    steps = unit_rows(vectors)
    steps /= scales
    steps /= np.maximum(largest_of(steps, 1) / 127, np.float32(1))[:, None]
    return np.rint(steps, out=steps).astype(np.int8)


def to_text(scales: Floats) -> str:
    """Return scales as a text (base64) for JSON, without rounding."""
    return base64.b64encode(scales.astype("<f4").tobytes()).decode()


def from_text(text: str) -> Floats:
    """Return the scales that ``to_text`` wrote."""
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float32)
