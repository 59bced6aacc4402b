"""Search an index or a file of codes for the nearest neighbors of rows, images, texts or codes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.codes import code_from_hex, pack_outputs
from lbhash.codes.io import READABLE, check_suffix, read_codes
from lbhash.data import load_table
from lbhash.data.images import holds_images, load_images
from lbhash.data.images.decoding import as_image
from lbhash.data.images.folders import read_image_files
from lbhash.data.split import Split
from lbhash.data.table import Table
from lbhash.hasher import Hasher, load_hasher
from lbhash.index import Index
from lbhash.index.base import BaseIndex, check_model, describe_neighbors
from lbhash.index.factory import metadata_of_codes
from lbhash.index.results import By, Neighbors
from lbhash.index.where import conditions
from lbhash.pipeline.index import ids_of
from lbhash.utils.fetched import fetched
from lbhash.utils.files import write_csv
from lbhash.utils.formatting import some_names
from lbhash.utils.labels import label_value
from lbhash.utils.parquet import write_parquet
from lbhash.utils.parts import MANIFEST
from lbhash.utils.serialization import json_values

_ROWS = re.compile(r"(\d+)(?:-(\d+))?|(\d*):(\d*)|all", re.ASCII)


class Queries(NamedTuple):
    """The queries: codes ``[n, ceil(bits / 8)]`` and, unless the user gave codes, embeddings and outputs.

    Rows of data have a number and maybe a label; images and texts have a name.
    """

    codes: npt.NDArray[np.uint8]
    rows: Sequence[int | None]
    labels: Sequence[Any]
    names: Sequence[str | None]
    embeddings: npt.NDArray | None = None
    soft: npt.NDArray[np.float32] | None = None
    outputs: npt.NDArray[np.float32] | None = None


def search(
    path: str,
    *,
    model: str | Path | None = None,
    encoder: str | Path | None = None,
    backbone: str | Path | None = None,
    data: str | None = None,
    rows: Sequence[str] = (),
    codes: Sequence[str] = (),
    images: Sequence[str] = (),
    texts: Sequence[str] = (),
    k: int | None = None,
    radius: int | None = None,
    where: Sequence[str] = (),
    rerank: By | None = None,
    candidates: int | None = None,
    hamming: bool = False,
    out: str | Path | None = None,
) -> dict[str, Any]:
    """Search an index, or a file of codes, for the nearest neighbors of rows, images, texts or codes.

    The arguments are the options of ``lbhash search``. The queries are ``rows`` of ``data`` (``_parse_rows``),
    ``images`` (files, folders, or "-" for standard input), ``texts``, or ``codes`` in hexadecimal digits. ``model``
    encodes them, except codes; give its ``encoder`` or ``backbone`` if that has moved. The result is the ``k`` nearest
    codes (default 10), or all within ``radius``. All filters must hold (``lbhash.index.where``). ``rerank`` orders the
    first ``candidates`` (default 100) again (``lbhash.index.rerank``). ``out`` is a file for the neighbors.

    Unreadable images are named and left out; if all are unreadable, a ``ValueError`` is raised. Queries that a model
    encodes are ranked by their real outputs (``lbhash.codes.real``), unless ``hamming`` or a ``radius`` is given.
    Returns the ``index``, its ``codes`` and ``bits``, the ``ranking``, and the ``queries`` with their neighbors.
    """
    if out is not None:
        check_suffix(out, suffixes=(".parquet", ".csv"))
    for one in where:
        conditions(one)  # before it is joined: a parenthesis in it must not reach into the next
    if codes:
        index = _open(path)
        none = [None] * len(codes)
        queries = Queries(np.stack([code_from_hex(text, index.bits) for text in codes]), none, none, none)
    else:
        assert model is not None
        hasher = load_hasher(model, encoder=encoder, backbone=backbone)
        index = _open(path, hasher)
        queries = _encode_given(hasher, images, texts) if images or texts else _encode_rows(hasher, data, rows)
    by_bits = hamming or queries.soft is None or radius is not None
    filtered = where[0] if len(where) == 1 else " and ".join(f"({one})" for one in where) or None
    found = _find(index, queries, k, radius, filtered, rerank, candidates, by_bits)
    answers = []
    asked = zip(queries.rows, queries.codes, queries.labels, queries.names, found, strict=True)
    for row, code, label, name, neighbors in asked:
        named = {} if name is None else {"text" if texts else "image": name}
        answers.append({"row": row, "code": code.tobytes().hex(), "label": label, **named, "neighbors": neighbors})
    if out is not None:
        _write_neighbors(out, index, answers)
    ranking = rerank or ("hamming" if by_bits else "real")
    return {"index": path, "codes": len(index), "bits": index.bits, "ranking": ranking, "queries": answers}


def _open(path: str, hasher: Hasher | None = None) -> BaseIndex:
    """Open an index, or load codes from a file or folder into an exact index; check that the hasher made them."""
    is_file = Path(path).suffix in READABLE and not Path(path).is_dir()
    table = read_codes(path, "index") if is_file or (Path(path) / MANIFEST).is_file() else None
    index = Index.open(path) if table is None else Index(table.bits, model=table.model)
    if hasher is not None:
        check_model(index, hasher.model_.fingerprint(), hasher.bits)
        index.learns_classes = hasher.model_.learns_classes
    if table is not None:
        index.add(table.codes, ids_of(table, None), metadata_of_codes(table))
    return index


def _encode_rows(hasher: Hasher, data: str | None, asked: Sequence[str]) -> Queries:
    """Encode rows of a data file (embeddings, texts or images) as queries."""
    assert data is not None
    data = str(fetched(data, "data"))
    if holds_images(data):
        table: Table[Any] = load_images(data)
    else:
        table = load_table(
            data, damaged="skip", need_labels=False, **hasher.model_.reading_of(data, lambda: hasher.backbone_)
        )
    rows = _parse_rows(asked, len(table), table.damaged)
    split: Split = table.split(np.asarray(rows, np.int64))
    embedded = split.embedded(hasher.backbone_ if split.needs_backbone else None)
    labels = [None if table.labels is None else label_value(table.labels[row], table.class_names) for row in rows]
    return _queries(hasher, embedded.take(slice(None)), rows, labels, [None] * len(rows))


def _encode_given(hasher: Hasher, images: Sequence[str], texts: Sequence[str]) -> Queries:
    """Encode images (files, folders or standard input) or texts as queries."""
    model = hasher.model_
    if model.takes_texts != bool(texts) or "backbone" not in model.metadata:
        trained = "texts" if model.takes_texts else "images" if "backbone" in model.metadata else "embeddings"
        raise ValueError(f"{'text' if texts else 'image'} is given, and the model was trained on {trained}")
    if texts:
        if blank := [text for text in texts if not text.strip()]:
            raise ValueError(f"text is {blank[0]!r}; it must have a word")
        names, embeddings = list(texts), hasher.backbone_.embed(texts, query=True)
    else:
        names = []
        files = [file for image in images for file in _image_files(image)]
        embeddings = hasher.backbone_.embed(_readable(files, names))
    return _queries(hasher, embeddings, [None] * len(names), [None] * len(names), names)


def _readable(files: Sequence[str], names: list[str]) -> Iterator[Any]:
    """Yield the readable images of files, append their names to ``names``, and report unreadable ones at the end."""
    faults = {}
    for file in files:
        try:
            yield as_image(sys.stdin.buffer.read() if file == "-" else file, f"image {file!r}")
            names.append(file)
        except ValueError as error:
            faults[file] = str(error)
    if faults:
        first = next(iter(faults.values()))
        if not names:
            raise ValueError(first)
        said = f"{len(faults):,} of {len(files):,} images cannot be read and are left out"
        print(f"{said} ({some_names(list(faults))}): {first}", file=sys.stderr)


def _image_files(path: str) -> list[str]:
    """Return the paths of all images in and below a folder, or the path of a file itself."""
    if not Path(path).is_dir():
        return [path]
    store: Any = read_image_files(path, "image").store
    return [str(Path(path) / file) for file in store.files]


def _queries(
    hasher: Hasher,
    embeddings: npt.NDArray,
    rows: Sequence[int | None],
    labels: Sequence[Any],
    names: Sequence[str | None],
) -> Queries:
    model = hasher.model_
    model.check_dim(embeddings.shape[1])
    outputs = model.outputs(embeddings)
    return Queries(pack_outputs(outputs), rows, labels, names, embeddings, model.soft(outputs), outputs)


def _parse_rows(words: Sequence[str], count: int, damaged: npt.NDArray[np.bool_] | None = None) -> list[int]:
    """Parse rows as typed by a user: ``3``, ``0-5`` (includes 5), ``0:6`` (excludes 6, as in Python), ``all``.

    Rows that are true in ``damaged``, ``bool [count]``, are left out of a range, and refused if given alone.
    """
    rows: list[int] = []
    for word in words:
        match = _ROWS.fullmatch(word)
        if match is None:
            raise ValueError(
                f"row is {word!r}; it must be a row counted from 0, such as 3; several, such as 3,7; a range, such as "
                "0-5 with both ends or 0:6 without the last; or all"
            )
        row, last, start, end = match.groups()
        first, stop = int(row or start or 0), int(last or row) + 1 if row else int(end or count)
        if not first < stop <= count:
            order = "" if row == word else ", the lower end first"
            raise ValueError(f"row is {word}; it must be from 0 to {count - 1}{order}")
        sound = [row for row in range(first, stop) if damaged is None or not damaged[row]]
        if not sound:
            raise ValueError(f"row is {word}, whose embedding is not finite, and so has no code; ask for another row")
        rows += sound
    return rows


def _find(
    index: BaseIndex,
    queries: Queries,
    k: int | None,
    radius: int | None,
    where: str | None,
    rerank: By | None,
    candidates: int | None,
    by_bits: bool,
) -> list[list[dict[str, Any]]]:
    """Return each query's neighbors, as ``describe_neighbors`` does."""
    if radius is not None:
        within = index.range_search(queries.codes, radius, where=where)
        parts = map(within.of, range(len(queries.codes)))
        return describe_neighbors(index, [Neighbors(distances[None], ids[None]).result() for distances, ids in parts])
    how: dict[str, Any] = {} if candidates is None else {"candidates": candidates}
    asked: dict[str, Any] = {"codes": queries.codes} if by_bits else {"outputs": queries.soft}
    if rerank == "outputs":
        asked = {"outputs": queries.outputs}
    if rerank is not None:
        how |= {"rerank": rerank, "embeddings": queries.embeddings}
    return describe_neighbors(index, [index.search(**asked, k=10 if k is None else k, where=where, **how)])


