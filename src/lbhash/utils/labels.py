"""Labels as users give them, read once as class numbers.

Lists and columns become Arrow columns of distinct values, some perhaps null. The library then uses ``int64 [n]``, with
``UNLABELED`` for a row without a label, or ``uint8 [n, C]`` of 0 and 1 if a row may have several labels.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.utils.arrays import as_array, check_unmasked, from_tensors, held
from lbhash.utils.formatting import one_line, shown
from lbhash.utils.memory import check_memory
from lbhash.utils.validation import check_int

Numbers = npt.NDArray[Any]  # int64 [n] or uint8 [n, C]

UNLABELED = -1
"""The class number of a row without a label."""

MAY_BE = "class numbers or names [n], a matrix [n, classes] of 0 and 1, or a list of classes in each row"


@dataclass(frozen=True)
class Labels:
    """The labels of n rows: positions in ``classes``.

    Attributes:
        numbers: ``int64 [n]``, ``UNLABELED`` for a row without a label; or ``uint8 [n, C]`` of 0 and 1.
        classes: the class at each position, in the given type and in ascending order: numbers, Booleans or text. For a
            matrix, its column numbers.
    """

    numbers: Numbers
    classes: Sequence[Any]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, rows: Any) -> Labels:
        return Labels(self.numbers[rows], self.classes)

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Which rows have a label, ``bool [n]``."""
        return has_label(self.numbers)

    def used(self) -> Labels:
        """Return labels ``[n]`` as positions among the classes that occur; return several labels a row unchanged."""
        if self.numbers.ndim == 2:
            return self
        found = np.unique(self.numbers[self.known])
        numbers = np.where(self.known, np.searchsorted(found, self.numbers), UNLABELED)
        return Labels(numbers, tuple(self.classes[one] for one in found.tolist()))

    def ordered(self, classes: Sequence[Any]) -> Labels:
        """Return the same labels as positions in ``classes``, which must include all of the present classes."""
        place = classes.index if isinstance(classes, range) else {one: at for at, one in enumerate(classes)}.__getitem__
        at = np.array([*map(place, self.classes), UNLABELED], np.int64)
        if self.numbers.ndim == 1:
            return Labels(at[self.numbers], classes)  # the last entry is for UNLABELED
        check_memory(len(self) * len(classes), f"{len(self):,} rows of labels of {len(classes):,} classes")
        hot = np.zeros((len(self), len(classes)), np.uint8)
        hot[:, at[:-1]] = self.numbers
        return Labels(hot, classes)


def read_labels(values: Any, name: str = "labels", names: Sequence[str] = ()) -> Labels:
    """Return a user's labels; Python and the command line both read labels here.

    Args:
        values: numbers, Booleans or text ``[n]``; a matrix ``[n, C]`` of 0 and 1, dense or sparse; or several labels in
        each row. They may be a list, an array, a tensor, or a column of pandas, Polars or Arrow. None, NaN, NA or ""
        means no label.
        name: name of the argument, for messages.
        names: names of the classes 0, 1, …, as ``datasets`` has them; −1 then means no label.

    >>> read_labels(["dog", None, "cat"])
    Labels(numbers=array([ 1, -1,  0]), classes=('cat', 'dog'))
    >>> read_labels([[7, 3], [7], []]).numbers.tolist()
    [[1, 1], [0, 1], [0, 0]]
    """
    if isinstance(values, Labels):
        return values
    given = _given(values, name)
    if not isinstance(given, np.ndarray):
        labels = _of_column(given, name)
    elif given.ndim == 2:
        labels = _of_matrix(given, name)
    else:  # Arrow would import pandas
        classes, numbers = np.unique(given, return_inverse=True)
        labels = Labels(numbers.astype(np.int64, copy=False), tuple(classes.tolist()))
    if names and not any(isinstance(one, str) for one in labels.classes):
        return _named(labels, names, name)
    if labels.classes[:1] == (UNLABELED,) and 0 in labels.classes:
        said = f"{name} has -1, which is a class like any other"
        print(f"{said}; a row without a label is None, NaN or empty", file=sys.stderr)
    return labels


