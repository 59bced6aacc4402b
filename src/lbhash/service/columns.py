"""Convert the metadata of new items from JSON to the column types of an index."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lbhash.index.base import THUMBNAIL, State
from lbhash.index.metadata import converted, is_list, values_type


def exact_columns(given: Mapping[str, Sequence[Any]], state: State) -> dict[str, Any]:
    """Convert columns of new items for an index.

    In a column of texts, an integer becomes its digits; a text may become a time or a decimal. ``ValueError`` names a
    value that a column cannot hold exactly, or an unknown column.
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
    inner = values_type(kind)
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
    """Convert a value to a column's type; raise an error if the type cannot hold it exactly (``converted``)."""
    own = pa.uint64() if type(value) is int and value >= 2**63 else None  # Arrow does not choose it by itself
    try:
        return converted(pa.chunked_array([pa.array([value], own)]), pa.field("", values_type(kind)))[0].as_py()
    except (OverflowError, TypeError, ValueError):
        if isinstance(value, list) and is_list(kind):  # it may mix texts and numbers
            return [_scalar(one, kind.value_type) for one in value]
        if isinstance(value, str) and pa.types.is_decimal(kind):  # JSON has no decimals
            return pa.scalar(value).cast(kind).as_py()
        raise
