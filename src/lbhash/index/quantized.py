"""Vectors as int8: a byte a number, by a scale for each dimension."""

from __future__ import annotations

import base64

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def scales_of(vectors: npt.NDArray) -> Floats:
    """Return for each dimension of vectors ``[n, dim]`` what a step of int8 is worth: a 127th of the largest size."""
    largest = np.abs(vectors).max(axis=0, initial=0).astype(np.float32)
    return np.where(largest > 0, largest / 127, np.float32(1)).astype(np.float32)


def to_int8(vectors: npt.NDArray, scales: Floats) -> npt.NDArray[np.int8]:
    """Return vectors as ``int8 [n, dim]``; a number beyond 127 steps becomes the 127th."""
    return np.clip(np.rint(vectors / scales), -127, 127).astype(np.int8)


def to_text(scales: Floats) -> str:
    """Return scales in a form that JSON holds in one line, and exactly."""
    return base64.b64encode(scales.astype("<f4").tobytes()).decode()


def from_text(text: str) -> Floats:
    """Return the scales that ``to_text`` wrote."""
    return np.frombuffer(base64.b64decode(text), "<f4").astype(np.float32)
