"""What the index commands and ``lbhash search`` do: models, files of codes and indexes in, neighbors out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import code_bytes, code_from_hex
from lbhash.codes.io import READABLE, CodeTable, check_suffix, read_codes
from lbhash.codes.shards import MANIFEST
from lbhash.data import Table, load_table
from lbhash.data.images import holds_images
from lbhash.hasher import load_hasher
from lbhash.index import FlatIndex, Index, check_model, code_attributes, open_index, rerank
from lbhash.pipeline.columns import carried_columns, check_carry
from lbhash.pipeline.embeddings import ImageOptions
from lbhash.pipeline.splits import model_split
from lbhash.utils.files import replacing
from lbhash.utils.labels import label_value
from lbhash.utils.progress import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from lbhash.hasher import Hasher
    from lbhash.index.rerank import By


@dataclass(frozen=True)
class Queries:
    """What is searched for.

    Attributes:
        codes: ``uint8 [n, ceil(bits / 8)]``.
        rows: of the data file, ``[n]``; ``None`` for codes that were given as such.
        labels: a label, or a list of labels, each; ``None`` where there are none.
        outputs: ℓ, ``float32 [n, bits]``; ``None`` for codes that were given as such.
        embeddings: ``[n, dim]``; ``None`` for codes that were given as such.
    """

    codes: npt.NDArray[np.uint8]
    rows: Sequence[int] | None = None
    labels: Sequence[Any] | None = None
    outputs: npt.NDArray[np.float32] | None = None
    embeddings: npt.NDArray | None = None


def encode_for_index(
    model: str | Path,
    data: str | Path,
    split: str,
    *,
    index: Index | None = None,
    keep: str = "",
    carry: Sequence[str] = (),
    ids: str | None = None,
    progress: bool = False,
    **where: Any,
) -> tuple[CodeTable, npt.NDArray | None]:
    """Codes of a split of a data set, and the vectors that an index is to keep of it.

    Args:
        model: a folder that ``lbhash train`` wrote.
        data: a data set.
        split: train, base or query, or all the rows of one file.
        index: where they are to go, so that another model is refused before it has done its work.
        keep: outputs or embeddings; empty for neither.
        carry: columns of the data that become attributes.
        ids: what the ids will be (``ids_of``), so that what cannot be is refused before the model has done its work.
        progress: show a bar.
        where: further arguments of ``lbhash.pipeline.splits.model_split``.
    """
    carry = check_carry(data, carry, alone=where.get("base") is None and where.get("query") is None)
    hasher = load_hasher(model)
    columns = carried_columns(data, carry, hasher, where.get("images"))
    _check_columns(columns, ids, index)
    if index is not None:
        check_model(index, hasher.model_.fingerprint(), hasher.bits)
    part = model_split(hasher, data, split, **where)
    if part.dim != hasher.model_.dim:
        raise ValueError(f"embeddings have {part.dim} numbers a row; the model takes {hasher.model_.dim}")
    codes = np.empty((len(part), code_bytes(hasher.bits)), np.uint8)
    outputs = np.empty((len(part), hasher.bits), np.float16) if keep == "outputs" else None
    done = 0
    with counted("encoding", len(part), "rows", show=progress) as advance:
        for chunk in part.chunks():
            here = slice(done, done + len(chunk))
            codes[here] = hasher.model_.encode(chunk)
            if outputs is not None:
                outputs[here] = hasher.model_.outputs(chunk)
            done += len(chunk)
            advance(len(chunk))
    vectors = part.embeddings[part.rows] if keep == "embeddings" else outputs
    further = None if columns is None else columns.take(part.rows)
    return CodeTable(codes, hasher.bits, part.rows, part.labels, hasher.model_.fingerprint(), further), vectors


def ids_of(table: CodeTable, which: str | None) -> npt.NDArray | None:
    """The ids of a table's codes.

    Args:
        table: codes and what belongs to them.
        which: ``row``, the rows of the file that was encoded; ``next``, for ids that count on from the index's largest
            (``None`` is returned); or an integer column of the table. Where it is not given: the column ``id`` if there
            is one, else ``row``.
    """
    which = _check_ids(table.extra_columns, which)
    if which == "next":
        return None
    if which == "row":
        return table.rows
    assert table.extra_columns is not None
    column = table.extra_columns[which]
    if column.null_count:
        raise ValueError(f"ids is {which!r}, a column with missing values; every code must have an id")
    return column.to_numpy()


def _check_ids(further: pa.Table | None, which: str | None) -> str:
    """What the ids are, of codes with these further columns: ``row``, ``next`` or an integer column."""
    import pyarrow as pa

    columns = further.column_names if further is not None else []
    which = which or ("id" if "id" in columns else "row")
    if further is None or which not in columns:
        if which not in ("row", "next"):
            listed = ", ".join(columns) or "none"
            raise ValueError(f"ids is {which!r}; it must be row, next, or a column of the codes ({listed})")
    elif which not in ("row", "next") and not pa.types.is_integer(further[which].type):
        raise TypeError(f"ids is {which!r}, a column of {further[which].type}; it must hold integers")
    return which


def _check_columns(columns: pa.Table | None, ids: str | None, index: Index | None) -> None:
    """Raise where columns of the data cannot go to an index, or not be its ids, whatever the codes will be."""
    _check_ids(columns, ids)
    held = [] if index is None else index.attributes_of([]).column_names[1:]
    if not held:  # there is no index yet, or it has never had a code
        return
    own = ("row", "label", "labels")
    given = [name for name in (columns.column_names if columns is not None else ()) if name != "id"]
    wanted = [name for name in held if name not in own]
    if set(given) != set(wanted):
        raise ValueError(
            f"carry is {', '.join(given) or 'not given'}; the index has {', '.join(held)}, "
            f"so that it must be {', '.join(wanted) or 'left out'}"
        )


def export_index(index: Index, out: str | Path) -> dict[str, Any]:
    """Write all of an index to a Parquet file of codes, which ``read_codes`` reads, with ids and attributes."""
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    file = check_suffix(out, suffixes=(".parquet",))
    ids = index.ids()
    codes = index.codes_of(ids)
    table = index.attributes_of(ids)
    column = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(codes.shape[1]), len(codes), [None, pa.py_buffer(np.ascontiguousarray(codes))]
    )
    facts = {"bits": index.bits, "model": index.model}
    if index.label == "labels":
        lists = table["labels"].combine_chunks()
        facts["classes"] = 1 + max((item for row in lists.to_pylist() for item in row or ()), default=0)
    table = table.add_column(1, "code", column).replace_schema_metadata({"lbhash": json.dumps(facts)})
    with replacing(file) as temporary:
        pq.write_table(table, temporary)
    return {"codes": len(ids), "bits": index.bits, "columns": table.column_names, "out": str(out)}


def open_base(path: str, hasher: Hasher | None = None) -> Index:
    """An index, or codes in a file or a folder as an exact index in memory; of ``hasher``'s model where it is given."""
    is_file = Path(path).suffix in READABLE and not Path(path).is_dir()
    table = read_codes(path, "index") if is_file or (Path(path) / MANIFEST).is_file() else None
    index = open_index(path) if table is None else FlatIndex(table.bits, model=table.model)
    if hasher is not None:
        check_model(index, hasher.model_.fingerprint(), hasher.bits)
    if table is not None:
        index.add(table.codes, ids_of(table, None), code_attributes(table))
    return index


