"""Labels: class numbers ``int64 [n]``, or a multi-hot matrix ``uint8 [n, classes]``, from any form that users give.

Where rows have one label each, a few functions allow rows without one, whose class number is ``UNLABELED``. All others
refuse it, as they do any negative number.

An array of one column, ``[n, 1]``, is a column of class numbers; a multi-hot matrix has two columns or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.utils.arrays import check_unmasked
from lbhash.utils.memory import check_memory
from lbhash.utils.validation import check_int

Labels = npt.NDArray[Any]  # int64 [n] or uint8 [n, classes], as check_labels returns them

UNLABELED = -1
"""The class number of a row without a label, among rows that have one each."""

_MAY_BE = "class numbers [n], a multi-hot array [n, classes] or a list of lists of class numbers"


def check_labels(labels: Any, name: str = "labels", classes: int | None = None) -> Labels:
    """Return class numbers as ``int64 [n]``, and labels of any other form as ``uint8 [n, classes]``.

    Labels are class numbers ``[n]`` or ``[n, 1]`` from 0 on (integers, floats that are whole numbers, or Booleans),
    multi-hot ``[n, classes]`` of 0 and 1, or a list of n lists of class numbers; in the last two forms a row may have
    no label. No value may be masked, NaN or None.
    If ``classes`` is None, it is the columns of a multi-hot array, or of a list of lists 1 + the largest class number,
    2 at least.

    >>> check_labels([[0, 2], [1]]).tolist()
    [[1, 0, 1], [0, 1, 0]]
    """
    if classes is not None:
        classes = check_int(classes, "classes", 1)
    if _is_list_of_lists(labels, name):
        return _multi_hot_of_lists(labels, name, classes)
    array = _as_numbers(labels, name)
    if array.ndim == 1 or array.shape[1:] == (1,):
        return _class_numbers(array.ravel(), name, classes)
    if array.ndim == 2 and array.shape[1] > 1:
        return _multi_hot(array, name, classes)
    raise ValueError(f"{name} has shape {array.shape}; it must be {_MAY_BE}")


def named_labels(labels: Any, name: str = "labels", classes: int | None = None) -> tuple[Labels, tuple[str, ...]]:
    """Return labels as ``check_labels`` does, and the names of their classes if they are strings, else no name.

    Strings ``[n]``, or lists of strings, are numbered in the order of the alphabet; a row may have several names.

    >>> named_labels(["dog", "cat", "dog"])
    (array([1, 0, 1]), ('cat', 'dog'))
    """
    lists = _is_list_of_lists(labels, name)
    flat = [value for row in labels for value in row] if lists else _array(labels)
    strings = [isinstance(value, str) for value in flat]
    if any(strings) and not lists and (missing := missing_labels(_array(labels)) & ~np.array(strings)).any():
        raise ValueError(f"{name} is missing in row {np.argmax(missing)}; leave out the rows that have none")
    if not strings or not all(strings):
        return check_labels(labels, name, classes), ()
    names = tuple(sorted({str(value) for value in flat}))
    position = {value: at for at, value in enumerate(names)}
    if lists:
        return check_labels([[position[value] for value in row] for row in labels], name, len(names)), names
    return np.array([position[value] for value in flat], np.int64), names


def partial_labels(labels: Any, name: str = "labels") -> tuple[Labels, tuple[str, ...]]:
    """Return labels as ``named_labels`` does, with ``UNLABELED`` for None, NaN and "" among labels ``[n]``.

    >>> partial_labels(["dog", None, "cat"])
    (array([ 1, -1,  0]), ('cat', 'dog'))
    """
    if _is_list_of_lists(labels, name):
        return named_labels(labels, name)
    array = _array(labels)
    missing = missing_labels(array)
    if array.ndim == 1 and array.dtype.kind in "if" and (row := _first(array == UNLABELED)) is not None:
        what = "class numbers must be at least 0; a row without a label is left empty (null, NaN)"
        raise ValueError(f"{name} is -1 in row {row}; {what}")
    if not missing.any():
        return named_labels(labels, name)
    if missing.all():
        return np.full(len(array), UNLABELED), ()
    array = array.copy()
    array[missing] = array[np.argmin(missing)]
    numbers, names = named_labels(array, name)
    numbers[missing] = UNLABELED
    return numbers, names


def _array(labels: Any) -> npt.NDArray[Any]:
    """Return labels as an array; of a list the items as they are, since NaN among texts would become a text."""
    return np.asarray(labels, dtype=object) if isinstance(labels, (list, tuple)) else np.asarray(labels)


def missing_labels(array: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which labels of an array ``[n]`` are None, NaN or ""; of an array of another shape none is."""
    if array.ndim != 1 or array.dtype.kind not in "fOUT":
        return np.zeros(len(array) if array.ndim else 0, bool)
    if array.dtype.kind == "f":
        return np.isnan(array)
    return np.fromiter(map(_is_missing, array), bool, len(array))


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ == "NAType":  # pandas.NA is neither true nor false
        return True
    return not label if isinstance(label, str) else isinstance(label, (float, np.floating)) and bool(np.isnan(label))


