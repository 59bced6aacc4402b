"""Build an index from a file of codes or from what a model makes of data, and change it."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes.io import CodeTable, read_codes
from lbhash.data.images import ImageSplit, holds_images
from lbhash.data.origin import ROW, data_fingerprint, mark_rows, rows_origin
from lbhash.hasher import load_hasher
from lbhash.index.base import BaseIndex, Options, check_model
from lbhash.index.factory import build_index, check_build, metadata_of_codes
from lbhash.pipeline.columns import THUMBNAIL, column_schema
from lbhash.pipeline.encoding.factory import open_source
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.pipeline.encoding.source import Source

_LOSS_QUERIES, _LOSS_ROWS = 200, 20_000  # rows that are asked, and all that are looked at, to say what int8 costs

if TYPE_CHECKING:
    import pyarrow as pa


def build(
    out: str,
    kind: str = "flat",
    *,
    codes: str | Path | None = None,
    id_column: str | None = None,
    options: Options = None,
    vectors: str = "",
    overwrite: bool = False,
    progress: bool = False,
    **data: Any,
) -> BaseIndex:
    """Build an index from a file or folder of codes, or from what a model makes of data (``EncodingJob``).

    The options are those of ``lbhash index build``; ``options`` are those of the kind. The ids are what ``ids_of``
    says, and ``next`` counts from 0; their column is no metadata besides, unless it is one of ``metadata``. Without a
    split, the index takes the base rows of data that have splits of their own, and says how many rows it leaves out; of
    other data it takes all rows.
    """
    settings: dict[str, Any] = {"store": vectors, "options": options, "overwrite": overwrite}
    check_build(out, kind, **settings)
    kept = "embeddings" if vectors.lower() == "int8" else vectors
    table, stored, learns = _read_or_encode(codes, data, id_column, kept, None, progress)
    names = ids_of(table, id_column)
    names = np.arange(len(table.codes)) if names is None else names
    settings |= {"vectors": stored, "learns_classes": learns, "progress": progress}
    metadata = mark_rows(_metadata(table, id_column, data), _origin(data))
    index = build_index(table, out, kind, ids=names, metadata=metadata, **settings)
    if kept != vectors and stored is not None:
        print(_int8_line(index, names, stored), file=sys.stderr)
    return index


def add(
    index: BaseIndex,
    *,
    codes: str | Path | None = None,
    id_column: str | None = None,
    progress: bool = False,
    **data: Any,
) -> int:
    """Add codes to an index, all of them or none, and return how many; arguments as of ``build``.

    Of other data than the index was built from, the column ``row`` is null: nothing takes it for a row of those.
    """
    table, stored, _ = _read_or_encode(codes, data, id_column, index.vectors, index, progress)
    metadata = _rows_for(index, _metadata(table, id_column, data), _origin(data))
    index.add(table.codes, ids_of(table, id_column), metadata, vectors=stored)
    if (
        metadata[ROW].null_count
        and holds_images(data.get("data") or "")
        and THUMBNAIL not in index.metadata_of([]).column_names
    ):
        told = f"an index that is built with --metadata {THUMBNAIL} has them"
        print(f"the page shows no images of what is added; {told}", file=sys.stderr)
    return len(table.codes)


def ids_of(table: CodeTable, which: str | None) -> npt.NDArray | None:
    """Return the ids of a table's codes; None if they count on from the largest id of the index.

    The ids are ``row``, the rows of the file that was encoded; ``next``, which returns None; or a column of the table,
    of integers or texts. If None, the column ``id`` if there is one, else ``row``.
    """
    columns = table.extra_columns
    which = _check_ids(None if columns is None else columns.schema, which)
    if columns is None or which in ("row", "next"):
        return table.rows if which == "row" else None
    column = columns[which]
    if column.null_count:
        raise ValueError(f"id_column is {which!r}, a column with missing values; every code must have an id")
    return np.asarray(column)


def _metadata(table: CodeTable, id_column: str | None, data: dict[str, Any]) -> pa.Table:
    """Return the metadata of a table's codes, without the column of the ids unless it was asked for as one."""
    columns = metadata_of_codes(table)
    if id_column in (None, "row", "next") or id_column in data.get("metadata", ()):
        return columns
    return columns.drop_columns([id_column] if id_column in columns.column_names else [])


def _origin(data: dict[str, Any]) -> str:
    """Return the fingerprint of the data whose rows the codes have; empty if it is not known."""
    several = data.get("base") is not None or data.get("query") is not None
    return "" if data.get("data") is None or several else data_fingerprint(data["data"])


def _rows_for(index: BaseIndex, metadata: pa.Table, origin: str) -> pa.Table:
    """Return metadata to add, without rows of other data than those of the index."""
    import pyarrow as pa

    if index.state.schema is None:
        return mark_rows(metadata, origin)
    if origin and origin == rows_origin(index.state.schema):
        return metadata
    return metadata.set_column(metadata.column_names.index(ROW), ROW, pa.nulls(len(metadata), pa.int64()))


