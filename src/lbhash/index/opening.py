"""Building and opening an index, wherever it is."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from lbhash.codefile import CodeTable, label_columns
from lbhash.index.base import Attributes, Index
from lbhash.index.kinds import kind_of
from lbhash.index.local import check_free, open_folder, write_index

if TYPE_CHECKING:
    import pyarrow as pa

MILVUS = "milvus+"
"""What the address of a collection of Milvus begins with, before its ``http://host:port/collection`` or file."""


def open_index(path: str | Path) -> Index:
    """Open an index.

    Args:
        path: a folder that ``build_index`` or ``Index.save`` wrote, or an address that begins with ``milvus+``.

    Raises:
        ValueError: there is none, or it is damaged, of a newer format, or no index.
    """
    if str(path).startswith(MILVUS):
        return import_module("lbhash.index.milvus").open_milvus(str(path))
    return open_folder(path)


def build_index(
    table: CodeTable,
    path: str | Path,
    kind: str = "flat",
    *,
    ids: npt.ArrayLike | None = None,
    attributes: pa.Table | Attributes | None = None,
    vectors: npt.ArrayLike | None = None,
    keep: str = "",
    options: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> Index:
    """Make an index of codes, and leave it open.

    Args:
        table: the codes, and the model that made them.
        path: a folder, or an address that begins with ``milvus+``.
        kind: flat, which is exact; mih, ivf or hnsw. Milvus has one kind.
        ids: ``int64 [n]``; the table's rows where they are not given.
        attributes: columns of n values each; those of ``code_attributes`` where they are not given.
        vectors: ``[n, dim]``, where some are kept.
        keep: what these are, outputs or embeddings.
        options: of the kind.
        overwrite: replace the index that is there.

    Raises:
        TypeError, ValueError: anything does not fit, or there is an index already. Nothing is written then.
    """
    names = table.rows if ids is None else ids
    columns = code_attributes(table) if attributes is None else attributes
    if str(path).startswith(MILVUS):
        if keep or options:
            raise ValueError("keep and options are of the embedded kinds; Milvus has neither")
        remote = import_module("lbhash.index.milvus").create_milvus(
            str(path), table.bits, model=table.model, overwrite=overwrite
        )
        remote.add(table.codes, names, columns)
        return remote
    check_free(Path(path), overwrite)
    index = kind_of(kind)(table.bits, model=table.model, options=options, keep=keep)
    index._add(table.codes, names, columns, vectors)
    write_index(index, path, overwrite=overwrite)
    return open_folder(path)


def code_attributes(table: CodeTable) -> pa.Table:
    """What an index keeps of a file of codes beside these: ``row``, ``label`` or ``labels``, and further columns."""
    import pyarrow as pa

    columns: dict[str, Any] = {"row": pa.array(table.rows, pa.int64()), **label_columns(table.labels)}
    if table.further is not None:
        # The ids of an exported index are ids again, and no attribute.
        columns |= {name: table.further[name] for name in table.further.column_names if name != "id"}
    return pa.table(columns)