def in_one_order(sets: Mapping[str, Labels]) -> list[Labels]:
    """Return several sets of labels with the same classes in the same order, for comparison.

    Raises ``ValueError`` with the names of the sets if only some are text, only some have several labels a row, or
    matrices differ in columns.
    """
    (name, first), *_ = sets.items()
    for other, labels in sets.items():
        said = f"{name} and {other} must be alike"
        if labels.numbers.ndim != first.numbers.ndim:
            several = (other, name) if labels.numbers.ndim == 2 else (name, other)
            raise ValueError(f"{said}: {several[0]} has several labels a row, and {several[1]} has one")
        if len(first.classes) and len(labels.classes):
            texts = [isinstance(one.classes[0], str) for one in (first, labels)]
            if texts[0] != texts[1]:
                (text, shown), number = ((name, first), other) if texts[0] else ((other, labels), name)
                of_text = f"the labels of {text} are text, such as {shown.classes[0]!r}"
                raise ValueError(f"{said}: {of_text}, and those of {number} are numbers")
        columns = [len(one.classes) for one in (first, labels) if isinstance(one.classes, range)]
        if first.numbers.ndim == 2 and len(set(columns)) > 1:
            raise ValueError(f"{said}: {name} has {columns[0]} columns of labels, and {other} has {columns[1]}")
    if all(labels.classes == first.classes for labels in sets.values()):
        return list(sets.values())
    order = tuple(sorted({one for labels in sets.values() for one in labels.classes}))
    return [labels.ordered(order) for labels in sets.values()]


def own_classes(labels: Numbers | None) -> range:
    """Return the classes of labels that are class numbers already."""
    if labels is None:
        return range(0)
    return range(labels.shape[1] if labels.ndim == 2 else int(labels.max(initial=UNLABELED)) + 1)


def class_array(classes: Sequence[Any]) -> npt.NDArray[Any]:
    """Return classes as an array: text as objects, so that short texts do not take the memory of the longest."""
    values = list(classes)
    if values and isinstance(values[0], str):
        return np.array(values, object)
    if values and isinstance(values[0], bool):
        return np.array(values)
    return np.array(values, np.uint64 if values and max(values) >= 2**63 else np.int64)


def check_numbers(labels: Any, classes: int | None = None, name: str = "labels") -> Numbers:
    """Return class numbers ``int64 [n]`` or ``uint8 [n, classes]``; raise ``ValueError`` for anything else.

    If ``classes`` is None, their number is not limited.
    """
    array, most = as_array(labels, name), 2**63 if classes is None else check_int(classes, "classes", 1)
    if array.ndim == 2 and classes in (None, array.shape[1]) and np.isin(array, (0, 1)).all():
        return np.ascontiguousarray(array, np.uint8)
    if array.ndim != 1 or array.dtype.kind not in "biu":
        said = f"{name} holds {held(array)} {list(array.shape)}"
        columns = "classes" if classes is None else classes
        raise ValueError(f"{said}; it must be class numbers [n], or a matrix [n, {columns}] of 0 and 1")
    wrong = np.flatnonzero((array < 0) | (array >= most))
    if len(wrong):
        must = "it must be at least 0"
        if classes is not None:
            must = f"with classes {classes} it must be from 0 to {most - 1}"
        raise ValueError(f"{name} is {array[wrong[0]]} in row {wrong[0]}; {must}")
    return np.ascontiguousarray(array, np.int64)


def has_label(labels: Numbers) -> npt.NDArray[np.bool_]:
    """Return which rows have a label, ``bool [n]``; if rows may have several, all count, even rows of zeros."""
    return labels != UNLABELED if labels.ndim == 1 else np.ones(len(labels), bool)


