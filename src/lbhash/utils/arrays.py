"""Make arrays of a caller's values; masked values are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def check_unmasked(value: Any, name: str) -> None:
    """Raise ``ValueError`` if a masked array, or a list of them, has a masked value: NumPy would drop the mask.

    >>> check_unmasked(np.ma.masked_equal([3, -1], -1), "y")
    Traceback (most recent call last):
    ValueError: y is masked in row 1; leave such rows out, or fill them (numpy.ma.filled)
    """
    if isinstance(value, np.ma.MaskedArray):
        masked = np.argwhere(np.ma.getmaskarray(value))[:, :1].ravel().tolist()
    elif isinstance(value, (list, tuple)):
        masked = [at for at, row in enumerate(value) if isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row)]
    else:
        return
    if len(masked):
        raise ValueError(f"{name} is masked in row {masked[0]}; leave such rows out, or fill them (numpy.ma.filled)")


def from_tensors(value: Any) -> Any:
    """Return a PyTorch tensor, or a list of them, as arrays; return anything else unchanged.

    Tensors may lie on any device and have a gradient. Number types that NumPy lacks, and those of ``ml_dtypes``, become
    float32.
    """
    if hasattr(value, "detach"):
        dense = value.to_dense()
        try:
            return dense.numpy(force=True)
        except TypeError:  # bfloat16 and the types of 8 bits
            return dense.float().numpy(force=True)
    if isinstance(value, np.ndarray) and value.dtype.kind == "V" and "float" in value.dtype.name:
        return value.astype(np.float32)
    if isinstance(value, (list, tuple)) and value and hasattr(value[0], "detach"):
        return [from_tensors(row) for row in value]
    return value


def as_array(value: Any, name: str) -> npt.NDArray[Any]:
    """Return values or tensors as an array; raises ``ValueError`` if a value is masked, or rows differ in length."""
    value = from_tensors(value)
    check_unmasked(value, name)
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} is ragged; every row must have as many values as the first") from None


def as_numbers(value: Any, name: str, rows: int | None = None, columns: int | None = None) -> npt.NDArray[Any]:
    """Return real numbers as an array ``[rows, columns]``; None allows any number of rows, or of columns above 0.

    Raises ``TypeError`` for other values, and ``ValueError`` for another shape.

    >>> as_numbers([[1, 2]], "queries", columns=3)
    Traceback (most recent call last):
    ValueError: queries has shape (1, 2); it must be [n, 3]
    """
    array = as_array(value, name)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} {'holds' if array.ndim else 'is'} {held(array)}; it must hold numbers")
    if array.ndim != 2 or not array.shape[1] or rows not in (None, len(array)) or columns not in (None, array.shape[1]):
        wanted = f"[{'n' if rows is None else rows}, {'dim' if columns is None else columns}]"
        raise ValueError(f"{name} has shape {array.shape}; it must be {wanted}")
    return array


def check_finite(array: npt.NDArray[Any], name: str) -> None:
    """Raise ``ValueError`` if a number of ``[n, dim]`` is NaN or infinite."""
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        raise ValueError(f"{name} is NaN or infinite in row {int(np.argmin(finite))}; every number must be finite")


def largest_of(array: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    """Return the largest absolute numbers along an axis, without the copy that ``np.abs`` makes."""
    largest: npt.NDArray[Any] = np.maximum(array.max(axis, initial=0), 0 - array.min(axis, initial=0))
    return largest


def unit_rows(rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return rows ``[n, dim]`` scaled to length 1, ``float32``; rows of zeros stay.

    Squares beyond the range of float32 do no harm.

    >>> unit_rows(np.array([[3e-30, 4e-30], [0, 0]])).round(3).tolist()
    [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    largest = largest_of(rows, 1)[:, None]
    unit = np.divide(rows, largest, out=np.zeros(rows.shape, np.float32), where=largest > 0, casting="same_kind")
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), np.float32(1))
    return unit


def held(array: npt.NDArray[Any]) -> str:
    """Return a word for an array: text, objects or its number type; for a single value, the value itself.

    >>> held(np.array(["a"])), held(np.zeros(2, np.float32))
    ('text', 'float32')
    """
    if array.ndim == 0:
        return repr(array.item())
    return {"U": "text", "S": "text", "T": "text", "O": "objects"}.get(array.dtype.kind, str(array.dtype))


def as_matrix(value: Any, name: str) -> Any:
    """Return lists in rows as an array ``[n, dim]``; return other numbers unchanged.

    The rows may be a pandas, Polars or Arrow column of lists, or an array of objects; a Python list becomes an array
    only if a row is missing. Missing rows become NaN. Raises ``ValueError`` for texts, for rows of several lengths, and
    for tables with texts or lists in one of several columns.

    >>> as_matrix(np.array([[1, 2.5], None], object)[:1], "X").tolist()
    [[1.0, 2.5]]
    """
    value = from_tensors(value)
    if isinstance(value, np.ndarray):
        if value.dtype != object or value.ndim != 1:
            return value
        rows = value.tolist()
    elif getattr(value, "ndim", len(getattr(value, "shape", ()))) == 2 and value.shape[1] == 1:
        column = value.to_series() if hasattr(value, "to_series") else getattr(value, "iloc", {}) and value.iloc[:, 0]
        inner = as_matrix(column, name)
        return value if inner is column else inner
    elif hasattr(value, "columns") and len(value):
        for column, item in zip(value.columns, np.asarray(value[:1], dtype=object)[0], strict=False):
            if hasattr(item, "__len__"):
                what = "a text" if isinstance(item, (str, bytes)) else "a list"
                raise ValueError(
                    f"{name} has {what} in column {column!r} beside others; give columns of numbers, or one of lists"
                )
        return value
    elif isinstance(value, (list, tuple)):
        if len(value) and isinstance(value[0], (str, bytes)):
            said = f"{name} has the text {value[0][:40]!r} in row 0, and must have numbers [n, dim]"
            raise ValueError(f"{said}; of texts name an encoder, of images a backbone")
        rows = value
    elif (to_list := getattr(value, "to_pylist", getattr(value, "to_list", None))) is not None:
        rows = to_list()
    else:
        return value
    first: Any = next((row for row in rows if row is not None), None)
    if not hasattr(first, "__len__") or isinstance(first, (str, bytes)):
        return value
    if any(row is None for row in rows):
        rows = [np.full(len(first), np.nan) if row is None else row for row in rows]
    for at, row in enumerate(rows):
        if not hasattr(row, "__len__") or len(row) != len(first):
            what = f"{len(row)} numbers" if hasattr(row, "__len__") else repr(row)
            raise ValueError(f"{name} has {what} in row {at}; every row must have as many as the first ({len(first)})")
    return value if rows is value else np.asarray(rows)