def has_label(labels: Labels) -> npt.NDArray[np.bool_]:
    """Return which rows have a label, ``bool [n]``; a row of multi-hot labels may have none, which is known of it."""
    return labels != UNLABELED if labels.ndim == 1 else np.ones(len(labels), bool)


def numbered_together(query_labels: Any, base_labels: Any) -> tuple[Any, Any]:
    """Return two sets of labels that are strings with one number a class, and any others unchanged.

    >>> numbered_together(["dog"], ["cat", "dog"])
    (array([1]), array([0, 1]))
    """
    if not (_are_strings(query_labels) or _are_strings(base_labels)):
        return query_labels, base_labels
    named = named_labels(query_labels, "query_labels"), named_labels(base_labels, "base_labels")
    return in_one_order(*named, "query_labels are {} and base_labels are {}")


def in_one_order(
    left: tuple[Labels, Sequence[str]], right: tuple[Labels, Sequence[str]], said: str, advice: str = ""
) -> tuple[Labels, Labels]:
    """Return two sets of labels, each given with the names of its classes, with one number a name.

    Labels without names are unchanged. ``said`` has two ``{}``, for what each set is where only one of them has names.
    """
    names, more = left[1], right[1]
    if not (names or more):
        return left[0], right[0]
    if not (names and more):
        kinds = [f"names, such as {given[0]!r}" if given else "numbers" for given in (names, more)]
        raise ValueError(f"{said.format(*kinds)}; both must be the same{advice}")
    order = sorted({*names, *more})
    return renumbered(left[0], names, order), renumbered(right[0], more, order)


def _are_strings(labels: Any) -> bool:
    try:
        row = next(iter(labels), None)
    except TypeError:  # no labels at all, which is found later
        return False
    return isinstance(next(iter(row), None) if isinstance(row, (list, tuple)) else row, str)


def renumbered(labels: Labels, names: Sequence[str], order: Sequence[str]) -> Labels:
    """Return labels of classes ``names`` with the numbers that the classes have in ``order``, which holds all names."""
    at = np.array([*(order.index(name) for name in names), UNLABELED], np.int64)
    if labels.ndim == 1:
        return at[labels]  # the last of which is that of UNLABELED
    hot = np.zeros((len(labels), len(order)), np.uint8)
    hot[:, at[:-1]] = labels
    return hot


