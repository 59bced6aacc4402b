"""Protocols of data sets that were published in parts: a training set, and a test or validation set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class PartProtocol:
    """A rule that draws the splits from the parts of a data set.

    Attributes:
        summary: the rule in words.
        base: the part that is the base. The training rows are of the training part.
        train: rows of each class drawn for training; ``None`` for all.
        query: rows of each class drawn from the held part as queries; ``None`` for all of it.
    """

    summary: str
    base: Literal["train", "held"]
    train: int | None = None
    query: int | None = None

    def split(
        self, labels: npt.NDArray, parts: dict[str, npt.NDArray[np.bool_]], seed: int
    ) -> dict[str, npt.NDArray[np.int64]]:
        """Positions of the train, base and query rows, in the order of the rows.

        Args:
            labels: ``int64 [n]``; multi-hot ``[n, C]`` where nothing is drawn.
            parts: ``train`` and ``held``, ``bool [n]`` each.
            seed: of the draws.

        Raises:
            ValueError: a class has too few rows, nothing is left for the base, or the seed is negative.
        """
        if seed < 0:
            raise ValueError(f"the seed of the split is {seed}; it must be at least 0")
        rng = np.random.default_rng(seed)
        query = _drawn(labels, parts["held"], self.query, "query", rng)
        train = _drawn(labels, parts["train"], self.train, "train", rng)
        base = parts[self.base].copy()
        base[query] = False
        if not base.any():
            raise ValueError("the queries take all of the held part, and leave no base; the protocol needs more rows")
        return {"train": train, "base": np.flatnonzero(base), "query": query}


PART_PROTOCOLS = {
    "official": PartProtocol("the test or validation set is query, the training set base and train", "train"),
    "imagenet100": PartProtocol("the validation set is query, the training set base, 100 a class train", "train", 100),
    "imagenet1000": PartProtocol("5 a class of the validation set are query, 45 base; all train", "held", None, 5),
}
"""The protocols by name."""


def _drawn(
    labels: npt.NDArray, part: npt.NDArray[np.bool_], count: int | None, split: str, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """All rows of a part, or ``count`` of each class."""
    rows = np.flatnonzero(part)
    if count is None:
        return rows
    if labels.ndim == 2:
        raise ValueError("the protocol draws by class, and the data have several labels a row")
    drawn = []
    for label in np.unique(labels[rows]):
        of_class = rows[labels[rows] == label]
        if len(of_class) < count:
            raise ValueError(f"class {label} has {len(of_class)} rows to draw the {split} rows from; it needs {count}")
        drawn.append(rng.permutation(of_class)[:count])
    return np.sort(np.concatenate(drawn))
