"""Building and opening an index, wherever it is."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from lbhash.codes.io import CodeTable, label_columns
from lbhash.index.base import Attributes, Index
from lbhash.index.kinds import KINDS, kind_of
from lbhash.index.local import LocalIndex, check_free, write_index
from lbhash.index.manifest import read_manifest
from lbhash.index.milvus.address import PREFIX

if TYPE_CHECKING:
    import pyarrow as pa


def open_index(path: str | Path, *, progress: bool = False) -> Index:
    """Open an index.

    Args:
        path: a folder that ``build_index`` or ``Index.save`` wrote, or the address of a collection of Milvus,
            ``milvus+http://HOST:PORT/COLLECTION`` or ``milvus+FILE.db`` (``lbhash.index.milvus.address``).
        progress: show a bar while codes are added to Milvus.

    Raises:
        ValueError: there is none, or it is damaged, of a newer format, or no index.
        ConnectionError: Milvus does not answer, or refuses.
    """
    if str(path).startswith(PREFIX):
        return import_module("lbhash.index.milvus.collection").open_milvus(str(path), progress=progress)
    return open_folder(path)


def open_folder(path: str | Path) -> LocalIndex:
    """Open a folder that holds an index.

    Raises:
        ValueError: it holds none, or one that is damaged or of a newer format.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    if manifest.get("kind") not in KINDS:
        raise ValueError(f"index is {str(path)!r}, of the kind {manifest.get('kind')!r}, which is unknown")
    keep = (manifest["kept"] or {}).get("vectors", "")
    kind = KINDS[manifest["kind"]]
    index = kind(manifest["bits"], model=manifest["model"], options=manifest["options"], keep=keep)
    index.attach(folder)
    return index


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
    progress: bool = False,
) -> Index:
    """Make an index of codes, and leave it open.

    Args:
        table: the codes, and the model that made them.
        path: a folder, or an address that begins with ``milvus+``.
        kind: flat, which is exact; mih, ivf or hnsw. Milvus has flat and ivf.
        ids: ``int64 [n]``; the table's rows where they are not given.
        attributes: columns of n values each; those of ``code_attributes`` where they are not given.
        vectors: ``[n, dim]``, where some are kept.
        keep: what these are, outputs or embeddings.
        options: of the kind.
        overwrite: replace the index that is there.
        progress: show a bar while codes are sent to Milvus.

    Raises:
        TypeError, ValueError: anything does not fit, or there is an index already. Nothing is written then.
        ConnectionError: Milvus does not answer, or refuses.
    """
    names = table.rows if ids is None else ids
    columns = code_attributes(table) if attributes is None else attributes
    if str(path).startswith(PREFIX):
        _check_keep(keep)
        return import_module("lbhash.index.milvus.collection").build_milvus(
            str(path),
            table.codes,
            table.bits,
            ids=names,
            attributes=columns,
            model=table.model,
            kind=kind,
            options=options,
            overwrite=overwrite,
            progress=progress,
        )
    check_free(Path(path), overwrite)
    index = kind_of(kind)(table.bits, model=table.model, options=options, keep=keep)
    index._add(table.codes, names, columns, vectors)
    write_index(index, path, overwrite=overwrite)
    return open_folder(path)


def check_build(
    path: str | Path,
    kind: str = "flat",
    *,
    keep: str = "",
    options: Mapping[str, Any] | None = None,
    overwrite: bool = False,
) -> None:
    """Raise what ``build_index`` would of these arguments, as far as that is known before there are codes.

    Of a collection of Milvus nothing is asked yet.
    """
    if str(path).startswith(PREFIX):
        _check_keep(keep)
        return
    check_free(Path(path), overwrite)
    kind_of(kind)(8, options=options, keep=keep)


def _check_keep(keep: str) -> None:
    if keep:
        raise ValueError(f"keep is {keep!r}; Milvus keeps codes and attributes only")


def code_attributes(table: CodeTable) -> pa.Table:
    """What an index keeps of a file of codes beside these: ``row``, ``label`` or ``labels``, and further columns."""
    import pyarrow as pa

    columns: dict[str, Any] = {"row": pa.array(table.rows, pa.int64()), **label_columns(table.labels)}
    if table.extra_columns is not None:
        # The ids of an exported index are ids again, and no attribute.
        columns |= {name: table.extra_columns[name] for name in table.extra_columns.column_names if name != "id"}
    return pa.table(columns)
