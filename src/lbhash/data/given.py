"""Rows as a caller gives them: embeddings, images, texts, or a table with a column of these."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.utils.arrays import as_matrix, check_unmasked
from lbhash.utils.formatting import shown

EMBEDDING, LABEL = "embedding", "label"
"""The columns of a table (pandas, Polars, Arrow, datasets) that hold the rows and their labels."""


def from_table(X: Any, y: Any, columns: Sequence[str] = (EMBEDDING,)) -> tuple[Any, Any]:
    """Return the rows and labels of a table that has one of ``columns``; return any other ``X`` and ``y`` unchanged.

    If ``y`` is given, it replaces the labels of the table.
    """
    names = getattr(X, "column_names", getattr(X, "columns", ()))
    named = [name for name in columns if name in list(names)]
    if not named:
        return X, y
    return X[named[0]], X[LABEL] if y is None and LABEL in list(names) else y


def matrix(X: Any) -> Any:
    """Return embeddings as an array, or a table unchanged.

    Raises ``ValueError`` if they are not ``[n, dim]`` or are masked, ``TypeError`` if they are sparse or not numbers.
    """
    if X is None or isinstance(X, (str, bytes, dict, set)) or np.isscalar(X):
        raise ValueError(f"X is {X!r}; it must be embeddings [n, dim], or a list of images or texts")
    if hasattr(X, "toarray"):
        raise TypeError("X is sparse; it must be dense: X.toarray()")
    X = as_matrix(X, "X")
    check_unmasked(X, "X")
    X = np.asarray(X) if isinstance(X, (list, tuple)) else X
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise ValueError(f"Complex data not supported: X holds {X.dtype}, and must hold real numbers")
    if getattr(X, "ndim", 2) == 1:  # scikit-learn would print the whole array
        what = f"X has the shape {X.shape}, and must have rows, [n, dim]"
        raise ValueError(f"{what}. Reshape your data: of one row, X.reshape(1, -1)")
    for axis, what in enumerate(("sample", "feature")):  # scikit-learn's checks look for these words
        if getattr(X, "shape", (1, 1))[axis] == 0:
            shape = tuple(map(int, X.shape))
            raise ValueError(f"X is empty: 0 {what}(s) (shape={shape}) while a minimum of 1 is required, [n, dim]")
    return _numbers(X) if getattr(getattr(X, "dtype", None), "kind", "") == "O" else X


def _numbers(X: npt.NDArray) -> npt.NDArray[np.float64]:
    """Return an array of objects as numbers; ``TypeError`` names the first row that holds anything else."""
    try:
        return X.astype(np.float64)
    except (TypeError, ValueError):
        for (row, *_), item in np.ndenumerate(X):
            try:
                float(item)
            except (TypeError, ValueError):
                said = f"X has {item!r} in row {row}; each value of this argument must be a number"
                raise TypeError(f"{said}, or a string of a number") from None
        raise


def listed(X: Any) -> Any:
    """Return a column of texts, paths or other objects as a list; return numbers and wider tables unchanged."""
    if getattr(getattr(X, "dtype", None), "kind", "O") not in "OUT" or len(getattr(X, "shape", ())) > 1:
        return X
    convert = next((name for name in ("tolist", "to_list", "to_pylist") if hasattr(X, name)), None)
    return X if convert is None else getattr(X, convert)()


def is_item(X: Any) -> bool:
    """Return whether this is a text or an image: a path, the bytes of a file, or a PIL image."""
    pil = sys.modules.get("PIL.Image")  # without it there is no PIL image
    kinds = (str, os.PathLike, bytes, bytearray, memoryview, *((pil.Image,) if pil is not None else ()))
    return isinstance(X, kinds)


def holds_images(X: Any, *, backbone: bool) -> bool:
    """Return whether ``X`` is an image or a list of images; with a ``backbone``, texts count as paths of images."""
    X = listed(X)
    if isinstance(X, (list, tuple)):
        return is_item(X[0]) and (backbone or not isinstance(X[0], str)) if X else backbone
    return is_item(X) and (backbone or not isinstance(X, str))


def items(X: Any, *, columns: bool = False) -> Iterator[Any] | None:
    """Return an iterator over the images or texts of ``X``; None if ``X`` holds embeddings.

    An iterator always counts as images or texts. With ``columns``, ``X`` may also be a column, an array, or one image
    or text.
    """
    if isinstance(X, Iterator):
        return X
    X = listed(X) if columns else X
    if columns and is_item(X):
        return iter([X])
    return iter(X) if isinstance(X, (list, tuple)) and X and is_item(X[0]) else None


def check_images(X: Any) -> list[Any]:
    """Return images as a list; ``TypeError`` unless they are PIL images, or paths or bytes of image files."""
    what = "a table of images, or a list of PIL images, or of paths or bytes of image files"
    found = listed(X)
    if isinstance(found, (str, bytes)) or not isinstance(found, Sequence):
        raise TypeError(f"X is {shown(X)}; it must be {what}")
    for row, image in enumerate(found):
        if not is_item(image):
            raise TypeError(f"X has {shown(image)} in row {row}; it must be {what}")
    return list(found)


def check_texts(X: Any, encoder: str) -> list[str]:
    """Return texts as a list; ``TypeError`` unless ``X`` is a list or column, ``ValueError`` if a row is no text."""
    texts = listed(X)
    if not isinstance(texts, (list, tuple)) or not len(texts):
        raise TypeError(f"X is {shown(X)} and encoder {encoder!r}; it must be texts, a list or a column")
    for row, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"X has {shown(text)} in row {row}; each row must be a text: leave others out")
    return list(texts)
