"""Convert a published image data set from its own layout to one Parquet file, with the paper's splits."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes.io import check_suffix, label_columns
from lbhash.data.choose import FLAGS
from lbhash.data.dataset import SPLITS
from lbhash.data.images import FileImages, ImageTable
from lbhash.data.images.cifar import read_cifar
from lbhash.data.images.corrupt import Damaged, report_missing
from lbhash.data.images.imagenet import read_imagenet
from lbhash.data.images.list_files import read_image_lists
from lbhash.data.images.nuswide import read_nuswide
from lbhash.utils.checksums import add_checksum
from lbhash.utils.files import check_new, replacing
from lbhash.utils.labels import own_classes
from lbhash.utils.paths import folder_with
from lbhash.utils.progress import counted
from lbhash.utils.validation import check_choice

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 1000  # images written at a time


KINDS: dict[str, Callable[..., ImageTable]] = {
    "cifar10": read_cifar,
    "nuswide": read_nuswide,
    "imagenet": read_imagenet,
    "lists": read_image_lists,
}
"""The reader of each kind of data set's folder."""


def prepare(
    kind: str,
    folder: str | Path,
    out: str | Path,
    *,
    protocol: str | None = None,
    seed: int = 0,
    images: str | Path | None = None,
    class_list: str | Path | None = None,
    damaged: Damaged = "refuse",
    overwrite: bool = False,
    progress: bool = False,
) -> dict[str, Any]:
    """Write images, labels and splits of a data set to ``out``, and return the number of rows in each split.

    Image files stay where they are: the Parquet file has their paths, relative to its own folder if they are below it,
    otherwise absolute. Other images are written as PNG. Labels are class numbers; the schema has the class names, in
    the form of ``datasets``.

    Args:
        kind: a name of ``KINDS``.
        folder: the folder of the data set.
        out: a ``.parquet`` file.
        protocol: the rule that splits the rows. If None, the paper's for this kind, or the splits in the lists.
        seed: seed of the protocol's sample.
        images: the folder that the paths in the data set's lists are relative to.
        class_list: a file with the WordNet ids of the ImageNet classes to take, one per line.
        damaged: ``refuse`` the data set if an image file is missing, or ``skip`` such rows.
        overwrite: whether to replace an existing file.
        progress: show a bar on standard error.

    Raises:
        ValueError: the reader or the protocol refuses the data, or the file exists.
    """
    kind = check_choice(kind, "kind", KINDS)
    given = {name: Path(value) for name, value in (("images", images), ("class_list", class_list)) if value is not None}
    if images is not None:
        folder_with(images, "images", "the folder that the paths in the lists start from")
    file = check_suffix(out, suffixes=(".parquet",))
    check_new(file, "out", overwrite)
    table = KINDS[kind](Path(folder), **given)
    report_missing(table, damaged)
    table = table.without(table.store.missing().tolist())
    chosen, rows = table.split_rows(protocol, seed)
    _write(file, table, rows, progress)
    counts = {split: len(rows[split]) for split in SPLITS}
    return {"out": str(file), "protocol": chosen, "images": len(table.sound()), **counts}


def _write(file: Path, table: ImageTable, splits: dict[str, npt.NDArray[np.int64]], progress: bool) -> None:
    """Write the rows that are not missing, one row group at a time."""
    import pyarrow.parquet as pq

    rows = table.sound()
    groups = [rows[start : start + ROW_GROUP] for start in range(0, len(rows), ROW_GROUP)]
    schema = _columns(table, splits, rows[:1], file.parent).schema.with_metadata(_features(table))
    with replacing(file) as temporary, counted("preparing", len(rows), "images", show=progress) as advance:
        with pq.ParquetWriter(temporary, schema, write_page_checksum=True) as writer:
            for group in groups:
                columns = _columns(table, splits, group, file.parent)
                writer.write_table(columns.replace_schema_metadata(schema.metadata))
                advance(len(group))
        add_checksum(temporary)


def _columns(
    table: ImageTable, splits: dict[str, npt.NDArray[np.int64]], rows: npt.NDArray[np.int64], home: Path
) -> pa.Table:
    """Return some rows, for a file in the folder ``home``."""
    import pyarrow as pa

    assert table.labels is not None
    columns: dict[str, Any] = {}
    if isinstance(table.store, FileImages):
        paths = [_path(table.store.folder / table.store.files[row], home) for row in rows]
        kind = pa.struct({"bytes": pa.null(), "path": pa.string()})
        columns["image"] = pa.array([{"path": path} for path in paths], kind)
        columns["path"] = pa.array(paths, pa.string())  # for --metadata path
    else:
        kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
        columns["image"] = pa.array([{"bytes": _png(table, row)} for row in rows.tolist()], kind)
    columns |= label_columns(table.labels[rows], own_classes(table.labels) if _has_names(table) else table.class_names)
    return pa.table(columns | {flag: np.isin(rows, splits[split]) for flag, split in FLAGS.items()})


def _path(file: Path, home: Path) -> str:
    absolute, top = os.path.abspath(file), os.path.abspath(home)
    return os.path.relpath(absolute, top) if Path(absolute).is_relative_to(top) else absolute


def _png(table: ImageTable, row: int) -> bytes:
    file = BytesIO()
    table.store.read(row).save(file, "PNG")
    return file.getvalue()


def _has_names(table: ImageTable) -> bool:
    """Return whether the classes are texts; then the schema has the texts, and the column class numbers."""
    return all(isinstance(one, str) for one in table.class_names)


def _features(table: ImageTable) -> dict[str, str]:
    """Return the schema metadata from which ``datasets`` and lbhash read the class names."""
    assert table.labels is not None
    if not _has_names(table):
        return {}
    kind: dict[str, Any] = {"names": list(table.class_names), "_type": "ClassLabel"}
    label = {"label": kind} if table.labels.ndim == 1 else {"labels": {"feature": kind, "_type": "Sequence"}}
    return {"huggingface": json.dumps({"info": {"features": label}})}
