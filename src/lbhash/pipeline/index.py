"""Build an index from a file of codes, or from a model and data, and change it."""

from __future__ import annotations

import fnmatch
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.codes.io import CodeTable, read_codes
from lbhash.data.choose import NO_COLUMN
from lbhash.data.images import ImageSplit, holds_images
from lbhash.data.origin import ROW, data_fingerprint
from lbhash.hasher import load_hasher
from lbhash.index.base import ORIGIN, THUMBNAIL, BaseIndex, Options, State, check_model, origin_of
from lbhash.index.factory import build_index, check_build, metadata_of_codes
from lbhash.index.ids import ID, INTEGER, TakenIdError
from lbhash.pipeline.columns import column_schema, columns_in
from lbhash.pipeline.embeddings import TextOptions
from lbhash.pipeline.encoding.factory import open_source
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.pipeline.encoding.source import Source
from lbhash.utils.formatting import some_names

_LOSS_QUERIES, _LOSS_ROWS = 200, 20_000  # queries and rows for measuring the cost of int8


class Read(NamedTuple):
    """Codes with their ids, metadata and vectors, ready for an index.

    ``ids`` are None if numbering continues. The schema of ``metadata`` records the columns of the data (``ORIGIN``).
    """

    table: CodeTable
    ids: npt.NDArray | None
    metadata: pa.Table
    vectors: npt.NDArray | None = None
    learns_classes: bool | None = None


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
    """Build an index from a file or folder of codes, or from a model and data (``EncodingJob``).

    The arguments are the options of ``lbhash index build``; ``options`` are those of the kind. ``ids_of`` explains the
    ids; ``next`` counts from 0. The ids' column becomes metadata only if ``metadata`` names it. If ``split`` is not
    given, data with splits give their base rows, with a message about the rows left out; other data give all rows.
    """
    settings: dict[str, Any] = {"store": vectors, "options": options, "overwrite": overwrite}
    check_build(out, kind, **settings)
    kept = "embeddings" if vectors.lower() == "int8" else vectors
    read = _read_or_encode(codes, data, id_column, kept, None, progress)
    names = np.arange(len(read.table.codes)) if read.ids is None else read.ids
    settings |= {"vectors": read.vectors, "learns_classes": read.learns_classes, "progress": progress}
    index = build_index(read.table, out, kind, ids=names, metadata=read.metadata, **settings)
    if kept != vectors and read.vectors is not None:
        print(_int8_line(index, names, read.vectors), file=sys.stderr)
    return index


def add(
    index: BaseIndex,
    *,
    codes: str | Path | None = None,
    id_column: str | None = None,
    upsert: bool = False,
    progress: bool = False,
    **data: Any,
) -> dict[str, int]:
    """Add all codes or none to an index; the arguments are those of ``build``, with the index's columns as defaults.

    Columns of the index that the data lack are filled with nulls, and a message on standard error names them. ``row``
    is null for data that the index was not built from. With ``upsert``, codes whose id the index has are replaced.
    Returns the numbers of ``added`` and, with ``upsert``, ``replaced`` codes.
    """
    read = _read_or_encode(codes, data, id_column, index.vectors, index, progress)
    count, columns = len(read.table.codes), read.metadata.column_names
    rows, others = read.ids is read.table.rows, ROW not in columns or read.metadata[ROW].null_count
    if upsert and (read.ids is None or (rows and others)):
        new = "row numbers of other data" if rows else "new ones"
        raise ValueError(f"upsert is given, but the ids are {new}, which replace nothing; name a column of ids")
    change: Any = index.upsert if upsert else index.add
    index.refresh()  # others may have changed it while rows were embedded
    before = len(index)
    try:
        change(read.table.codes, read.ids, read.metadata, vectors=read.vectors)
    except TakenIdError as error:
        if not rows:
            raise
        raise ValueError(f"{error.said}; the ids are row numbers: id_column 'next' takes new ones") from None
    if absent := [name for name in index.state.columns if name not in columns]:
        print(f"the rows have no {', '.join(absent)}; the index gets null", file=sys.stderr)
    if others and THUMBNAIL not in index.state.columns and holds_images(data.get("data") or ""):
        told = f"an index that is built with --metadata {THUMBNAIL} has them"
        print(f"the page shows no images of what is added; {told}", file=sys.stderr)
    if not upsert:
        return {"added": count}
    replaced = before + count - len(index)
    return {"added": count - replaced, "replaced": replaced}


