"""The metadata columns of an index, and filters on them."""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.index.base import ORIGIN, Columns, State, origin_of
from lbhash.index.ids import ID, Names, are_texts
from lbhash.index.where import Condition, Either, Filter, each
from lbhash.utils.serialization import json_values
from lbhash.utils.validation import check_same_rows, check_type, refusing

RESERVED = (ID, "code")
"""Columns of an exported index that are not metadata."""
_UNFIT = pa.ArrowException, OverflowError, TypeError
"""What Arrow raises for values that no column holds: of several kinds, or an integer of more than 64 bits."""


def as_table(metadata: Columns | None, names: Names, state: State) -> pa.Table:
    """Return the metadata of the codes with these ids as a table; text ids are its first column.

    Given columns are converted to the index's types (``converted``); missing ones are filled with nulls. Raises
    ``ValueError`` if a column has another length, a reserved name, values of several types, values that a search cannot
    return, or does not fit the index.
    """
    table = _as_given(metadata, names)
    plain = [field.with_type(plain_type(field.type)) for field in table.schema]  # Arrow cannot take rows of all views
    table = table.cast(pa.schema(plain, table.schema.metadata))
    for name in table.column_names:
        if name in RESERVED or table.column_names.count(name) > 1:
            why = "which is the index's own" if name in RESERVED else "twice"
            raise ValueError(f"metadata has the column {name!r}, {why}; give every column a name of its own")
    if table.column_names:
        check_same_rows(table, "metadata", names, "codes")
    origin = {key: value for key, value in (table.schema.metadata or {}).items() if key == ORIGIN}
    if state.schema is None:  # a column of nulls has no type yet; text can hold later values
        fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in table.schema]
    else:
        fields = state.metadata
        if unknown := [name for name in table.column_names if name not in state.columns]:
            known = ", ".join(state.columns) or "none"
            raise ValueError(f"metadata has the column {unknown[0]!r}; the index has {known}: leave it out")
    columns = []
    for field in fields:
        given = field.name in table.column_names
        columns.append(converted(table[field.name], field) if given else pa.nulls(len(names), field.type))
        _check_readable(field.name, columns[-1])
    if are_texts(names):
        columns, fields = [pa.array(names, pa.string()), *columns], [pa.field(ID, pa.string()), *fields]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, origin or None)).combine_chunks()


def _as_given(metadata: Columns | None, names: Names) -> pa.Table:
    """Return metadata as a table in their own types."""
    if hasattr(metadata, "iloc"):  # a data frame of pandas
        with refusing("metadata must hold values of one type in each column", *_UNFIT):
            return pa.Table.from_pandas(metadata, preserve_index=False)
    if hasattr(metadata, "__arrow_c_stream__"):  # a table of Arrow, or a data frame of polars
        return pa.table(metadata)
    columns = {}
    what = "a dict of columns, a table of Arrow, or a data frame"
    check_type({} if metadata is None else metadata, "metadata", Mapping, what)
    for name, values in ({} if metadata is None else metadata).items():
        with refusing(f"metadata {name!r} must hold values of one type", *_UNFIT):
            columns[name] = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
        check_same_rows(columns[name], f"metadata {name!r}", names, "codes")
    return pa.table(columns)