def queries_by_row(hasher: Hasher, data: str, rows: Sequence[int]) -> Queries:
    """Rows of a data file, of embeddings or of images, as queries."""
    table: Table = ImageOptions().table(data, hasher) if holds_images(data) else load_table(data)
    for row in rows:
        if not 0 <= row < len(table):
            raise ValueError(f"row is {row}; it must be from 0 to {len(table) - 1}")
    split = table.split(np.asarray(rows, np.int64))
    embedded = split.embedded(hasher.backbone_ if split.needs_backbone else None)
    codes, embeddings = hasher.encode_split(embedded), embedded.take(slice(None))
    labels = None if table.labels is None else [label_value(table.labels[row]) for row in rows]
    return Queries(codes, list(rows), labels, hasher.model_.outputs(embeddings), embeddings)


def queries_by_code(texts: Sequence[str], bits: int) -> Queries:
    """Codes in hexadecimal digits, two a byte in the order of the bytes, as queries."""
    codes = [code_from_hex(text, bits) for text in texts]
    return Queries(np.array(codes, np.uint8).reshape(-1, code_bytes(bits)))


def parse_where(texts: Sequence[str]) -> dict[str, list[str]]:
    """Filters as they are typed, ``NAME=VALUE`` or ``NAME=VALUE,VALUE``; of one name any of its values will do."""
    where: dict[str, list[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not (name and equals and values):
            raise ValueError(f"where is {text!r}; it must be NAME=VALUE or NAME=VALUE,VALUE")
        where.setdefault(name, []).extend(values.split(","))
    return where


def search_index(
    index: Index,
    queries: Queries,
    k: int | None = None,
    *,
    radius: int | None = None,
    where: Mapping[str, Any] | None = None,
    by: By | None = None,
    candidates: int | None = None,
) -> list[dict[str, Any]]:
    """What is nearest to each query, as JSON can hold it.

    Args:
        index: where to search.
        queries: what to search for.
        k: how many neighbors, 10 where neither it nor a radius is given.
        radius: all codes within it, in the place of the k nearest.
        where: as of ``Index.search``.
        by: rank the candidates anew by this (``lbhash.index.rerank``).
        candidates: how many to rank anew, 100 where it is not given.

    Raises:
        TypeError, ValueError: a number does not fit, the index is empty, or candidates are given and not to be ranked.
    """
    if candidates is not None and by is None:
        raise ValueError(f"candidates is {candidates} without rerank; say by --rerank what to rank them by")
    if not len(index):
        raise ValueError("index is empty: it has no code to search for; add some first")
    if radius is not None:
        if k is not None or by is not None:
            raise ValueError(
                "radius is given, and so is k or rerank; within a radius all codes are returned, by distance"
            )
        found = index.range_search(queries.codes, radius, where=where)
        parts = [(*found.of(row), None) for row in range(len(queries.codes))]
    elif by is None:
        nearest = index.search(queries.codes, 10 if k is None else k, where=where)
        parts = [(distances, ids, None) for distances, ids in zip(*nearest, strict=True)]
    else:
        k = 10 if k is None else k
        candidates = 100 if candidates is None else candidates
        if candidates < k:
            raise ValueError(f"candidates is {candidates}; it must be at least k ({k})")
        vectors = queries.embeddings if by == "embeddings" else queries.outputs
        if vectors is None:
            raise ValueError("rerank needs rows of the data as queries; a code has no real numbers")
        nearest = index.search(queries.codes, min(index.check_k(k) and candidates, len(index)), where=where)
        best = rerank(index, nearest, vectors, min(k, nearest.ids.shape[1]), by) if nearest.ids.size else None
        parts = (
            [(distances, ids, scores) for scores, distances, ids in zip(*best, strict=True)]
            if best is not None
            else [(distances, ids, None) for distances, ids in zip(*nearest, strict=True)]
        )
    return [_answer(index, queries, row, *part) for row, part in enumerate(parts)]


def write_neighbors(out: str | Path, answers: Sequence[Mapping[str, Any]]) -> None:
    """Write answers of ``search_index`` to a Parquet file: a row a neighbor, with the place of its query."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = check_suffix(out, suffixes=(".parquet",))
    lines = [
        {"query": place, "query_row": answer["row"], "query_code": answer["code"], **neighbor}
        for place, answer in enumerate(answers)
        for neighbor in answer["neighbors"]
    ]
    own = {"query": pa.int64(), "query_row": pa.int64(), "query_code": pa.string(), "rank": pa.int64()}
    own |= {"id": pa.int64(), "distance": pa.int32(), "score": pa.float32()}
    columns = {name: pa.array([line[name] for line in lines], kind) for name, kind in own.items()}
    for name in lines[0]["attributes"] if lines else ():
        columns[f"attribute_{name}" if name in own else name] = pa.array([line["attributes"][name] for line in lines])
    with replacing(file) as temporary:
        pq.write_table(pa.table(columns), temporary)


def _answer(
    index: Index,
    queries: Queries,
    row: int,
    distances: npt.NDArray[np.int32],
    ids: npt.NDArray[np.int64],
    scores: npt.NDArray[np.float32] | None,
) -> dict[str, Any]:
    attributes = index.attributes_of(ids).drop_columns(["id"]).to_pylist() if len(ids) else []
    attributes = attributes or [{} for _ in ids]
    return {
        "row": None if queries.rows is None else int(queries.rows[row]),
        "code": queries.codes[row].tobytes().hex(),
        "label": None if queries.labels is None else queries.labels[row],
        "neighbors": [
            {
                "rank": rank,
                "id": int(name),
                "distance": int(distance),
                "score": None if scores is None else float(scores[rank - 1]),
                "label": held.get(index.label) if index.label else None,
                "attributes": held,
            }
            for rank, (name, distance, held) in enumerate(zip(ids, distances, attributes, strict=True), start=1)
        ],
    }