def one_label_each(values: Any, name: str) -> Labels:
    """Return labels, one for each row; ``ValueError`` if a row has none, or may have several."""
    labels = read_labels(values, name)
    if labels.numbers.ndim == 2:
        raise ValueError(f"{name} is multi-label; it must have one label for each row")
    if not labels.known.all():
        raise ValueError(f"{name} is missing in row {np.argmin(labels.known)}; it must have one label for each row")
    return labels


def rows_with_label(labels: Numbers, what: str) -> npt.NDArray[np.int64]:
    """Return the rows that have a label; a line on standard error counts the ``what`` that are left out.

    Raises ``ValueError`` if no row has a label.
    """
    known = np.flatnonzero(has_label(labels))
    if len(known) < len(labels):
        said = f"{len(labels) - len(known):,} of {len(labels):,} {what} have no label"
        if not len(known):
            raise ValueError(f"{said}; an evaluation needs some")
        print(f"{said} and are left out", file=sys.stderr)
    return known


def label_value(label: npt.ArrayLike, classes: Sequence[Any]) -> Any:
    """Return a row's class for JSON: None without a label, a list if it may have several."""
    if np.ndim(label):
        return [classes[one] for one in np.flatnonzero(label).tolist()]
    number = int(np.asarray(label))
    return None if number == UNLABELED else classes[number]


def share_a_label(asked: Numbers, held: Numbers) -> npt.NDArray[np.bool_]:
    """Return which rows share a label with each query, ``bool [queries, rows]``.

    >>> share_a_label(np.array([0, 1]), np.array([1, 0, 1])).astype(int).tolist()
    [[0, 1, 0], [1, 0, 1]]
    """
    return shared_labels(asked, held) > 0


def shared_labels(asked: Numbers, held: Numbers) -> npt.NDArray[Any]:
    """Return how many labels each row shares with each query, numbers or Booleans ``[queries, rows]``."""
    if asked.ndim == 1:
        return asked[:, None] == held
    return asked.astype(np.float32) @ held.T.astype(np.float32)


def one_hot(labels: Numbers, classes: int) -> npt.NDArray[np.uint8]:
    """Return labels as a matrix ``uint8 [n, classes]``.

    >>> one_hot(np.array([1, 0]), 2).tolist()
    [[0, 1], [1, 0]]
    """
    if labels.ndim == 2:
        return labels
    check_memory(len(labels) * classes, f"{len(labels):,} rows of labels of {classes:,} classes")
    return (labels[:, None] == np.arange(classes)).view(np.uint8)


def _given(values: Any, name: str) -> Any:
    """Return labels as an Arrow column, or as a NumPy matrix or NumPy integers ``[n]``."""
    import pyarrow as pa

    values = from_tensors(values)
    check_unmasked(values, name)
    if values is None or isinstance(values, (str, bytes, dict)) or np.isscalar(values):
        raise TypeError(f"{name} is {shown(values)}; it must be {MAY_BE}")
    if hasattr(values, "columns"):  # a frame
        values = pa.table(values).column(0) if values.shape[1] == 1 else np.asarray(values)
    elif hasattr(values, "to_arrow"):  # a column of Polars
        values = values.to_arrow()
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return pa.chunked_array(getattr(values, "chunks", [values]), values.type)
    if hasattr(values, "toarray"):  # a sparse matrix
        values = values.toarray()
    elif isinstance(values, list) and {type(row) for row in values} == {np.ndarray}:  # maybe the rows of a matrix
        values = np.stack(values) if len({row.shape for row in values}) == 1 else values
    elif hasattr(values, "__array__") and not hasattr(values, "dtype"):
        values = np.asarray(values)
    if isinstance(values, np.ndarray):
        if values.ndim == 2 and values.shape[1] > 1:
            return values
        if values.ndim != 1 and values.shape[1:] != (1,):
            raise ValueError(f"{name} has shape {values.shape}; it must be {MAY_BE}")
        values = values.ravel().astype(values.dtype.newbyteorder("="), copy=False)
        if values.dtype.kind in "iu":
            return values
    if getattr(values, "dtype", None) in (None, object):
        values = [_item(one) for one in values]
    return _column(values, name)


