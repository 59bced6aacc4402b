"""Ids: 64-bit integers, or texts.

An index computes with integers only. A text id becomes its hash, and the text itself is the metadata column ``id``. So
texts are found as quickly as integers, without a table of all texts.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from lbhash.utils.arrays import check_unmasked, from_tensors, held

Ids: TypeAlias = npt.NDArray[np.int64]
"""Ids as an index computes with them."""

Names: TypeAlias = npt.NDArray[Any]
"""Ids as users know them: ``int64``, or objects of the type ``str``."""

ID = "id"
"""The column with the ids; no metadata may have its name."""

INTEGER = re.compile(r"0|-?[1-9]\d{0,99}", re.ASCII)
"""The form of an integer id; 007 and -0 are texts that differ from 7 and 0."""


class UnknownIdError(ValueError):
    """An index does not have an id.

    >>> from lbhash import Index
    >>> Index(8).get([3])
    Traceback (most recent call last):
    lbhash.index.ids.UnknownIdError: ids holds 3, which the index does not have
    """

    def __init__(self, name: Any) -> None:
        super().__init__(f"ids holds {name!r}, which the index does not have")
        self.name = name


class TakenIdError(ValueError):
    """The index already has an id that should be added."""

    def __init__(self, name: Any) -> None:
        self.said = f"ids holds {name!r}, which the index already has"
        super().__init__(f"{self.said}; upsert, or give another")
        self.name = name


def arrow_of(names: Names) -> pa.Array:
    """Return ids or positions as an Arrow array, without ``pa.array``, which imports pandas for integers."""
    if are_texts(names):
        return pa.array(names)
    return pa.Array.from_buffers(pa.int64(), len(names), [None, pa.py_buffer(np.ascontiguousarray(names, np.int64))])


def are_texts(names: Names) -> bool:
    """Return whether ids are texts."""
    return names.dtype == object


def check_ids(ids: npt.ArrayLike, count: int | None = None, *, repeat: bool = False) -> Names:
    """Return ids as ``int64 [n]``, or texts as objects of the type ``str``, ``[n]``.

    Raises ``ValueError`` or ``TypeError`` unless the ids are ``count`` different 64-bit integers, or ``count``
    different texts. With ``count=None`` any number is allowed; with ``repeat``, ids may repeat.
    """
    ids = from_tensors(ids)
    check_unmasked(ids, "ids")
    listed = isinstance(ids, (list, tuple)) and any(isinstance(name, str) for name in ids)
    names = np.array(ids, object) if listed else np.asarray(ids)  # else each text would take as much as the longest
    if names.ndim != 1 or (count is not None and len(names) != count):
        wanted = "[m], a list of them" if count is None else f"[{count}], one for each code"
        raise ValueError(f"ids has shape {names.shape}; it must be {wanted}")
    kind, texts = "U" if listed else names.dtype.kind, False
    if kind in "iu":
        given = [names.min().item(), names.max().item()] if len(names) else []
    else:  # NumPy turns mixed values into texts, floats or objects
        given = list(ids) if isinstance(ids, (list, tuple)) else names.tolist()
        texts = bool(given) and all(isinstance(name, str) for name in given)
    if wrong := [name for name in given if isinstance(name, int) and not -(2**63) <= name < 2**63]:
        raise ValueError(f"ids holds {wrong[0]}; an integer must be at least -2^63 and below 2^63")
    if given and not texts and kind not in "iu":
        raise TypeError(f"ids holds {_HELD.get(kind, held(names))}; it must hold integers, or texts")
    names = np.array([str(name) for name in given], object) if texts else names.astype(np.int64)
    numbers = numbers_of(names)
    if not repeat and not (numbers[1:] > numbers[:-1]).all():
        order = np.argsort(numbers, kind="stable")
        if (twice := np.flatnonzero(np.diff(numbers[order]) == 0)).size:
            one, other = names[order[twice[0] : twice[0] + 2]].tolist()
            how = "twice; give it once" if one == other else f"and {other!r}, whose hashes are equal; rename one"
            raise ValueError(f"ids holds {one!r} {how}")
    return names


def numbers_of(names: Names) -> Ids:
    """Return ids as the numbers that an index uses: integers unchanged, texts as their hashes (not negative).

    Two of a million texts share a hash with probability 1 in 18 million; they are refused.
    """
    if not are_texts(names):
        return names
    try:
        hashes = [xxhash.xxh3_64_intdigest(name.encode()) >> 1 for name in names]
    except UnicodeEncodeError as error:
        raise ValueError(f"ids holds {error.object!r}, which UTF-8 cannot write") from None
    if "" in names:
        raise ValueError("ids holds an empty text; an id must have at least one character")
    return np.array(hashes, np.int64)


_HELD = {"U": "texts and others", "S": "bytes"}
