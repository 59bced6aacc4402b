"""The columns that travel with the codes: what they may be, and which rows a filter keeps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.index.base import Attributes, Where

if TYPE_CHECKING:
    import pyarrow as pa

RESERVED = ("id", "code")
"""Names that the index's own columns have, where it is written as a table."""


def as_table(attributes: pa.Table | Attributes | None, count: int, schema: pa.Schema | None) -> pa.Table:
    """Attributes as a table of ``count`` rows.

    Args:
        attributes: columns by name; ``None`` for no columns.
        count: number of codes.
        schema: what the columns must be; ``None`` where they are the first.

    Raises:
        ValueError: a column has another length, a reserved name, values of several kinds, or none that the index has.
    """
    import pyarrow as pa

    if isinstance(attributes, pa.Table):
        table = attributes
    else:
        columns = {name: _column(name, values) for name, values in (attributes or {}).items()}
        for name, column in columns.items():
            if len(column) != count:
                raise ValueError(
                    f"attribute {name!r} has {len(column)} values; it must have {count}, one for each code"
                )
        table = pa.table(columns)
    for name in table.column_names:
        if name in RESERVED or table.column_names.count(name) > 1:
            why = "which is the index's own" if name in RESERVED else "twice"
            raise ValueError(f"attributes has the column {name!r}, {why}; give every column a name of its own")
    if table.column_names and len(table) != count:
        raise ValueError(f"attributes has {len(table)} rows; it must have {count}, one for each code")
    table = table.replace_schema_metadata(None)
    return (table if schema is None else _cast(table, schema)).combine_chunks()


def label_column(schema: pa.Schema | None) -> str:
    """The column with the labels, ``label`` or ``labels``; empty where there is none."""
    names = [] if schema is None else schema.names
    return next((name for name in ("label", "labels") if name in names), "")


def check_where(where: Where, names: Iterable[str]) -> None:
    """Raise ``ValueError`` where a filter names a column that there is not."""
    for name in where:
        if name not in names:
            listed = ", ".join(names) or "none"
            raise ValueError(f"where names the attribute {name!r}; the index has {listed}")


def selected(column: pa.Array | pa.ChunkedArray, wanted: Any, name: str) -> npt.NDArray[np.bool_]:
    """Which rows of a column have one of the wanted values, ``bool [n]``; of lists, in any place.

    Raises:
        ValueError: a wanted value is none that the column could hold.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    several = isinstance(wanted, (list, tuple, set, frozenset, np.ndarray))
    values = list(wanted) if several else [wanted]
    nested = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    kind = column.type.value_type if nested else column.type
    try:
        choices = pa.array([v.item() if isinstance(v, np.generic) else v for v in values]).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        line = str(error).splitlines()[0]
        raise ValueError(f"where wants {name!r} to be {wanted!r}; the column holds {kind} ({line})") from None
    if not nested:
        return pc.fill_null(pc.is_in(column, value_set=choices), False).to_numpy(zero_copy_only=False)
    mask = np.zeros(len(column), bool)
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # of no chunk
        return mask
    hits = pc.fill_null(pc.is_in(pc.list_flatten(whole), value_set=choices), False).to_numpy(zero_copy_only=False)
    mask[pc.list_parent_indices(whole).to_numpy(zero_copy_only=False)[hits]] = True
    return mask


def _column(name: str, values: Any) -> pa.Array:
    import pyarrow as pa

    try:
        return values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
        line = str(error).splitlines()[0]
        raise ValueError(f"attribute {name!r} is no column of values of one kind: {line}") from None


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the columns, order and types of the index."""
    import pyarrow as pa

    if set(table.column_names) != set(schema.names):
        given, held = (", ".join(names) or "none" for names in (table.column_names, schema.names))
        raise ValueError(f"attributes has the columns {given}; the index has {held}, and they must be the same")
    for field in schema:
        try:
            table[field.name].cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
            line = str(error).splitlines()[0]
            raise ValueError(f"attribute {field.name!r} must hold {field.type}, as in the index: {line}") from None
    return table.select(schema.names).cast(schema)