def _item(one: Any) -> Any:
    """Return a label in a form for Arrow: NaN as None, several labels as a list."""
    if hasattr(one, "tolist"):
        one = one.tolist()
    if isinstance(one, (set, frozenset)):
        return list(one)
    return None if isinstance(one, float) and one != one else one


def _column(values: Any, name: str) -> Any:
    """Return a list or an array as a column of Arrow."""
    import pyarrow as pa

    try:
        try:
            column = pa.array(values, from_pandas=True)
        except OverflowError:
            column = pa.array(values, pa.uint64(), from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        kinds = sorted({type(one).__name__ for one in values if one is not None})
        if kinds == ["list"]:
            kinds = sorted({type(one).__name__ for row in values for one in row or ()})
        if len(kinds) > 1:
            said = f"{name} holds labels of several kinds ({', '.join(kinds)})"
            raise TypeError(f"{said}; give all as text, or all as numbers") from None
        raise TypeError(f"{name} must be {MAY_BE}: {one_line(error)}") from None
    return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])


def _of_matrix(matrix: npt.NDArray[Any], name: str) -> Labels:
    if matrix.dtype == object:
        matrix = np.array(matrix.tolist())
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"{name} holds {held(matrix)}; it must be {MAY_BE}")
    if len(wrong := np.argwhere((matrix != 0) & (matrix != 1))):
        row, column = wrong[0]
        raise ValueError(f"{name} is {matrix[row, column]} in row {row}; a matrix [n, classes] holds only 0 and 1")
    return Labels(matrix.astype(np.uint8), range(matrix.shape[1]))


def _of_column(column: Any, name: str) -> Labels:
    from lbhash.utils.columns import plain

    chunks = [plain(chunk) for chunk in column.chunks]
    if not chunks or not hasattr(chunks[0], "value_lengths"):
        numbers, classes = _positions(chunks, name)
        return Labels(numbers, classes)
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise ValueError(f"{name} is missing in row {row}; among lists, a row without a label is an empty list")
    lengths = np.concatenate([np.asarray(chunk.value_lengths()) for chunk in chunks]).astype(np.int64)
    rows, flat = np.repeat(np.arange(len(lengths)), lengths), [plain(chunk.flatten()) for chunk in chunks]
    if (matrix := _as_matrix(chunks[0].type, lengths, flat)) is not None:
        return _of_matrix(matrix, name)
    numbers, classes = _positions(flat, name, rows)
    if len(missing := np.flatnonzero(numbers == UNLABELED)):
        raise ValueError(f"{name} has a missing label in the list of row {rows[missing[0]]}; leave it out")
    check_memory(len(lengths) * len(classes), f"{name} has {len(classes):,} classes, and {len(lengths):,} rows of them")
    hot = np.zeros((len(lengths), len(classes)), np.uint8)
    hot[rows, numbers] = 1
    if len(twice := np.flatnonzero(hot.sum(axis=1, dtype=np.int64) < lengths)):
        said = f"{name} names a class twice in row {twice[0]}"
        raise ValueError(f"{said}; if it is a matrix of 0 and 1, give it as an array")
    return Labels(hot, classes)


def _as_matrix(kind: Any, lengths: npt.NDArray[Any], flat: Sequence[Any]) -> npt.NDArray[Any] | None:
    """Return lists of one length, 2 or more, as a matrix if they are Booleans, or fixed-size lists of 0 and 1."""
    from pyarrow import types

    if not (types.is_boolean(kind.value_type) or types.is_fixed_size_list(kind)):
        return None
    if not len(lengths) or not 2 <= lengths.min() == lengths.max() or any(chunk.null_count for chunk in flat):
        return None
    values = np.concatenate([chunk.to_numpy(zero_copy_only=False) for chunk in flat])
    return values.reshape(len(lengths), -1) if np.isin(values, (0, 1)).all() else None


