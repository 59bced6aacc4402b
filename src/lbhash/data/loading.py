"""Read data sets and their splits, by name or from files."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from lbhash.data.characters import characters
from lbhash.data.choose import NO_COLUMN
from lbhash.data.dataset import SPLITS, Dataset
from lbhash.data.images.hub import HUB_DATASETS
from lbhash.data.readers import is_one_table, read_table
from lbhash.data.split import EmbeddingSplit
from lbhash.data.table import EmbeddingTable, check_protocol
from lbhash.utils.labels import Labels, in_one_order
from lbhash.utils.names import unknown_name
from lbhash.utils.paths import check_path
from lbhash.utils.system import package_folder
from lbhash.utils.table_files import SUFFIXES, is_frame
from lbhash.utils.validation import did_you_mean


def digits() -> EmbeddingTable:
    """1,797 images of 8 × 8 gray values from 0 to 16, as ``uint8 [1797, 64]``, with their digits as labels.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI 1998, as scikit-learn ships it.
    """
    file = package_folder("sklearn", "data is 'digits', which") / "datasets" / "data" / "digits.csv.gz"
    data = np.loadtxt(file, delimiter=",", dtype=np.int64)
    return EmbeddingTable(data[:, :-1].astype(np.uint8), data[:, -1].copy(), "digits", protocol="digits")


DATASETS = {"digits": digits, "characters": characters}
"""The data sets that need no file, by name."""


def known_name(data: str | Path) -> str | Path:
    """Return the name of a data set in its exact spelling; return other data unchanged.

    Raises ``ValueError`` if ``data`` is one word, resembles a name, and no such file exists.
    """
    if is_frame(data):
        return data
    word = str(check_path(data, "data"))
    known = [*DATASETS, *HUB_DATASETS]
    if word in known or Path(data).exists() or not word.isalnum():
        return data
    if word.lower() in known:
        return word.lower()
    if hint := did_you_mean(word, known):
        raise ValueError(f"data is {word!r}, and there is no such file{hint}")
    return data


def load_dataset(
    data: str | Path,
    *,
    base: str | Path | None = None,
    query: str | Path | None = None,
    labels: str | Path | None = None,
    protocol: str | None = None,
    seed: int = 0,
    **reading: Any,
) -> Dataset[EmbeddingSplit]:
    """Return train, base and query of a data set of embeddings.

    Args:
        data: a name of ``DATASETS``; a file or a frame (``read_table``); or a folder with the files ``train``,
            ``base`` and ``query``.
        base: a file of the base rows; ``data`` then holds the training rows alone.
        query: a file of the query rows, together with ``base``.
        labels: an ``.npy``, or a table with a label column, for the rows of ``data``.
        protocol: a name of ``PROTOCOLS``, for one file. If None, the file's own splits count, or else ``holdout``.
        seed: seed of the protocol's sample.
        reading: further arguments of ``read_table``.

    Raises:
        ValueError: arguments contradict each other, or ``read_table`` or ``Dataset`` refuses the data.

    >>> digits = load_dataset("digits")
    >>> len(digits.train), len(digits.base), len(digits.query)
    (800, 1597, 200)
    """
    data = known_name(data)
    files = load_files(data, base=base, query=query, labels=labels, protocol=protocol, **reading)
    if files is None:
        return load_table(data, labels, **reading).dataset(protocol, seed)
    splits, names = {split: table.split() for split, table in files.items()}, files["train"].class_names
    return Dataset("data" if is_frame(data) else Path(data).name, "files", **splits, class_names=names)


def load_files(
    data: str | Path,
    *,
    base: str | Path | None = None,
    query: str | Path | None = None,
    labels: str | Path | None = None,
    protocol: str | None = None,
    **reading: Any,
) -> dict[str, EmbeddingTable] | None:
    """Return the table of each split if each split has its own file; None if the data are one table or a known name.

    Arguments and errors are those of ``load_dataset``; labels may be missing. All tables have the same classes.
    """
    protocol = check_protocol(protocol)
    if (base is None) != (query is None):
        raise ValueError("base and query go together: give both files, or neither")
    folder = not is_frame(data) and is_split_folder(data)
    if protocol is not None and (base is not None or folder):
        files = f"base is {str(base)!r}" if base is not None else f"data is the folder {str(data)!r}"
        raise ValueError(f"protocol is {protocol!r} and {files}, whose files are the splits; give one of the two")
    if labels is not None and folder:
        raise ValueError(
            f"labels is {str(labels)!r} and data is the folder {str(data)!r}, whose files have labels of their own "
            "(for an .npy, train_labels.npy and so on beside it); give labels with a file only"
        )
    if base is not None and query is not None:
        tables = [read_table(data, labels, **reading)]
        tables += [read_table(path, name=name, **reading) for name, path in (("base", base), ("query", query))]
    elif folder:
        tables = [read_table(_file_in(Path(data), split), name=split, **reading) for split in SPLITS]
    else:
        return None
    return _of_same_classes(dict(zip(SPLITS, tables, strict=True)))


def is_split_folder(data: str | Path) -> bool:
    """Return whether ``data`` is a folder with a file for each split, and not one table."""
    return Path(data).is_dir() and not is_one_table(Path(data))


def _of_same_classes(tables: dict[str, EmbeddingTable]) -> dict[str, EmbeddingTable]:
    """Return the tables with labels numbered by one list of classes; tables without labels stay unchanged."""
    given = {split: Labels(one.labels, one.class_names) for split, one in tables.items() if one.labels is not None}
    alike = zip(given, in_one_order(given), strict=True) if given else ()
    made = {split: replace(tables[split], labels=one.numbers, class_names=one.classes) for split, one in alike}
    return tables | made


def load_table(data: str | Path, labels: str | Path | None = None, **reading: Any) -> EmbeddingTable:
    """Return all rows of a data set by name or from a file.

    Arguments and errors are those of ``lbhash.data.readers.read_table``. The result has ``embeddings`` ``[n, dim]``,
    and ``labels``: ``int64 [n]``, multi-hot ``[n, C]``, or None.

    >>> load_table("characters").embeddings.shape
    (3200, 784)
    """
    known = signature(read_table).parameters
    if unknown := sorted(reading.keys() - known.keys()):
        raise TypeError(unknown_name(unknown[0], "no argument of load_table", list(known), {}))
    data = known_name(data)
    if is_frame(data) or str(data) not in DATASETS:
        return read_table(data, labels, **reading)
    columns = {name: reading.get(name) for name in ("embedding_column", "label_column", "text_column")}
    encoder = reading.get("encoder")
    for name, value in {"labels": labels, "encoder": encoder and encoder.name, **columns}.items():
        if value is not None and (name, value) != ("label_column", NO_COLUMN):
            said = f"{name} is {str(value)!r} and data is {str(data)!r}, which has embeddings and labels of its own"
            raise ValueError(f"{said}; leave one of the two out")
    table = DATASETS[str(data)]()
    return table if columns["label_column"] is None else replace(table, labels=None, class_names=())


def _file_in(folder: Path, split: str) -> Path:
    found = next((file for suffix in SUFFIXES if (file := folder / f"{split}{suffix}").is_file()), None)
    if found is None:
        raise ValueError(f"data is {str(folder)!r}, which has no file {split} ({', '.join(SUFFIXES)})")
    return found
