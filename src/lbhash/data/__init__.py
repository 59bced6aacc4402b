"""Data sets and their splits, by name or from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lbhash.data.dataset import SPLITS, Dataset
from lbhash.data.holdout import hold_out, validation_dataset
from lbhash.data.protocols import PROTOCOLS, TRAIN_TEST_PROTOCOLS, Protocol, TrainTestProtocol
from lbhash.data.readers import SUFFIXES, check_embeddings, read_table
from lbhash.data.split import EmbeddingSplit, Split, TrainingRows
from lbhash.data.table import EmbeddingTable, Table, check_protocol


def digits() -> EmbeddingTable:
    """1,797 images of 8 × 8 gray values from 0 to 16, as ``uint8 [1797, 64]``, with their digits as labels.

    Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI 1998, as scikit-learn ships it.
    """
    from sklearn.datasets import load_digits

    data, target = load_digits(return_X_y=True)
    return EmbeddingTable(data.astype(np.uint8), target.astype(np.int64), "digits", protocol="digits")


DATASETS = {"digits": digits}
"""The data sets that need no file, by name."""


def load_dataset(
    data: str | Path,
    *,
    base: str | Path | None = None,
    query: str | Path | None = None,
    labels: str | Path | None = None,
    protocol: str | None = None,
    seed: int = 0,
    stream: bool = False,
) -> Dataset[EmbeddingSplit]:
    """Return train, base and query of a data set of embeddings.

    Args:
        data: ``"digits"``; a file (``read_table``); or a folder with the files ``train``, ``base`` and ``query``.
        base: a file of the base rows; ``data`` then holds the training rows alone.
        query: a file of the query rows, together with ``base``.
        labels: an ``.npy`` with the labels of the file ``data``.
        protocol: a name of ``PROTOCOLS``, for one file. If None, the file's own flags count, and ``holdout`` if it
            has none.
        seed: of the protocol's sample.
        stream: as for ``read_table``.

    Raises:
        ValueError: arguments that do not go together, or what ``read_table`` and ``Dataset`` refuse.
    """
    files = load_files(data, base=base, query=query, labels=labels, protocol=protocol, stream=stream)
    if files is None:
        return load_table(data, labels, stream=stream).dataset(protocol, seed)
    return Dataset(Path(data).name, "files", **files)


def load_files(
    data: str | Path,
    *,
    base: str | Path | None = None,
    query: str | Path | None = None,
    labels: str | Path | None = None,
    protocol: str | None = None,
    stream: bool = False,
) -> dict[str, EmbeddingSplit] | None:
    """Return the splits of a data set that has a file for each; None if it is one file, or has a name.

    The arguments and errors are those of ``load_dataset``; labels may be missing.
    """
    check_protocol(protocol)
    if (base is None) != (query is None):
        raise ValueError("base and query go together: give both files, or neither")
    folder = Path(data).is_dir()
    if protocol is not None and (base is not None or folder):
        files = f"base is {str(base)!r}" if base is not None else f"data is the folder {str(data)!r}"
        raise ValueError(f"protocol is {protocol!r} and {files}, whose files are the splits; give one of the two")
    if labels is not None and folder:
        raise ValueError(
            f"labels is {str(labels)!r} and data is the folder {str(data)!r}, whose files have labels of their own "
            "(for an .npy, train_labels.npy and so on beside it); give labels with a file only"
        )
    if base is not None and query is not None:
        tables = [read_table(data, labels, stream=stream)]
        tables += [read_table(path, name=name, stream=stream) for name, path in (("base", base), ("query", query))]
    elif folder:
        tables = [read_table(_file_in(Path(data), split), name=split, stream=stream) for split in SPLITS]
    else:
        return None
    classes = max((t.labels.shape[1] for t in tables if t.labels is not None and t.labels.ndim == 2), default=0)
    return {split: table.split().widened(classes) for split, table in zip(SPLITS, tables, strict=True)}


def load_table(data: str | Path, labels: str | Path | None = None, *, stream: bool = False) -> EmbeddingTable:
    """Return all rows of a data set by name or from a file; ``stream`` as for ``read_table``."""
    if str(data) not in DATASETS:
        return read_table(data, labels, stream=stream)
    if labels is not None:
        raise ValueError(f"labels is {str(labels)!r} and data is {str(data)!r}, which has labels of its own; give one")
    return DATASETS[str(data)]()


def _file_in(folder: Path, split: str) -> Path:
    found = next((file for suffix in SUFFIXES if (file := folder / f"{split}{suffix}").is_file()), None)
    if found is None:
        raise ValueError(f"data is {str(folder)!r}, which has no file {split} ({', '.join(SUFFIXES)})")
    return found


__all__ = ["DATASETS", "PROTOCOLS", "SPLITS", "TRAIN_TEST_PROTOCOLS", "Dataset", "EmbeddingSplit", "EmbeddingTable"]
__all__ += ["Protocol", "Split", "Table", "TrainTestProtocol", "TrainingRows", "check_embeddings", "hold_out"]
__all__ += ["load_dataset", "load_files", "load_table", "validation_dataset"]
