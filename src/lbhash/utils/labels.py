"""Labels: class numbers ``int64 [n]``, or a multi-hot matrix ``uint8 [n, classes]``, from any form that users give.

Where rows have one label each, a few functions allow rows without one, whose class number is ``UNLABELED``. All others
refuse it, as they do any negative number.

An array of one column, ``[n, 1]``, is a column of class numbers; a multi-hot matrix has two columns or more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.utils.arrays import check_unmasked, held
from lbhash.utils.memory import check_memory
from lbhash.utils.validation import check_int

Labels = npt.NDArray[Any]  # int64 [n] or uint8 [n, classes], as check_labels returns them
Classes = Sequence[Any] | npt.NDArray[Any]  # what each class number stands for

UNLABELED = -1
"""The class number of a row without a label, among rows that have one each."""

_MAY_BE = "class numbers [n], a multi-hot array [n, classes] or a list of lists of class numbers"
MAY_BE = "class numbers or names [n], a multi-hot array [n, classes] or a list of lists of classes"
_SEVERAL = "{name} holds labels of several kinds ({kinds}); give all as text, or all as numbers"


def check_labels(labels: Any, name: str = "labels", classes: int | None = None) -> Labels:
    """Return class numbers as ``int64 [n]``, and labels of any other form as ``uint8 [n, classes]``.

    Labels are class numbers ``[n]`` or ``[n, 1]`` from 0 on (integers, floats that are whole numbers, or Booleans),
    multi-hot ``[n, classes]`` of 0 and 1, or a list of n lists of class numbers; in the last two forms a row may have
    no label. No value may be masked or missing (None, NaN, NA or "").
    If ``classes`` is None, it is the columns of a multi-hot array, or of a list of lists 1 + the largest class number,
    2 at least.

    >>> check_labels([[0, 2], [1]]).tolist()
    [[1, 0, 1], [0, 1, 0]]
    """
    if classes is not None:
        classes = check_int(classes, "classes", 1)
    rows = _rows_of_lists(labels, name)
    if rows is not None:
        return _multi_hot_of_lists(rows, name, classes)
    array, missing = _column(labels, name)
    if array.ndim == 2:
        return _multi_hot(array, name, classes)
    if missing is not None:
        raise ValueError(f"{name} is missing in row {np.argmax(missing)}; every row must have a class number")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} holds {held(array)}; it must be {_MAY_BE}")
    _check_whole(array, None, name)
    return _class_numbers(array, name, classes)


def read_labels(labels: Any, name: str = "labels", classes: int | None = None) -> tuple[Labels, tuple[str, ...]]:
    """Return labels of any form as ``check_labels`` does, and the names of their classes if they have any.

    All of Python and the command line reads labels here. They are what ``check_labels`` takes, or names: an array, a
    list, a column of pandas, Polars or Arrow, or a list of lists. Class numbers from 0 on stay as they are. Names, and
    numbers of which some are negative, are numbered in their order, and are then the names of the classes. Of labels
    ``[n]`` some may be missing (None, NaN, NA or ""): they are ``UNLABELED``.

    >>> read_labels(["dog", None, "cat"])
    (array([ 1, -1,  0]), ('cat', 'dog'))
    """
    numbers, values = _read(labels, name, classes)
    return numbers, tuple(map(str, values))


def numbered_labels(labels: Any, name: str = "labels") -> tuple[Labels, npt.NDArray[Any]]:
    """Return labels as ``read_labels`` does, but always as numbers without gaps, and the class of each number.

    >>> numbered_labels([7, 3, 7])
    (array([1, 0, 1]), array([3, 7]))
    """
    numbers, values = _read(labels, name, None, gaps=False)
    return numbers, np.arange(numbers.shape[1]) if numbers.ndim == 2 and not len(values) else values


def read_label_pair(query_labels: Any, base_labels: Any) -> tuple[Labels, Labels, Classes]:
    """Return the labels of queries and of the base, as ``read_labels`` does, with the same number for a class in both.

    The third is the class of each number, or nothing if the numbers are those that were given.

    >>> read_label_pair(["dog"], ["cat", "dog"])
    (array([1]), array([0, 1]), array(['cat', 'dog'], dtype='<U3'))
    """
    left, right = _read(query_labels, "query_labels"), _read(base_labels, "base_labels")
    asked, base, classes = in_one_order(left, right, "query_labels are {}, and base_labels are {}")
    return *_of_one_kind(asked, base, lists=_are_lists(query_labels, base_labels)), classes


def rows_with_label(labels: Labels, what: str) -> npt.NDArray[np.int64]:
    """Return the rows that have a label; says on standard error how many of ``what`` have none and are left out.

    ``ValueError`` if none has one.
    """
    known = np.flatnonzero(has_label(labels))
    if len(known) < len(labels):
        said = f"{len(labels) - len(known):,} of {len(labels):,} {what} have no label"
        if not len(known):
            raise ValueError(f"{said}; an evaluation needs some")
        print(f"{said} and are left out", file=sys.stderr)
    return known


def _read(labels: Any, name: str, classes: int | None = None, *, gaps: bool = True) -> tuple[Labels, npt.NDArray[Any]]:
    """Return labels as ``read_labels`` does, or without ``gaps`` as ``numbered_labels``; classes are as given."""
    if classes is not None:
        classes = check_int(classes, "classes", 1)
    rows = _rows_of_lists(labels, name)
    if rows is not None:
        return _read_lists(rows, name, classes)
    array, missing = _column(labels, name)
    if array.ndim == 2:
        return _multi_hot(array, name, classes), np.array([])
    if array.dtype.kind in "biuf":
        _check_whole(array, missing, name)
        least, most = (int(array.min()), int(array.max())) if len(array) else (0, 0)
        if least == -1 and (array == 0).any():
            said = f"{name} has -1, which is a class like any other"
            print(f"{said}; a row without a label is None, NaN or empty", file=sys.stderr)
        if gaps and least >= 0 and most < 2**63:
            return _with_missing(_class_numbers(array, name, classes), missing), np.array([])
    values, numbers = np.unique(array, return_inverse=True)
    return _with_missing(numbers.astype(np.int64), missing), values


def _read_lists(rows: Sequence[Any], name: str, classes: int | None) -> tuple[Labels, npt.NDArray[Any]]:
    flat = [value for row in rows for value in row]
    kinds = {_kind(value) for value in flat}
    if "text" not in kinds:
        return _multi_hot_of_lists(rows, name, classes), np.array([])
    if len(kinds) > 1:
        raise TypeError(_SEVERAL.format(name=name, kinds=", ".join(sorted({type(one).__name__ for one in flat}))))
    values = np.array(sorted(set(flat)))
    position = {value: at for at, value in enumerate(values.tolist())}
    return _multi_hot_of_lists([[position[one] for one in row] for row in rows], name, len(values)), values


def _column(labels: Any, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """Return the labels that are there, ``[n]`` of numbers or of texts, and which rows have none; or a matrix."""
    check_unmasked(labels, name)
    if labels is None or isinstance(labels, (str, bytes, dict)) or np.isscalar(labels):
        raise TypeError(f"{name} is {labels!r}; it must be {MAY_BE}")
    array = _array(labels, name)
    if array.ndim == 2 and array.shape[1] > 1:
        return array, None
    if array.ndim != 1 and array.shape[1:] != (1,):
        raise ValueError(f"{name} has shape {array.shape}; it must be {MAY_BE}")
    array = array.ravel()
    missing = None
    if array.dtype.kind in "fOUT":
        found = np.isnan(array) if array.dtype.kind == "f" else np.array([_is_missing(one) for one in array], bool)
        missing = found if found.any() else None
    present = array if missing is None else array[~missing]
    if present.dtype.kind in "OST":
        kinds = {_kind(value) for value in present}
        if kinds > {"text"}:
            several = ", ".join(sorted({type(value).__name__ for value in present}))
            raise TypeError(_SEVERAL.format(name=name, kinds=several))
        if "" in kinds:
            row = next(row for row, value in enumerate(array) if not _is_missing(value) and not _kind(value))
            raise TypeError(f"{name} is {array[row]!r} in row {row}; it must be {MAY_BE}")
        texts = [value.decode() if isinstance(value, bytes) else value for value in present.tolist()]
        present = np.array(texts, str if "text" in kinds else None if texts else np.int64)
    if present.dtype.kind not in "biufUO":
        raise TypeError(f"{name} holds {present.dtype}; it must be {MAY_BE}")
    return present, missing


def _array(labels: Any, name: str) -> npt.NDArray[Any]:
    """Return labels as an array; of a list the items as they are, since NaN among texts would become a text."""
    if hasattr(labels, "toarray"):  # a sparse matrix
        return np.asarray(labels.toarray())
    nulls = getattr(labels, "null_count", 0)
    nulls = nulls() if callable(nulls) else nulls
    if isinstance(nulls, int) and nulls:  # of Arrow or Polars, which would make floats of numbers beside null
        labels = labels.to_pylist() if hasattr(labels, "to_pylist") else labels.to_list()
    try:
        return np.asarray(labels, dtype=object) if isinstance(labels, (list, tuple)) else np.asarray(labels)
    except ValueError as error:
        raise TypeError(f"{name} is ragged; it must be {MAY_BE}") from error


def _rows_of_lists(labels: Any, name: str) -> Sequence[Any] | None:
    """Return labels that are lists as a list of lists, also those of a column with lists, and None for others."""
    if isinstance(labels, (list, tuple)):
        nested = [isinstance(row, (list, tuple, set, frozenset)) for row in labels]
        if any(nested) and not all(nested):
            row = nested.index(not nested[0])
            raise TypeError(f"{name} is ragged: row {row} is {labels[row]!r}, unlike row 0; it must be {MAY_BE}")
        return labels if any(nested) else None
    if getattr(labels, "dtype", None) is None and not hasattr(labels, "to_pylist"):
        return None
    if isinstance(labels, np.ndarray) and (labels.dtype != object or labels.ndim != 1):
        return None
    first: Any = next(iter(labels), None) if len(getattr(labels, "shape", (0,))) == 1 else None
    if hasattr(first, "as_py"):
        first = first.as_py()
    if not isinstance(first, (list, tuple, set, frozenset, np.ndarray)) and not hasattr(first, "to_list"):
        return None
    rows = labels.to_pylist() if hasattr(labels, "to_pylist") else list(labels)
    lists = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    return [row.to_list() if hasattr(row, "to_list") else row for row in lists]


def _are_lists(*labels: Any) -> bool:
    return all(_rows_of_lists(one, "labels") is not None for one in labels)


def _kind(label: Any) -> str:
    """Return what a label is: text, number, or "" for anything else."""
    if isinstance(label, (str, bytes)):
        return "text"
    return "number" if isinstance(label, (bool, int, float, np.bool_, np.integer, np.floating)) else ""


def _check_whole(array: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None, name: str) -> None:
    """Raise ``ValueError`` if a label is a measurement, and no number of a class."""
    if array.dtype.kind == "f" and (at := _first(~np.isfinite(array) | (array != np.floor(array)))) is not None:
        row = at if missing is None else np.flatnonzero(~missing)[at]
        raise ValueError(f"{name} is {array[at]} in row {row}; it must hold classes, and no measurements")


def _with_missing(numbers: npt.NDArray[np.int64], missing: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.int64]:
    if missing is None:
        return numbers
    found = np.full(len(missing), UNLABELED)
    found[~missing] = numbers
    return found


def _is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ == "NAType":  # pandas.NA is neither true nor false
        return True
    return not label if isinstance(label, str) else isinstance(label, (float, np.floating)) and bool(np.isnan(label))


def has_label(labels: Labels) -> npt.NDArray[np.bool_]:
    """Return which rows have a label, ``bool [n]``; a row of multi-hot labels may have none, which is known of it."""
    return labels != UNLABELED if labels.ndim == 1 else np.ones(len(labels), bool)


def share_a_label(asked: Labels, held: Labels) -> npt.NDArray[np.bool_]:
    """Return which rows share a label with each query, ``bool [queries, rows]``.

    >>> share_a_label(np.array([0, 1]), np.array([1, 0, 1])).astype(int).tolist()
    [[0, 1, 0], [1, 0, 1]]
    """
    if asked.ndim == 1:
        return asked[:, None] == held
    return (asked.astype(np.float32) @ held.T.astype(np.float32)) > 0


def in_one_order(
    left: tuple[Labels, Classes], right: tuple[Labels, Classes], said: str, advice: str = ""
) -> tuple[Labels, Labels, Classes]:
    """Return two sets of labels, each given with the classes of its numbers, with one number a class, and the classes.

    Labels without classes are numbers of classes. ``said`` has two ``{}``, for what each set is where only one of them
    has names.
    """
    if not (len(left[1]) or len(right[1])):
        return left[0], right[0], np.array([])
    sides = [one if len(one[1]) else _own_classes(one[0]) for one in (left, right)]
    texts = [bool(len(one[1])) and isinstance(one[1][0], str) for one in sides]
    if texts[0] != texts[1]:
        kinds = [
            f"names, such as {str(one[1][0])!r}" if text else "numbers" for one, text in zip(sides, texts, strict=True)
        ]
        raise ValueError(f"{said.format(*kinds)}; both must be the same{advice}")
    order = sorted({*sides[0][1], *sides[1][1]})
    (labels, names), (others, more) = sides
    return renumbered(labels, names, order), renumbered(others, more, order), np.array(order)


def _own_classes(labels: Labels) -> tuple[Labels, npt.NDArray[Any]]:
    """Return class numbers ``[n]`` as positions among those that occur, and these; multi-hot labels as they are."""
    if labels.ndim == 2:
        return labels, np.arange(labels.shape[1])
    known = has_label(labels)
    values, numbers = np.unique(labels[known], return_inverse=True)
    return _with_missing(numbers.astype(np.int64), ~known), values


def renumbered(labels: Labels, names: Classes, order: Classes) -> Labels:
    """Return labels of classes ``names`` with the numbers that the classes have in ``order``, which holds all names."""
    position = {name: at for at, name in enumerate(order)}
    at = np.array([*(position[name] for name in names), UNLABELED], np.int64)
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
    return _of_one_kind(left, right, lists=_are_lists(query_labels, base_labels))


def _of_one_kind(left: Labels, right: Labels, *, lists: bool) -> tuple[Labels, Labels]:
    """Return labels of queries and base if both are of one kind, with as many columns if they were given as lists."""
    if left.ndim != right.ndim:
        kinds = {1: "single-label (class numbers)", 2: "multi-label"}
        both = f"query_labels is {kinds[left.ndim]} and base_labels is {kinds[right.ndim]}"
        raise ValueError(f"{both}; both must be the same")
    if left.ndim == 2 and left.shape[1] != right.shape[1]:
        if not lists:
            columns = f"query_labels has {left.shape[1]} label columns and base_labels has {right.shape[1]}"
            raise ValueError(f"{columns}; they must be equal")
        wide = max(left.shape[1], right.shape[1])
        left, right = (np.pad(side, ((0, 0), (0, wide - side.shape[1]))) for side in (left, right))
    return left, right


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
    if like.ndim == 1 or not _are_lists(labels):
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


def _class_numbers(array: npt.NDArray[Any], name: str, classes: int | None) -> npt.NDArray[np.int64]:
    # A billion labels in a file are looked at, and no array is made of as many.
    if len(array) and not 0 <= int(array.min()) <= int(array.max()) < 2**63:
        wide = array.astype(np.float64)
        row = np.argmax((wide < 0) | (wide >= 2**63))
        raise ValueError(f"{name} is {array[row]} in row {row}; class numbers must be at least 0 and below 2**63")
    numbers = np.ascontiguousarray(array, dtype=np.int64)
    _check_below(numbers, None, name, classes)
    return numbers


def _multi_hot(array: npt.NDArray[Any], name: str, classes: int | None) -> npt.NDArray[np.uint8]:
    if array.dtype == object:
        array = np.array(array.tolist())
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} holds {held(array)}; it must be {MAY_BE}")
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
