"""Building and opening an index, in a folder or in Milvus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from lbhash.codes.io import CodeTable, check_table, label_columns
from lbhash.index.base import Columns, Index, Options
from lbhash.index.kinds import KINDS
from lbhash.index.manifest import read_manifest
from lbhash.index.milvus.address import PREFIX
from lbhash.index.milvus.collection import build_milvus, open_milvus
from lbhash.index.store import check_free
from lbhash.utils.files import check_path
from lbhash.utils.validation import check_choice


def open_index(path: str | Path, *, known: Index | None = None, progress: bool = False) -> Index:
    """Open an index.

    Each file of a folder is compared with its checksums when it is first needed, so that no answer comes from a damaged
    file. Files stay in memory, except stored vectors. ``Index.load`` reads all files at once.

    Args:
        path: a folder that ``build_index`` or ``Index.save`` wrote, or the address of a Milvus collection:
            ``milvus+http://HOST:PORT/COLLECTION`` or ``milvus+FILE.db``.
        known: the index that was opened there before; its files that have not changed are shared.
        progress: show a bar while codes are added to Milvus.

    Raises:
        ValueError: there is no index, or it is damaged or of another format.
        ConnectionError: Milvus does not answer, or refuses.
    """
    check_path(path, "index")
    if str(path).startswith(PREFIX):
        return open_milvus(str(path), progress=progress)
    manifest = read_manifest(Path(path))
    settings: dict[str, Any] = {name: manifest[name] for name in ("bits", "model", "options", "learns_classes")}
    index = KINDS[manifest["kind"]](**settings, store_vectors=(manifest["kept"] or {}).get("vectors", ""))
    index.open(Path(path), known)
    return index


def build_index(
    table: CodeTable,
    path: str | Path,
    kind: str = "flat",
    *,
    ids: npt.ArrayLike | None = None,
    attributes: Columns | None = None,
    vectors: npt.ArrayLike | None = None,
    store_vectors: str = "",
    learns_classes: bool | None = None,
    options: Options = None,
    overwrite: bool = False,
    progress: bool = False,
) -> Index:
    """Build an index of codes, and return it open.

    Args:
        table: the codes, and the model that made them.
        path: a folder, or an address that begins with ``milvus+``.
        kind: flat, which is exact, or ivf, which is approximate.
        ids: integers or texts, ``[n]``. If None, they are the table's rows.
        attributes: columns of n values each. If None, they are those of ``code_attributes``.
        vectors: ``[n, dim]``, if ``store_vectors`` is not empty.
        store_vectors: ``outputs`` or ``embeddings``, which are kept as float16 (uint8 stays uint8); ``int8``:
            embeddings with one byte a number, scaled by the first vectors; or empty for no vectors.
        learns_classes: ``hasher.model_.learns_classes`` of the model, which decides how ``rerank`` ranks; None if you
            do not know.
        options: options of the kind.
        overwrite: replace the index that is there.
        progress: show a bar while codes are sent to Milvus.

    Raises:
        TypeError, ValueError: an argument is not valid, or there is an index already. Nothing is written then.
        ConnectionError: Milvus does not answer, or refuses.
    """
    check_table(table)
    kind = check_build(path, kind, store_vectors=store_vectors, options=options, overwrite=overwrite)
    ids = table.rows if ids is None else ids
    attributes = code_attributes(table) if attributes is None else attributes
    if str(path).startswith(PREFIX):
        return build_milvus(str(path), table, kind, ids, attributes, options, overwrite=overwrite, progress=progress)
    settings: dict[str, Any] = {"model": table.model, "options": options, "store_vectors": store_vectors}
    index = KINDS[kind](table.bits, **settings, learns_classes=learns_classes)
    index.insert(index.check(table.codes), ids, attributes, vectors)
    index.save(path, overwrite=overwrite)
    return open_index(path)


def check_build(
    path: str | Path, kind: str = "flat", *, store_vectors: str = "", options: Options = None, overwrite: bool = False
) -> str:
    """Check arguments of ``build_index`` as far as possible before there are codes and without asking Milvus.

    Returns the kind as ``KINDS`` has it.
    """
    kind = check_choice(kind, "kind", KINDS)
    if str(path).startswith(PREFIX):
        if store_vectors:
            raise ValueError(f"store_vectors is {store_vectors!r}; Milvus keeps codes and attributes only")
        return kind
    check_free(Path(path), overwrite)
    KINDS[kind](8, options=options, store_vectors=store_vectors)
    return kind


def code_attributes(table: CodeTable) -> pa.Table:
    """Return the attributes of a file of codes: ``row``, ``label`` or ``labels``, and the extra columns."""
    columns: dict[str, Any] = {
        "row": pa.array(table.rows, pa.int64()),
        **label_columns(table.labels, table.class_names),
    }
    if (extra := table.extra_columns) is not None:
        columns |= {name: extra[name] for name in extra.column_names if name != "id"}  # the ids of an exported index
    return pa.table(columns)