def converted(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """Convert a column to the index's type, if no value changes its meaning.

    An integer may become a text of its digits, a text a date, and a fraction the nearest float. A Boolean does not
    become a text, nor a text a number. A ``ValueError`` names the first value that cannot be converted.
    """
    if column.type == field.type:
        return column
    try:
        values = column.cast(values_type(column.type))
        if values.null_count == len(values):
            return pa.chunked_array([pa.nulls(len(values), field.type)])
        if convertible(values.type, field.type):
            return _exact(values, values_type(field.type)).cast(field.type)
    except pa.ArrowException:
        pass
    rows = range(len(column))
    row = bisect_left(rows, True, key=lambda row: not _casts(column[: row + 1], field.type))
    if row == len(rows):  # every value casts, but the types do not match
        row = column.is_valid().index(True).as_py()
    given, said = json_values(column[row : row + 1])[0], values_type(column.type)
    said = f"metadata {field.name!r} is {given!r} in row {row}, of type {said}"
    raise ValueError(f"{said}; the index has {field.type} there: mend it, or build the index again")


def convertible(given: pa.DataType, held: pa.DataType) -> bool:
    """Return whether a column of type ``given`` may be converted to ``held``, judged by the types alone."""
    types, given, held = pa.types, values_type(given), values_type(held)
    if given == held or types.is_null(given):
        return True
    if is_list(given) and is_list(held):
        return convertible(given.value_type, held.value_type)
    if types.is_struct(given) and types.is_struct(held):
        places = [(field.type, held.get_field_index(field.name)) for field in given]
        return all(place >= 0 and convertible(kind, held.field(place).type) for kind, place in places)
    texts = types.is_string, types.is_large_string
    if any(fits(given) for fits in texts):
        return types.is_temporal(held) or any(fits(held) for fits in texts)
    if types.is_integer(given) and any(fits(held) for fits in texts):
        return True
    if bool(getattr(given, "tz", None)) != bool(getattr(held, "tz", None)):
        return False  # a time without a zone is no time with one
    alike = (
        (types.is_integer, types.is_floating, types.is_decimal),
        (types.is_date, types.is_timestamp),
        (types.is_time,),
        (types.is_duration,),
        (types.is_binary, types.is_large_binary, types.is_fixed_size_binary),
    )
    return any(any(fits(given) for fits in kinds) and any(fits(held) for fits in kinds) for kinds in alike)


def values_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, without views; for a dictionary type, that of its values."""
    return plain_type(kind.value_type if pa.types.is_dictionary(kind) else kind)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type with texts and bytes in place of views of them, also inside lists and structures."""
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return pa.string() if pa.types.is_string_view(kind) else pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if not is_list(kind):
        return kind
    field = kind.value_field.with_type(plain_type(kind.value_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(field, kind.list_size)
    return pa.large_list(field) if pa.types.is_large_list(kind) else pa.list_(field)


def _casts(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    """Return whether another type can hold every value."""
    try:
        _exact(column.cast(values_type(column.type)), values_type(kind))
    except pa.ArrowException:
        return False
    return True


def _exact(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Convert values to another type; raise an Arrow error if one changes, such as a date that loses its time."""
    found = _cast(values, kind)
    if convertible(values.type, kind) and not all(map(_same, values.chunks, found.chunks)):
        raise pa.ArrowInvalid
    return found


def _cast(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> Any:
    """Cast; go through text where Arrow's own cast is inexact (decimal to float) or fails (integer to decimal)."""
    pairs = (pa.types.is_decimal, pa.types.is_floating), (pa.types.is_integer, pa.types.is_decimal)
    texts = any(one(values.type) and other(kind) for one, other in pairs)
    return (values.cast(pa.string()) if texts else values).cast(kind)


def _same(given: pa.Array, found: pa.Array) -> bool:
    """Return whether each converted value equals the given one, or is the float nearest to a fraction."""
    import pyarrow.compute as pc

    types = pa.types
    if types.is_struct(given.type):
        return all(_same(*(pc.struct_field(one, field.name) for one in (given, found))) for field in given.type)
    if is_list(given.type):
        return _same(given.flatten(), found.flatten())
    given, found = (one.cast(values_type(one.type)) for one in (given, found))
    if any(fits(given.type) for fits in (types.is_null, types.is_string, types.is_large_string)):
        return True  # Arrow parses a whole text or fails
    if types.is_float16(given.type):  # Arrow cannot compare float16
        given = given.cast(pa.float32())
    changed = pc.not_equal(_cast(found, given.type), given)
    if types.is_floating(found.type):
        exact, wide = (_cast(one, pa.float64()) for one in (given, found))
        lost = pc.or_(pc.is_inf(wide), pc.equal(wide, 0.0))
        changed = pc.and_(changed, pc.or_(lost, pc.equal(pc.trunc(exact), exact)))
    return not pc.any(changed).as_py()


def _check_readable(name: str, column: pa.Array | pa.ChunkedArray) -> None:
    """Raise ``ValueError`` if a column holds a value that no search can return, or labels have a wrong type."""
    import pyarrow.compute as pc

    check_common(name, column.type)
    said, leaves = f"metadata {name!r} holds {column.type}", _leaves(column.type)
    (label, *rest), types = leaves, pa.types
    known = (types.is_integer, types.is_string, types.is_large_string, types.is_boolean, types.is_null)
    if name in ("label", "labels") and (rest or not any(fits(label) for fits in known)):
        raise ValueError(f"{said}; labels must be integers, texts or Booleans; give the column another name")
    try:
        column.validate(full=True)
    except pa.ArrowException:
        raise ValueError(f"{said}; one of its texts is not UTF-8") from None
    if any(types.is_temporal(kind) for kind in leaves):
        whole = types.is_nested(column.type) or types.is_dictionary(column.type) or types.is_duration(column.type)
        try:  # nanoseconds need pandas, unless there are none
            if whole or getattr(column.type, "unit", "") == "ns":
                column.to_pylist()
            else:
                pc.min_max(column).as_py()
        except (pa.ArrowException, OverflowError, ValueError):
            raise ValueError(f"{said}; Python cannot read its time zone, or one of its times") from None


def check_common(name: str, kind: pa.DataType) -> None:
    """Raise ``ValueError`` if Parquet, or another format of an export, cannot hold a type of Arrow's."""
    types = pa.types
    rare = types.is_union, types.is_interval, types.is_run_end_encoded, types.is_struct  # a leaf is an empty structure
    if any(fits(leaf) for fits in rare for leaf in _leaves(kind)):
        raise ValueError(f"metadata {name!r} holds {kind}, which many formats cannot hold; convert it, perhaps to text")


def _leaves(kind: pa.DataType) -> list[pa.DataType]:
    """Return the types of a column's values; for lists, maps and structures, the types inside."""
    if pa.types.is_dictionary(kind):
        return _leaves(kind.value_type)
    whole = pa.types.is_union(kind) or pa.types.is_run_end_encoded(kind)
    inside = [] if whole else [_leaves(kind.field(place).type) for place in range(kind.num_fields)]
    return [leaf for leaves in inside for leaf in leaves] if inside else [kind]


def schema_to_text(schema: pa.Schema | None) -> str | None:
    """Return a schema in Arrow's own form, as text."""
    return None if schema is None else base64.b64encode(schema.serialize()).decode()


def schema_from_text(text: str | None) -> pa.Schema | None:
    """Return the schema that ``schema_to_text`` wrote; ``ValueError`` if it is damaged."""
    with refusing("index is damaged: its schema cannot be read", pa.ArrowException, OSError, ValueError):
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text))) if text else None


def check_where(where: Filter, schema: pa.Schema | None) -> None:
    """Raise ``ValueError`` if a filter names an unknown column; an index without codes accepts any name."""
    for name, *_ in each(where):
        if schema is not None and name not in (ID, *schema.names):
            known = ", ".join(f"{field.name} ({field.type})" for field in schema) or "none"
            origin = origin_of(schema)
            here = {origin.get("label_column"): "label", origin.get("id_column"): ID}
            hint = f", which calls it {here[name]!r}" if name in here else ""
            raise ValueError(f"where names the column {name!r}; the index has {known}{hint}")


def passing(where: Filter, column: Callable[[str], pa.ChunkedArray]) -> npt.NDArray[np.bool_] | np.bool_:
    """Return which rows pass a filter, ``bool [n]``, or true for an empty one; ``column`` maps names to columns."""
    found: npt.NDArray[np.bool_] | np.bool_ = np.True_
    for one in where:
        if isinstance(one, Either):
            found = found & np.any([passing(choice, column) for choice in one.choices], axis=0)
        else:
            found = found & _selected(column(one.column), one)
    return found


def _selected(column: pa.ChunkedArray, condition: Condition) -> npt.NDArray[np.bool_]:
    """Return which rows of a column meet a condition, ``bool [n]``."""
    import pyarrow.compute as pc

    name, how, _ = condition
    column = column.cast(values_type(column.type))  # a dictionary's values may be null too
    known = column.is_valid().to_numpy()
    if how in ("is null", "is not null"):
        return known if how == "is not null" else ~known
    choices = wanted_values(column.type, condition)
    try:
        if is_list(column.type):
            lists, found = column.combine_chunks(), np.zeros(len(column), bool)
            found[pc.list_parent_indices(lists).to_numpy()[_passes(pc.list_flatten(lists), how, choices)]] = True
        else:
            found = _passes(column, how, choices)
        return known & ~found if how.startswith("not") else found
    except pa.ArrowException:
        raise ValueError(f"where names {name!r}, a column of {column.type}, which no filter can compare") from None


def _passes(values: pa.Array | pa.ChunkedArray, how: str, choices: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values are among the choices, or compare so with the only choice; a null never passes."""
    import pyarrow.compute as pc

    values = values.cast(values_type(values.type)).cast(choices.type)
    compared = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}
    if how in compared:
        found = compared[how](values, choices[0])
    elif how.endswith("like"):
        found = pc.match_like(values, choices[0].as_py().replace("\\", "\\\\"))  # for Arrow, a backslash quotes a sign
    else:
        if pa.types.is_floating(choices.type):  # Arrow compares bits here, so turn −0.0 into 0.0
            values, choices = pc.add(values, 0.0), pc.add(choices, 0.0)
        found = pc.is_in(values, value_set=choices)
    return pc.fill_null(found, False).to_numpy(zero_copy_only=False)


def wanted_values(kind: pa.DataType, condition: Condition) -> pa.Array:
    """Return the values of a condition on a column (or on its lists), in the type used for comparison.

    This is the column's own type; for a dictionary the type of its values, for floats float64. Raises ``ValueError``
    for a value that this type cannot hold.
    """
    name, how, values = condition
    kind = values_type(kind.value_type if is_list(kind) else kind)
    texts = [str(value) for value in values if isinstance(value, str) or _is_amount(value, kind)]
    others = [value for value in values if not (isinstance(value, str) or _is_amount(value, kind))]
    floats = pa.types.is_floating(kind)
    try:
        if how.endswith("like") and not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise ValueError
        read = pa.array(others, pa.float64() if floats else kind)
        if any(isinstance(value, bool) != pa.types.is_boolean(kind) for value in others) or read.null_count:
            raise ValueError
        if not floats and read.to_pylist() != others:  # Arrow rounds some, and drops time zones
            raise ValueError
        found = pa.concat_arrays([read, pa.array(texts, pa.string()).cast(read.type)]) if texts else read
        if floats:
            wide, found = found.to_numpy(), found.cast(kind).cast(found.type)
            if not ((np.isinf(wide) == np.isinf(found)) & ((wide == 0) == (found.to_numpy() == 0))).all():
                raise ValueError
        return found
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        said = f"{how} " * (how != "in") + repr(values[0] if len(values) == 1 else values)
        hint = "; a text may say 'is null'" if None in values else ""
        raise ValueError(f"where wants {name!r} to be {said}; the column holds {kind}{hint}") from None


def _is_amount(value: Any, kind: pa.DataType) -> bool:
    """Return whether a value is a float for a decimal column; Arrow converts such a value only from text."""
    return isinstance(value, float) and pa.types.is_decimal(kind)


def is_list(kind: pa.DataType) -> bool:
    """Return whether a column of this type has a list in each row."""
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