def ids_of(table: CodeTable, which: str | None) -> npt.NDArray | None:
    """Return the ids of a table's codes; None if numbering continues after the largest id of the index.

    ``which`` is ``row`` (row numbers of the encoded file), ``next`` (returns None), or a column of integers or texts.
    If None, it is the column ``id`` if there is one, otherwise ``row``.
    """
    columns = table.extra_columns
    which = _check_ids(None if columns is None else columns.schema, which)
    if columns is None or which in ("row", "next"):
        return table.rows if which == "row" else None
    column = columns[which]
    if column.null_count:
        row = table.rows[column.is_null().index(True).as_py()]
        raise ValueError(f"id_column is {which!r}, which is missing in row {row}; every code must have an id")
    return np.asarray(column)


def _metadata(table: CodeTable, id_column: str, keep: Sequence[str], origin: dict[str, Any]) -> pa.Table:
    """Return the metadata of a table's codes, without the ids' column unless ``keep`` names it."""
    columns = metadata_of_codes(table)
    if id_column in columns.column_names and id_column not in ("row", *keep):
        columns = columns.drop_columns([id_column])
    known = {name: value for name, value in {"id_column": id_column, **origin}.items() if value is not None}
    return columns.replace_schema_metadata({ORIGIN: json.dumps(known)})


def _read_or_encode(
    codes: str | Path | None,
    data: dict[str, Any],
    id_column: str | None,
    vectors: str,
    index: BaseIndex | None,
    progress: bool,
) -> Read:
    """Return the codes for an index, with their ids, metadata and vectors.

    Data or ids that do not fit the index are refused before encoding starts.
    """
    given = {name: value for name, value in data.items() if value not in (None, ())}
    if codes is not None:
        return _read(codes, id_column, vectors, index)
    job = EncodingJob(**{"split": None, **given})
    one_file = job.base is None and job.query is None
    hasher = load_hasher(job.model)
    labels, there = hasher.model_.metadata.get("label_column"), columns_in(job.data) if one_file else []
    if job.label_column is job.labels is None and labels in there:
        job = replace(job, label_column=labels)
    if index is None and ID in there:
        id_column = id_column or ID
    if index is not None and index.state.schema is not None:
        job, id_column = _as_in_index(job, id_column, index.state, one_file)
    own = [] if id_column in (None, "row", "next", *job.metadata) else [str(id_column)]
    column_schema(job.data, own, one_file=one_file, option="id_column", like=job.like)
    keep, job = job.metadata, replace(job, metadata=(*job.metadata, *own))
    schema = column_schema(job.data, job.metadata, one_file=one_file, like=job.like)
    which = _check_ids(schema, id_column)
    if index is not None:
        _check_kind(index.state, schema, which)
        check_model(index, hasher.model_.fingerprint(), hasher.bits)
    source = open_source(job, hasher, stream=False, progress=progress)
    if (
        job.split in (None, "base")
        and source.job.split != "all"
        and (line := _left_out(source, named=job.split is not None))
    ):
        print(line, file=sys.stderr)
    table, stored = _encoded(source, vectors, index, progress)
    ids = ids_of(table, which)
    if ids is not None and index is not None and index.state.texts:
        ids = np.array([str(name) for name in ids.tolist()], object)  # where a long one makes no other longer
    origin = {
        "data": data_fingerprint(job.data) if one_file else None,
        "label_column": job.label_column,
        "embedding_column": job.embedding_column,
        "text_column": None if job.texts is None else job.texts.column,
    }
    metadata = _rows_for(index, _metadata(table, which, keep, origin))
    return Read(table, ids, metadata, stored, hasher.model_.learns_classes)


def _read(codes: str | Path, id_column: str | None, vectors: str, index: BaseIndex | None) -> Read:
    """Return the codes of a file or folder for an index."""
    if vectors:
        raise ValueError(f"the index stores {vectors}, which a file of codes does not have; give model and data")
    table = read_codes(codes)
    columns = None if table.extra_columns is None else table.extra_columns.schema
    if index is not None:
        check_model(index, table.model, table.bits, "codes")
        if id_column is None and columns is not None:
            id_column = next((one for one in [index.state.origin.get("id_column")] if one in columns.names), None)
    which, origin = _check_ids(columns, id_column), origin_of(columns)
    if which != "id":  # "id": an exported index, which keeps its data's name for the ids
        origin.pop("id_column", None)
    return Read(table, ids_of(table, which), _rows_for(index, _metadata(table, which, (), origin)))


def _rows_for(index: BaseIndex | None, metadata: pa.Table) -> pa.Table:
    """Return metadata for an index, without ``row`` if it has no such column, or with nulls there for other data."""
    if index is None or index.state.schema is None:
        return metadata
    if ROW not in index.state.columns:
        return metadata.drop_columns([ROW])
    data = origin_of(metadata.schema).get("data")
    if data and data == index.state.origin.get("data"):
        return metadata
    return metadata.set_column(metadata.column_names.index(ROW), ROW, pa.nulls(len(metadata), pa.int64()))


