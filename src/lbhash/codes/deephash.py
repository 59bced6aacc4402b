"""Codes of DeepHash-pytorch: the four arrays that it saves with its best model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from lbhash.codes import as_packed
from lbhash.codes.io import CodeTable
from lbhash.utils.files import read_npy
from lbhash.utils.labels import check_labels

FILES = ("tst_binary", "tst_label", "trn_binary", "trn_label")


def read_deephash(folder: str | Path) -> tuple[CodeTable, CodeTable]:
    """Read the queries (``tst``) and the base (``trn``) of a run of DeepHash-pytorch.

    The folder has the files ``tst_binary.npy`` and ``trn_binary.npy`` (±1, ``[n, bits]``; a 0 counts as +1) and
    ``tst_label.npy`` and ``trn_label.npy`` (one-hot or multi-hot ``[n, C]``). All four names may have the same prefix:
    older versions put the data set and the mAP there. The labels become class numbers if every row of both has exactly
    one label. It is an error if a file is missing or holds something else, or if there are several sets of files.
    """
    path = Path(folder)
    if not path.is_dir():
        raise ValueError(f"deephash is {str(folder)!r}, and there is no such folder")
    found = sorted(file.name.removesuffix("tst_binary.npy") for file in path.glob("*tst_binary.npy"))
    if len(found) != 1:
        what = f"{len(found)} files that end" if found else "no file that ends"
        raise ValueError(f"deephash is {str(folder)!r}, which has {what} in tst_binary.npy; it must have one")
    arrays = {kind: read_npy(path / f"{found[0]}{kind}.npy", f"{kind} of deephash") for kind in FILES}
    tables = []
    single = all(_one_hot(arrays[f"{split}_label"]) for split in ("tst", "trn"))
    for split in ("tst", "trn"):
        codes, bits = as_packed(arrays[f"{split}_binary"], name=f"{split}_binary of deephash")
        labels = check_labels(arrays[f"{split}_label"], f"{split}_label of deephash")
        if len(labels) != len(codes):
            raise ValueError(
                f"deephash has {len(codes)} codes in {split}_binary and {len(labels)} rows in {split}_label"
            )
        labels = labels.argmax(axis=1).astype(np.int64) if single else labels
        tables.append(CodeTable(codes, bits, np.arange(len(codes)), labels))
    return tables[0], tables[1]


def _one_hot(labels: npt.NDArray) -> bool:
    return labels.ndim == 2 and bool(np.isin(labels, (0, 1)).all() and (labels.sum(axis=1) == 1).all())
