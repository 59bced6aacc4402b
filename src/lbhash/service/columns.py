"""Metadata of new items, as JSON has them, in the types that the columns of an index have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from lbhash.index.base import THUMBNAIL, State
from lbhash.index.metadata import is_list


def exact_columns(given: Mapping[str, Sequence[Any]], state: State) -> dict[str, Any]:
    """Return columns of new items for an index.

    An integer for a column of texts becomes its digits, and a text becomes a time or a decimal. ``ValueError`` names a
    value that a column cannot hold exactly, or a column that the index does not have.
    """
    if state.schema is None:  # the first items set the types
        return dict(given)
    fields = {field.name: field for field in state.metadata}
    for name in given:
        if name not in fields:
            raise ValueError(f"metadata.{name}: there is no such column; the index has {', '.join(fields) or 'none'}")
        if name == THUMBNAIL and state.thumbnails:
            raise ValueError(f"metadata.{name} is given, and the service makes it; send the image in a form")
    return {name: _column(name, values, fields[name].type) for name, values in given.items()}


def _column(name: str, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    found = []
    for place, value in enumerate(values):
        try:
            found.append(_scalar(value, inner))
        except (ArithmeticError, TypeError, ValueError, pa.ArrowException):
            shown = json.dumps(value)
            shown = shown if len(shown) <= 80 else f"{shown[:80]}…"
            raise ValueError(f"metadata.{name}.{place} is {shown}; the column holds {kind}") from None
    return pa.array(found, inner).cast(kind)


def _scalar(value: Any, kind: pa.DataType) -> Any:
    """Return a value for a column of this type; an error if it cannot hold it exactly."""
    types = pa.types
    if value is None:
        return None
    if is_list(kind):
        if not isinstance(value, list):
            raise TypeError
        return [_scalar(one, kind.value_type) for one in value]
    if types.is_dictionary(kind):
        return _scalar(value, kind.value_type)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if types.is_boolean(kind):
        fits = isinstance(value, bool)
    elif types.is_string(kind) or types.is_large_string(kind):
        value = str(value) if number and isinstance(value, int) else value
        fits = isinstance(value, str)
    elif types.is_integer(kind):
        fits = number and int(value) == value
        value = int(value) if fits else value
    elif types.is_floating(kind):
        fits = number and float(value) == value and bool(np.isfinite(np.dtype(kind.to_pandas_dtype()).type(value)))
        value = float(value) if fits else value
    elif types.is_decimal(kind):
        fits = number or isinstance(value, str)
    else:
        fits = types.is_temporal(kind) and isinstance(value, str)
    if not fits:
        raise TypeError
    if types.is_decimal(kind) or types.is_temporal(kind):
        return pa.scalar(str(value)).cast(kind)
    return pa.scalar(value, kind).as_py()