def _encoded(
    source: Source, vectors: str, index: BaseIndex | None, progress: bool
) -> tuple[CodeTable, npt.NDArray | None]:
    """Encode, and report rows of classes that the model was not trained on; drop labels if the index has none."""
    encoded = source.encode_all(vectors, progress=progress)
    table, learned = encoded.table, set(source.hasher.classes_.tolist())
    if index is not None and index.state.schema is not None and not index.state.label:
        table = replace(table, labels=None, class_names=())
    if source.hasher.model_.learns_classes and learned and table.labels is not None:
        later = [at for at, name in enumerate(table.class_names) if name not in learned]
        hot = table.labels[:, later].any(axis=1) if table.labels.ndim == 2 else np.isin(table.labels, later)
        if hot.any():
            names = some_names([str(table.class_names[at]) for at in later])
            said = f"{hot.sum():,} of {len(table.codes):,} rows are of classes that the training never saw ({names})"
            print(f"{said}: they are found worse; train again with them", file=sys.stderr)
    return table, encoded.vectors


def _as_in_index(
    job: EncodingJob, id_column: str | None, state: State, one_file: bool
) -> tuple[EncodingJob, str | None]:
    """Fill in a job and the ids' column from an index: missing options, and the columns to convert to (``like``)."""
    origin, there = state.origin, columns_in(job.data) if one_file else []
    id_column = id_column or origin.get("id_column")
    wanted = [name for name in state.columns if name not in ("row", "label", "labels")]
    if unknown := [name for name in job.metadata if name not in (*wanted, "id")]:
        raise ValueError(f"metadata has {unknown[0]!r}; the index has {', '.join(wanted) or 'none'}: leave it out")
    if id_column not in (None, "row", "next", *there) and there:
        raise ValueError(
            f"data is {str(job.data)!r}, which has no column {id_column!r} for the ids; id_column names another"
        )
    metadata = job.metadata or tuple(name for name in wanted if name in there)
    known: dict[str, Any] = {}
    if job.embedding_column is None and fnmatch.filter(there, origin.get("embedding_column", "")):  # may be emb_*
        known["embedding_column"] = origin["embedding_column"]
    if job.label_column is None and origin.get("label_column") in there:
        known["label_column"] = origin["label_column"]
    if there and origin.get("label_column", there[0]) not in there and job.label_column is job.labels is None:
        known["label_column"] = NO_COLUMN
    texts = job.texts or TextOptions()
    if texts.column is None and origin.get("text_column") in there:
        known["texts"] = replace(texts, column=origin["text_column"])
    like = tuple(state.metadata)
    if state.texts and id_column is not None and id_column not in state.columns:
        like += (pa.field(id_column, pa.string()),)
    return replace(job, metadata=metadata, like=like, **known), id_column


def _check_kind(state: State, schema: pa.Schema, which: str) -> None:
    """Raise ``TypeError`` if the new ids and the index's ids are of different types (texts or integers)."""
    if which not in schema.names:
        state.check_kind(np.empty(1, np.int64))
    elif state.schema is not None and not state.texts and not pa.types.is_integer(kind := schema.field(which).type):
        raise TypeError(f"id_column is {which!r}, a column of {kind}; the index's ids are integers")


def _int8_line(index: BaseIndex, names: npt.NDArray, vectors: npt.NDArray) -> str:
    """Return a line about the cost of int8: the recall of a search among stored vectors, for a sample of rows."""
    from lbhash.evaluation.neighbors import nearest_by_cosine  # Numba loads slowly

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
    """Return a line about the rows taken and left out; empty for one of several files if a split was named."""
    split, count = source.job.split, len(source.rows)
    rows = source.split
    total = len(rows.images if isinstance(rows, ImageSplit) else rows.embedded().embeddings)
    if total == count:  # one of several files; the others were not read
        return "" if named else f"the {count:,} {split} {source.unit} of the data are taken; --split names others"
    said = f"the {count:,} {split} {source.unit} of the data are taken, and {total - count:,} are left out"
    return f"{said}; --split all takes all {total:,}"


def _check_ids(schema: pa.Schema | None, which: str | None) -> str:
    """Return the source of the ids for codes with this metadata: ``row``, ``next`` or a column."""
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
        raise TypeError(f"id_column is {which!r}, a column of {kind}; it must hold integers or texts, or be row")
    return which


def parse_ids(words: Sequence[str], index: BaseIndex) -> list[int] | list[str]:
    """Parse ids as typed by a user: integers, unless the index has texts as ids."""
    if index.state.texts:
        return list(words)
    for word in words:
        if not INTEGER.fullmatch(word):
            raise ValueError(f"ids is {word!r}; it must be an integer such as 7, as the index's ids are")
    return [int(word) for word in words]
