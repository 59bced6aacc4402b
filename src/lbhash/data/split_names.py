"""Find splits by the names of folders, files and parts of ``datasets``, or by the words of a column."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from lbhash.data.dataset import SPLITS

NAMES = {
    "train": ("train", "training"),
    "base": ("base", "database", "gallery"),
    "query": ("query", "queries"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing"),
}
"""The names of each split and each published set, in any case."""

_KINDS = {name: kind for kind, names in NAMES.items() for name in names}


def is_known(name: str) -> bool:
    """Return whether a part of this name may be a split or a published set."""
    return name.lower() in _KINDS


def splits_of(names: Collection[str]) -> dict[str, str]:
    """Return the split of each part by its name: train, base, query, or "test" for the published set of queries.

    The names must include all three splits, or ``train`` with a validation set, a test set or both; with both, the
    validation set is trained on. Parts with other names are left out; if no rule applies, the result is empty. The
    order is that of ``NAMES``.

    >>> splits_of(["Train", "valid"])
    {'Train': 'train', 'valid': 'test'}
    >>> splits_of(["train", "dev", "test"])
    {'train': 'train', 'dev': 'train', 'test': 'test'}
    """
    kinds = {name: kind for kind, known in NAMES.items() for name in names if name.lower() in known}
    found = set(kinds.values())
    if found.issuperset(SPLITS):
        return {name: kind for name, kind in kinds.items() if kind in SPLITS}
    held_out = "test" if "test" in found else "validation"
    if not {"train", held_out} <= found <= {"train", "validation", "test"}:
        return {}
    return {name: "test" if kind == held_out else "train" for name, kind in kinds.items()}


def split_masks(
    names: Sequence[str], part_of: npt.NDArray[np.int64], of: str, labeled: npt.NDArray[np.bool_] | None = None
) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which rows of these parts are in each split, or in the published test set.

    The result is empty unless ``splits_of`` knows all names. If a validation set is trained on, a line on standard
    error says so. If no row of the test set has a label, the validation set joins the test set instead.

    Args:
        names: names of the parts; they may repeat.
        part_of: the part of each row, as a position in ``names``, ``int [n]``.
        of: name of the data, for the line.
        labeled: which rows have a label, ``bool [n]``; None if all have one, or none.
    """
    splits = splits_of(names)
    if not splits or not splits.keys() >= set(names):
        return {}
    validation = [name for name in splits if splits[name] == "train" and _KINDS[name.lower()] == "validation"]
    masks = {split: np.array([splits[name] == split for name in names])[part_of] for split in splits.values()}
    if validation and labeled is not None and not labeled[masks["test"]].any():
        masks["train"] = np.array([_KINDS[name.lower()] == "train" for name in names])[part_of]
        masks["test"] = ~masks["train"]
    elif validation:
        test = ", ".join(name for name in splits if splits[name] == "test")
        said = f"{of} has the parts {', '.join(splits)}: the queries are those of {test}"
        print(f"{said}, and {', '.join(validation)} counts as train", file=sys.stderr)
    return masks