def _read_or_encode(
    codes: str | Path | None,
    data: dict[str, Any],
    id_column: str | None,
    vectors: str,
    index: BaseIndex | None,
    progress: bool,
) -> tuple[CodeTable, npt.NDArray | None, bool | None]:
    """Return the codes for an index, the vectors that it stores with them, and whether their model learned classes.

    What does not fit the index, or cannot be ids, is refused before a model has done its work.
    """
    import pyarrow as pa

    given = {name: value for name, value in data.items() if value not in (None, ())}
    if codes is not None:
        if vectors:
            raise ValueError(f"the index stores {vectors}, which a file of codes does not have; give model and data")
        table = read_codes(codes)
        if index is not None:
            check_model(index, table.model, table.bits, "codes")
        return table, None, None
    job = EncodingJob(**{"split": None, **given})
    given_names = [name for name in dict.fromkeys(job.metadata) if name != "id"]
    chosen = id_column or "row"
    own = [] if chosen in ("row", "next", *job.metadata) else [chosen]
    one_file = job.base is None and job.query is None
    column_schema(job.data, own, one_file=one_file, option="id_column")
    job = replace(job, metadata=(*job.metadata, *own))
    schema = column_schema(job.data, job.metadata, one_file=one_file)
    which = _check_ids(schema, id_column)
    hasher = load_hasher(job.model)
    if index is not None:
        texts = which in schema.names and not pa.types.is_integer(schema.field(which).type)
        index.state.check_kind(np.empty(1, object if texts else np.int64))
        metadata = index.metadata_of([]).column_names[1:]
        wanted = [name for name in metadata if name not in ("row", "label", "labels")]
        if metadata and set(given_names) != set(wanted):  # without any, the index has never had a code
            what = f"metadata is {', '.join(given_names) or 'not given'}; the index has {', '.join(metadata)}"
            raise ValueError(f"{what}, so that it must be {', '.join(wanted) or 'left out'}")
        check_model(index, hasher.model_.fingerprint(), hasher.bits)
    source = open_source(job, hasher, stream=False, progress=progress)
    if (
        job.split in (None, "base")
        and source.job.split != "all"
        and (line := _left_out(source, named=job.split is not None))
    ):
        print(line, file=sys.stderr)
    encoded = source.encode_all(vectors, progress=progress)
    return encoded.table, encoded.vectors, hasher.model_.learns_classes


def _int8_line(index: BaseIndex, names: npt.NDArray, vectors: npt.NDArray) -> str:
    """Return the line that says what int8 costs: the recall of a search in the stored vectors of some rows."""
    from lbhash.evaluation.neighbors import nearest_by_cosine  # Numba takes its time

    if vectors.dtype == np.uint8:
        return "the embeddings are uint8, and stored as they are"
    chosen = np.random.default_rng(0).permutation(len(vectors))[:_LOSS_ROWS]
    asked, held = np.split(chosen, [min(_LOSS_QUERIES, len(chosen) // 2)])
    k = min(10, len(held))
    if not len(asked):
        return "the embeddings are stored as int8; one row does not tell what that costs"
    exact = nearest_by_cosine(vectors[asked], vectors[held], k)
    found = nearest_by_cosine(vectors[asked], index.vectors_of(names[held]), k)
    recall = np.mean([len(np.intersect1d(*pair)) / k for pair in zip(exact, found, strict=True)])
    of = f"{len(asked):,} rows in {len(held):,} others"
    return f"as int8 the embeddings find {recall:.1%} of the {k} nearest that they find as they were ({of})"


def _left_out(source: Source, *, named: bool) -> str:
    """Return the line that says which rows of the data are not taken; none of several files, if a split was named."""
    split, count = source.job.split, len(source.rows)
    rows = source.split
    total = len(rows.images if isinstance(rows, ImageSplit) else rows.embedded().embeddings)
    if total == count:  # of several files, the others were not looked at
        return "" if named else f"the {count:,} {split} {source.unit} of the data are taken; --split names others"
    said = f"the {count:,} {split} {source.unit} of the data are taken, and {total - count:,} are left out"
    return f"{said}; --split all takes all {total:,}"


def _check_ids(schema: pa.Schema | None, which: str | None) -> str:
    """Return what the ids are, of codes with this metadata: ``row``, ``next`` or a column."""
    import pyarrow as pa

    columns = {} if schema is None else {field.name: field.type for field in schema}
    which = which or ("id" if "id" in columns else "row")
    if which != "id" and not pa.types.is_integer(kind := columns.get("id", pa.int64())):
        raise TypeError(f"the column 'id' holds {kind}, and id_column is {which!r}; rename it to keep it as well")
    if which in ("row", "next"):
        return which
    if which not in columns:
        listed = ", ".join(columns) or "none"
        raise ValueError(f"id_column is {which!r}; it must be row, next, or a column of the codes ({listed})")
    kind = columns[which]
    text = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not any(fits(text) for fits in (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)):
        raise TypeError(f"id_column is {which!r}, a column of {kind}; it must hold integers or texts")
    return which


def parse_ids(words: Sequence[str], index: BaseIndex) -> list[int] | list[str]:
    """Read ids of an index as they are typed: integers, unless the index has texts as ids."""
    if index.state.texts:
        return list(words)
    for word in words:
        if not re.fullmatch(r"-?\d+", word, re.ASCII):
            raise ValueError(f"ids is {word!r}; it must be an integer, as the ids of the index are")
    return [int(word) for word in words]
