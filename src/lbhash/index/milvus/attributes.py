"""Attributes in a JSON field of Milvus, and filters as Milvus's expressions over it.

JSON has fewer types than Arrow: times are kept as integers, and a number that is not finite as a missing one. The types
themselves are kept beside, so that a column is read as it was written.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.index.attributes import check_where, selected
from lbhash.index.base import Where

if TYPE_CHECKING:
    import pyarrow as pa

FIELD = "attributes"
"""The name of the field."""


def check_schema(schema: pa.Schema) -> None:
    """Raise ``ValueError`` where Milvus could not hold a column."""
    for column in schema:
        if not column.name or set(column.name) & set('"\\'):
            raise ValueError(f"attribute {column.name!r} has a name that Milvus cannot hold; give it another")
        _stored(column.type, column.name)


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """What the field has for each row of a table."""
    import pyarrow as pa

    schema = pa.schema([(column.name, _stored(column.type, column.name)) for column in table.schema])
    floats = [column.name for column in schema if pa.types.is_floating(column.type)]
    rows = table.cast(schema).to_pylist()
    for row in rows:
        for name in floats:
            if row[name] is not None and not math.isfinite(row[name]):
                row[name] = None
    return rows


def to_table(rows: list[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """The columns of a schema, from what the field has."""
    import pyarrow as pa

    stored = [_stored(column.type, column.name) for column in schema]
    columns = [
        pa.array([row.get(column.name) for row in rows], kind).cast(column.type)
        for column, kind in zip(schema, stored, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def expression(where: Where | None, schema: pa.Schema | None) -> str | None:
    """A filter as Milvus writes it, empty for none; ``None`` for one that nothing passes.

    Raises:
        ValueError: it names no attribute of the index, or a value that the attribute cannot have or Milvus cannot find.
    """
    import pyarrow as pa

    check_where(where or {}, schema.names if schema is not None else ())
    terms = []
    for name, wanted in (where or {}).items():
        assert schema is not None
        kind = schema.field(name).type
        selected(pa.array([], kind), wanted, name)  # says what is wrong with a value
        several = isinstance(wanted, (list, tuple, set, frozenset, np.ndarray))
        values = [v.item() if isinstance(v, np.generic) else v for v in (wanted if several else [wanted])]
        nested = _is_list(kind)
        held = kind.value_type if nested else kind
        choices = pa.array(values).cast(held).cast(_stored(held, name)).to_pylist()
        if unknown := [v for v in choices if v is None or v == -(2**63)]:
            raise ValueError(f"where wants {name!r} to be {unknown[0]!r}, by which Milvus cannot filter")
        listed = [_literal(v) for v in choices if not isinstance(v, float) or math.isfinite(v)]
        if not listed:
            return None
        at = f"{FIELD}[{json.dumps(name, ensure_ascii=False)}]"
        inside = f"[{', '.join(listed)}]"
        terms.append(f"json_contains_any({at}, {inside})" if nested else f"({at} in {inside})")
    return both(terms)


def both(terms: Iterable[str]) -> str:
    """The expression of what passes all of several."""
    return " and ".join(term for term in terms if term)


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _stored(kind: pa.DataType, name: str) -> pa.DataType:
    """The type as which JSON has a column."""
    import pyarrow as pa

    types = pa.types
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        return kind
    if types.is_integer(kind) and kind != pa.uint64():
        return pa.int64()
    if types.is_floating(kind):
        return pa.float64()
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.int32()
    if types.is_timestamp(kind) or types.is_date64(kind) or types.is_time64(kind) or types.is_duration(kind):
        return pa.int64()
    if _is_list(kind) and not types.is_nested(kind.value_type) and not types.is_floating(kind.value_type):
        return pa.list_(_stored(kind.value_type, name))
    raise ValueError(
        f"attribute {name!r} holds {kind}, which Milvus cannot hold here; it may hold booleans, integers, floats, "
        "strings, times, or lists of these but floats"
    )
