"""Metadata in a JSON field of Milvus, and filters as Milvus expressions over this field.

JSON has fewer types than Arrow: times become integers, and non-finite numbers become nulls. The schema is stored too,
and restores the columns' types.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from lbhash.index.ids import ID
from lbhash.index.metadata import check_where, is_list, wanted_values
from lbhash.index.where import Condition, Either, Filter

FIELD = "metadata"
"""The name of the JSON field."""


def check_schema(schema: pa.Schema) -> None:
    """Raise ``ValueError`` if Milvus cannot hold one of the columns."""
    for column in schema:
        if not column.name or set(column.name) & set('"\\'):
            raise ValueError(f"metadata {column.name!r} has a name that Milvus cannot hold; give it another")
        _stored(column.type, column.name)


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return the JSON field's content for each row of a table."""
    schema = pa.schema([(column.name, _stored(column.type, column.name)) for column in table.schema])
    rows = table.cast(schema).to_pylist()
    return [{name: None if _infinite(value) else value for name, value in row.items()} for row in rows]


def to_table(rows: list[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of a schema from the JSON field's contents."""
    stored = pa.schema([(column.name, _stored(column.type, column.name)) for column in schema])
    return pa.Table.from_pylist(rows, schema=stored).cast(schema)


def expression(where: Filter, schema: pa.Schema | None) -> str | None:
    """Return a filter as a Milvus expression, empty for no filter; None if no code can pass.

    Conditions that null values would pass in Milvus, or that ask for null, are refused.
    """
    check_where(where, schema)
    terms = []
    for one in where:
        if schema is None:
            return None
        term = _either(one, schema) if isinstance(one, Either) else _term(one, schema)
        if term is None:
            return None
        terms.append(term)
    return both(terms)


def _either(either: Either, schema: pa.Schema) -> str | None:
    terms = [term for choice in either.choices if (term := expression(choice, schema)) is not None]
    return f"({' or '.join(f'({term})' for term in terms)})" if terms else None


def _term(condition: Condition, schema: pa.Schema) -> str | None:
    name, how, wanted = condition
    number = name == ID not in schema.names  # integer ids are the primary key
    kind = pa.int64() if number else schema.field(name).type
    if how in ("not in", "like", "not like", "is null", "is not null") or (how != "in" and is_list(kind)):
        raise ValueError(f"where has {how!r} for {name!r}, a column of {kind}, by which Milvus cannot filter")
    values = wanted_values(kind, Condition(name, how, wanted))
    choices = values.cast(_stored(values.type, name)).to_pylist()
    finite = [v for v in choices if not _infinite(v)]
    if unknown := [v for v in choices if v == -(2**63) or (how != "in" and _infinite(v))]:
        raise ValueError(f"where wants {name!r} to be {unknown[0]!r}, by which Milvus cannot filter")
    if not finite:
        return None
    column = ID if number else f"{FIELD}[{json.dumps(name, ensure_ascii=False)}]"
    inside = json.dumps(finite, ensure_ascii=False)
    if how != "in":
        return f"({column} {how} {inside[1:-1]})"
    return f"json_contains_any({column}, {inside})" if is_list(kind) else f"({column} in {inside})"


def both(terms: Iterable[str]) -> str:
    """Join expressions by ``and``, leaving out empty ones."""
    return " and ".join(term for term in terms if term)


def _infinite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _stored(kind: pa.DataType, name: str) -> pa.DataType:
    """Return the type that a column has in JSON."""
    types = pa.types
    if types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind) or types.is_null(kind):
        return kind
    if types.is_floating(kind):
        return pa.float64()
    if types.is_date32(kind) or types.is_time32(kind):
        return pa.int32()
    if (types.is_integer(kind) and kind != pa.uint64()) or (types.is_temporal(kind) and not types.is_interval(kind)):
        return pa.int64()
    if is_list(kind) and not types.is_nested(kind.value_type) and not types.is_floating(kind.value_type):
        return pa.list_(_stored(kind.value_type, name))
    allowed = "booleans, integers, floats, strings, times, or lists of these but floats"
    raise ValueError(f"metadata {name!r} holds {kind}, which Milvus cannot hold here; it may hold {allowed}")