def _positions(chunks: Sequence[Any], name: str, rows: Any = None) -> tuple[Numbers, tuple[Any, ...]]:
    """Return labels as positions among the classes that occur, ``UNLABELED`` if missing, and the classes.

    Only distinct labels become Python objects. ``rows`` gives the row of each label; None if label and row have the
    same number.
    """
    if not any(map(len, chunks)):
        return np.zeros(0, np.int64), ()
    at, distinct = _distinct(chunks, name)
    values = _values(distinct, name)
    for place, value in enumerate(values):
        if isinstance(value, (float, Decimal)):
            least: Any = _inexact(distinct.type)
            if value % 1 or abs(value) >= least:
                row = np.argmax(at == place)
                why = "it must hold classes, not continuous values" if value % 1 else f"from {least} on give integers"
                raise ValueError(f"{name} is {value} in row {row if rows is None else rows[row]}; {why}")
            values[place] = int(value)
    used = np.unique(at[at >= 0]).tolist()  # a dictionary may hold unused values
    classes = tuple(sorted({values[place] for place in used} - {None}))
    number = {one: position for position, one in enumerate(classes)} | {None: UNLABELED}
    table = np.full(len(values) + 1, UNLABELED)  # the last entry is for nulls
    table[used] = [number[values[place]] for place in used]
    return table[at], classes


def _distinct(chunks: Sequence[Any], name: str) -> tuple[npt.NDArray[np.int64], Any]:
    """Return each label's place among the distinct labels, -1 if it is null, and these as an Arrow array."""
    import pyarrow as pa

    try:
        coded = [one if pa.types.is_dictionary(one.type) else one.dictionary_encode() for one in chunks]
        distinct = pa.chunked_array([one.dictionary for one in coded]).dictionary_encode().combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # of structs, or of lists in lists
        raise TypeError(f"{name} holds {chunks[0].type}; it must be {MAY_BE}") from None
    table = np.append(np.asarray(distinct.indices.fill_null(-1)), -1).astype(np.int64)
    places, start = [np.zeros(0, np.int64)], 0
    for one in coded:
        part = np.asarray(one.indices.cast(pa.int64()).fill_null(-1))
        places.append(table[np.where(part < 0, -1, part + start)])
        start += len(one.dictionary)
    return np.concatenate(places), distinct.dictionary


def _values(distinct: Any, name: str) -> list[Any]:
    """Return Arrow labels as numbers, Booleans or text; missing ones as None."""
    import pyarrow as pa

    from lbhash.utils.columns import content

    kind = distinct.type
    if content(kind) in ("text", "bytes"):
        try:
            return [one or None for one in distinct.cast(pa.large_string()).to_pylist()]
        except pa.ArrowInvalid:
            raise ValueError(f"{name} holds bytes that are not UTF-8 text") from None
    if content(kind) not in ("whole", "numbers", "Booleans") and not pa.types.is_null(kind):
        raise TypeError(f"{name} holds {kind}; it must be {MAY_BE}")
    return [None if one != one else one for one in distinct.to_pylist()]


def _inexact(kind: Any) -> int:
    """Return the number from which on an Arrow type cannot hold every integer."""
    from pyarrow import types

    return 2 ** {16: 11, 32: 24, 64: 53}[kind.bit_width] if types.is_floating(kind) else 2**63


def _named(labels: Labels, names: Sequence[str], name: str) -> Labels:
    """Return labels given as positions in ``names``, with −1 for no label."""
    for one in labels.classes:
        if not UNLABELED <= one < len(names):
            said = f"{name} has the class {one}, and names for {len(names)} classes"
            raise ValueError(f"{said}; it must be from 0 to {len(names) - 1}, or -1 for a row without a label")
    numbers = labels.ordered(range(UNLABELED, len(names))).numbers
    if numbers.ndim == 2:
        return Labels(np.ascontiguousarray(numbers[:, 1:]), tuple(names))
    return Labels(np.maximum(numbers, 0) - 1, tuple(names))  # missing and −1 are the same
