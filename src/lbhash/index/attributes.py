"""Attributes: columns that an index has for its codes, and filters over them."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.index.base import Columns, Where
from lbhash.utils.formatting import one_line

RESERVED = ("id", "code")
"""Columns that an exported index has besides its attributes."""


def as_table(attributes: Columns | None, count: int, schema: pa.Schema | None) -> pa.Table:
    """Return the attributes of ``count`` codes as a table with the index's schema (if None, any).

    It is a ``ValueError`` if a column has another length, a reserved name, values of several kinds, or does not fit.
    """
    if isinstance(attributes, pa.Table):
        table = attributes
    else:
        columns = {}
        for name, values in (attributes or {}).items():
            try:
                columns[name] = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
            except (pa.ArrowException, TypeError) as error:
                raise ValueError(f"attribute {name!r} must hold values of one type: {one_line(error)}") from None
            if (length := len(columns[name])) != count:
                raise ValueError(f"attribute {name!r} has {length} values; it must have {count}, one for each code")
        table = pa.table(columns)
    for name in table.column_names:
        if name in RESERVED or table.column_names.count(name) > 1:
            why = "which is the index's own" if name in RESERVED else "twice"
            raise ValueError(f"attributes has the column {name!r}, {why}; give every column a name of its own")
    if table.column_names and len(table) != count:
        raise ValueError(f"attributes has {len(table)} rows; it must have {count}, one for each code")
    table = table.replace_schema_metadata(None)
    if schema is not None:
        if set(table.column_names) != set(schema.names):
            given, wanted = (", ".join(names) or "none" for names in (table.column_names, schema.names))
            raise ValueError(f"attributes has the columns {given}; the index has {wanted}, and they must be the same")
        table = pa.Table.from_arrays([_cast(table[field.name], field) for field in schema], schema=schema)
    return table.combine_chunks()


def schema_to_text(schema: pa.Schema | None) -> str | None:
    """Return a schema in Arrow's own form, as text."""
    return None if schema is None else base64.b64encode(schema.serialize()).decode()


def schema_from_text(text: str | None) -> pa.Schema | None:
    """Return the schema that ``schema_to_text`` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) if text else None


def check_where(where: Where, names: Iterable[str]) -> None:
    """Raise ``ValueError`` if a filter names a column that does not exist."""
    for name in where:
        if name not in names:
            raise ValueError(f"where names the attribute {name!r}; the index has {', '.join(names) or 'none'}")


def selected(column: pa.Array | pa.ChunkedArray, wanted: Any, name: str) -> npt.NDArray[np.bool_]:
    """Return which rows of a column have one of the wanted values, ``bool [n]``; a list needs only one of them."""
    import pyarrow.compute as pc

    choices = wanted_values(column.type, wanted, name)
    if not is_list(column.type):
        return pc.fill_null(pc.is_in(column, value_set=choices), False).to_numpy(zero_copy_only=False)
    mask = np.zeros(len(column), bool)
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # it has no chunk
        return mask
    hits = pc.fill_null(pc.is_in(pc.list_flatten(whole), value_set=choices), False).to_numpy(zero_copy_only=False)
    mask[pc.list_parent_indices(whole).to_numpy(zero_copy_only=False)[hits]] = True
    return mask


def wanted_values(kind: pa.DataType, wanted: Any, name: str) -> pa.Array:
    """Return the values that a filter wants of a column, or of the lists in it, as values of the column's type."""
    several = isinstance(wanted, (list, tuple, set, frozenset, np.ndarray))
    values = [v.item() if isinstance(v, np.generic) else v for v in (wanted if several else [wanted])]
    kind = kind.value_type if is_list(kind) else kind
    try:
        return pa.array(values).cast(kind)
    except pa.ArrowException as error:
        told = f"where wants {name!r} to be {wanted!r}; the column holds {kind} ({one_line(error)})"
        raise ValueError(told) from None


def is_list(kind: pa.DataType) -> bool:
    """Return whether a column of this type has a list in each row."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        wanted = f"{field.type}, as in the index: {one_line(error)}"
        raise ValueError(f"attribute {field.name!r} must hold {wanted}") from None
