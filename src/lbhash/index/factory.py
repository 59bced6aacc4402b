"""Build an index from a file of codes, in a folder or in Milvus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from lbhash.codes.io import CodeTable, check_table, label_columns
from lbhash.index.base import BaseIndex, Columns, Options, Rows
from lbhash.index.kinds import KINDS
from lbhash.index.milvus.address import PREFIX
from lbhash.index.milvus.collection import build_milvus, open_milvus
from lbhash.index.store import OPENED_BY, Index, check_free
from lbhash.utils.validation import check_choice

OPENED_BY[PREFIX] = open_milvus


def build_index(
    table: CodeTable,
    path: str | Path,
    kind: str = "flat",
    *,
    ids: npt.ArrayLike | None = None,
    metadata: Columns | None = None,
    vectors: npt.ArrayLike | None = None,
    store: str = "",
    learns_classes: bool | None = None,
    options: Options = None,
    overwrite: bool = False,
    progress: bool = False,
) -> BaseIndex:
    """Build an index of codes, and return it opened.

    Args:
        table: the codes, and the model that made them.
        path: a folder, or an address that begins with ``milvus+``.
        kind: flat (exact) or ivf (approximate).
        ids: integers or texts, ``[n]``. If None, they are the table's rows.
        metadata: columns of n values each. If None, those of ``metadata_of_codes``.
        vectors: ``[n, dim]``, if ``store`` is not empty.
        store: which vectors the index stores, ``vectors`` of ``Index``.
        learns_classes: as for ``Index``.
        options: options of the kind.
        overwrite: replace an existing index.
        progress: show a bar while codes are sent to Milvus.

    Raises:
        TypeError, ValueError: an argument is not valid, or an index exists already. Nothing is written then.
        ConnectionError: Milvus does not answer, or refuses.
    """
    check_table(table)
    kind = check_build(path, kind, store=store, options=options, overwrite=overwrite)
    ids = table.rows if ids is None else ids
    metadata = metadata_of_codes(table) if metadata is None else metadata
    if str(path).startswith(PREFIX):
        return build_milvus(str(path), table, kind, ids, metadata, options, overwrite=overwrite, progress=progress)
    about: dict[str, Any] = {"model": table.model, "learns_classes": learns_classes}
    index = Index(table.bits, kind, vectors=store, options=options, **about)
    index.insert(Rows(index.check(table.codes), ids, metadata, vectors))
    index.save(path, overwrite=overwrite)
    return index


def check_build(
    path: str | Path, kind: str = "flat", *, store: str = "", options: Options = None, overwrite: bool = False
) -> str:
    """Check arguments of ``build_index`` before the codes exist, without connecting to Milvus.

    Returns the kind as spelled in ``KINDS``.
    """
    kind = check_choice(kind, "kind", KINDS)
    if str(path).startswith(PREFIX):
        if store:
            raise ValueError(f"vectors is {store!r}; Milvus stores codes and metadata only")
        return kind
    check_free(Path(path), overwrite)
    Index(8, kind, options=options, vectors=store)
    return kind


def metadata_of_codes(table: CodeTable) -> pa.Table:
    """Return the metadata of a file of codes: ``row``, ``label`` or ``labels``, and the extra columns."""
    columns: dict[str, Any] = {
        "row": pa.array(table.rows, pa.int64()),
        **label_columns(table.labels, table.class_names),
    }
    if (extra := table.extra_columns) is not None:
        columns |= {name: extra[name] for name in extra.column_names if name != "id"}  # ids of an exported index
    return pa.table(columns)