def check_label_pair(query_labels: Any, base_labels: Any) -> tuple[Labels, Labels]:
    """Check the labels of queries and of the base, which are compared with each other.

    Two lists of lists get the same number of classes, that of the larger.
    """
    left, right = check_labels(query_labels, "query_labels"), check_labels(base_labels, "base_labels")
    if left.ndim != right.ndim:
        kinds = {1: "single-label (class numbers)", 2: "multi-label"}
        both = f"query_labels is {kinds[left.ndim]} and base_labels is {kinds[right.ndim]}"
        raise ValueError(f"{both}; both must be the same")
    if left.ndim == 2 and left.shape[1] != right.shape[1]:
        if not (_is_list_of_lists(query_labels, "query_labels") and _is_list_of_lists(base_labels, "base_labels")):
            columns = f"query_labels has {left.shape[1]} label columns and base_labels has {right.shape[1]}"
            raise ValueError(f"{columns}; they must be equal")
        wide = max(left.shape[1], right.shape[1])
        left, right = (np.pad(side, ((0, 0), (0, wide - side.shape[1]))) for side in (left, right))
    return left, right


def number_classes(labels: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the classes, and for each row the position of its class among them.

    If class numbers are far apart, such as product numbers, only the classes that occur are returned.
    """
    if labels.max() < max(len(labels), 1 << 16):
        return np.arange(labels.max() + 1), labels
    return np.unique(labels, return_inverse=True)


def label_value(label: npt.ArrayLike, names: Sequence[str] = ()) -> int | str | list[int] | list[str] | None:
    """Return a row's label for JSON: its class's name or number, None if it has none; of a multi-hot row the list."""
    if np.ndim(label):
        return [names[one] if names else one for one in np.flatnonzero(label).tolist()]
    number = int(np.asarray(label))
    if number == UNLABELED:
        return None
    return names[number] if names else number


def check_single(labels: Any, name: str = "labels") -> npt.NDArray[np.int64]:
    """Return class numbers ``int64 [n]``; raises ``ValueError`` if the labels are multi-label."""
    checked = check_labels(labels, name)
    if checked.ndim == 2:
        raise ValueError(f"{name} is multi-label; recognition takes class numbers [n] only")
    return checked


def fit_columns(labels: Any, like: Labels) -> Any:
    """Return a list of lists as a multi-hot array with the columns of ``like``, and any other labels unchanged."""
    if like.ndim == 1 or not _is_list_of_lists(labels, "labels"):
        return labels
    hot = check_labels(labels)[:, : like.shape[1]]
    return np.pad(hot, ((0, 0), (0, like.shape[1] - hot.shape[1])))


def one_hot(labels: Any, classes: int | None = None) -> npt.NDArray[np.uint8]:
    """Return labels of any form as a multi-hot array ``uint8 [n, classes]``.

    If ``classes`` is None, class numbers have 1 + the largest class number classes.

    >>> one_hot([1, 0]).tolist()
    [[0, 1], [1, 0]]
    """
    array = check_labels(labels, classes=classes)
    if array.ndim == 2:
        return array
    classes = int(array.max(initial=-1)) + 1 if classes is None else classes
    _check_columns(len(array), classes, "labels")
    return (array[:, None] == np.arange(classes)).view(np.uint8)


def _is_list_of_lists(labels: Any, name: str) -> bool:
    if not isinstance(labels, (list, tuple)):
        return False
    nested = [isinstance(row, (list, tuple, set, frozenset)) for row in labels]
    if any(nested) and not all(nested):
        row = nested.index(False) if nested[0] else nested.index(True)
        raise TypeError(f"{name} is ragged: row {row} is {labels[row]!r}, unlike row 0; it must be {_MAY_BE}")
    return any(nested)


def _as_numbers(labels: Any, name: str) -> npt.NDArray[Any]:
    check_unmasked(labels, name)
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise TypeError(f"{name} is ragged; it must be {_MAY_BE}") from error
    if array.dtype == object:
        for index, value in np.ndenumerate(array):
            if not isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
                what = "missing (None)" if value is None else f"{value!r}"
                raise TypeError(f"{name} is {what} in row {index[0] if index else 0}; it must be {_MAY_BE}")
        array = np.array(array.tolist())
        if array.dtype == object:
            raise ValueError(f"{name} holds a number that is too large; it must be {_MAY_BE}")
    if array.dtype.kind not in "biuf":
        what = "strings" if array.dtype.kind in "US" else str(array.dtype)
        raise TypeError(f"{name} holds {what}; it must be {_MAY_BE}")
    return array


def _class_numbers(array: npt.NDArray[Any], name: str, classes: int | None) -> npt.NDArray[np.int64]:
    if array.dtype in (np.bool_, np.float16):  # which cannot be compared with 2**63
        array = array.astype(np.float32)
    # A billion labels in a file are looked at, and no array is made of as many.
    if array.dtype.kind == "f" or (len(array) and not 0 <= int(array.min()) <= int(array.max()) < 2**63):
        wrong = {"at least 0": array < 0, "below 2**63": array >= 2**63}
        if array.dtype.kind == "f":
            wrong = {"integers from 0": array != np.floor(array), **wrong}  # NaN too
        for limits, rows in wrong.items():
            if (row := _first(rows)) is not None:
                value = str(array[row]).replace("nan", "NaN")
                raise ValueError(f"{name} is {value} in row {row}; class numbers must be {limits}")
    numbers = np.ascontiguousarray(array, dtype=np.int64)
    _check_below(numbers, None, name, classes)
    return numbers


def _multi_hot(array: npt.NDArray[Any], name: str, classes: int | None) -> npt.NDArray[np.uint8]:
    binary = array.dtype.kind == "b" or (array.dtype == np.uint8 and array.max(initial=0) <= 1)
    if not binary and len(wrong := np.argwhere((array != 0) & (array != 1))):
        row, column = wrong[0]
        value = array[row, column]
        raise ValueError(f"{name} is {value} in row {row}; a multi-hot array [n, classes] holds only 0 and 1")
    if classes is not None and array.shape[1] != classes:
        raise ValueError(f"{name} has {array.shape[1]} columns; with classes {classes} it must have {classes}")
    return np.ascontiguousarray(array, dtype=np.uint8)


def _multi_hot_of_lists(rows: Sequence[Any], name: str, classes: int | None) -> npt.NDArray[np.uint8]:
    lengths = [len(row) for row in rows]
    where = np.repeat(np.arange(len(rows)), lengths)
    flat = [value for row in rows for value in row]
    for row, value in zip(where, flat, strict=True):
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"{name} has {value!r} in row {row}; a list of lists holds class numbers (integers from 0)")
        if not 0 <= value < 2**31:
            raise ValueError(f"{name} has {value} in row {row}; class numbers must be from 0 to 2**31 - 1")
    for index, members in enumerate(rows):
        if len(set(members)) < len(members):  # as any multi-hot row of three or more classes would
            raise ValueError(f"{name} names a class twice in row {index}; if it is multi-hot, it must be an array")
    numbers = np.array(flat, dtype=np.int64)
    _check_below(numbers, where, name, classes)
    classes = classes or max(2, int(numbers.max(initial=0)) + 1)
    _check_columns(len(rows), classes, name)
    hot = np.zeros((len(rows), classes), np.uint8)
    hot[where, numbers] = 1
    return hot


def _check_columns(rows: int, classes: int, name: str) -> None:
    what = f"{name} has classes up to {classes - 1:,}, and {rows:,} rows of so many columns"
    check_memory(rows * classes, what, "number the classes from 0 without large gaps")


def _check_below(
    numbers: npt.NDArray[np.int64], rows: npt.NDArray[np.int64] | None, name: str, classes: int | None
) -> None:
    """Raise ``ValueError`` if a number is no class; ``rows`` has the row of each, if it is not its own."""
    if classes is not None and (at := _first(numbers >= classes)) is not None:
        where = f"{name} is {numbers[at]} in row {at if rows is None else rows[at]}"
        raise ValueError(f"{where}; with classes {classes} it must be below {classes}")


def _first(wrong: npt.NDArray[np.bool_]) -> int | None:
    return int(np.argmax(wrong)) if wrong.any() else None