def _name(answer: Mapping[str, Any]) -> str | None:
    return answer.get("image", answer.get("text"))


def _write_neighbors(out: str | Path, index: BaseIndex, answers: Sequence[Mapping[str, Any]]) -> None:
    """Write the answers to a Parquet or CSV file: one row for each neighbor, with its query's position."""
    import pyarrow as pa

    lines = [
        {"query": place, "query_row": answer["row"], "query_name": _name(answer), "query_code": answer["code"]}
        | neighbor
        for place, answer in enumerate(answers)
        for neighbor in answer["neighbors"]
    ]
    own = {"query": pa.int64(), "query_row": pa.int64(), "query_name": pa.string(), "query_code": pa.string()}
    own |= {"rank": pa.int64()}
    if not any(map(_name, answers)):
        del own["query_name"]
    texts = bool(lines) and isinstance(lines[0]["id"], str)
    own |= {"id": pa.string() if texts else pa.int64(), "distance": pa.float32(), "hamming": pa.int32()}
    columns = {name: pa.array([line[name] for line in lines], kind) for name, kind in own.items()}
    if lines:
        held = index.get([line["id"] for line in lines]).drop_columns(["id", "code"])
        for name in held.column_names:
            free = name
            while free in columns or (free != name and free in held.column_names):
                free = f"metadata_{free}"
            columns[free] = held[name]
    if Path(out).suffix == ".csv":
        write_csv(out, [columns, *zip(*map(json_values, columns.values()), strict=True)])
        return
    write_parquet(out, pa.table(columns))
