"""A data set: its train, base and query splits under one protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from lbhash.data.split import Split, classes_of
from lbhash.utils.labels import has_label
from lbhash.utils.validation import check_choice

SPLITS = ("train", "base", "query")

SplitT_co = TypeVar("SplitT_co", bound=Split, covariant=True)


@dataclass(frozen=True)
class Dataset(Generic[SplitT_co]):
    """Train, base and query of one data set under one protocol: splits of embeddings or of images.

    Raises:
        ValueError: a split is empty; only some splits have labels, or one has none in any row; or splits differ in the
            kind of labels or in dimension.

    >>> from lbhash import load_dataset
    >>> digits = load_dataset("digits")
    >>> digits.classes, digits.train.labels.shape
    (10, (800,))
    """

    name: str
    protocol: str
    train: SplitT_co
    base: SplitT_co
    query: SplitT_co
    class_names: Sequence[Any] = ()  # the class of each label number; if left out, the numbers themselves

    def __post_init__(self) -> None:
        for name in SPLITS:
            split = self.split(name)
            if not len(split):
                raise ValueError(f"the {name} split of {self.name} has no row")
            if (split.labels is None) != (self.train.labels is None):
                without, other = (name, "train") if split.labels is None else ("train", name)
                raise ValueError(f"the {without} split of {self.name} has no labels, and the {other} split has")
            if np.asarray(split.labels).ndim != np.asarray(self.train.labels).ndim:
                raise ValueError(
                    f"the {name} split and the train split have different kinds of labels: one has several a row"
                )
            if not split.needs_backbone and split.input_dim() != self.train.input_dim():
                raise ValueError(
                    f"embeddings of the {name} split have {split.input_dim()} numbers and those of the train split "
                    f"{self.train.input_dim()}; they must be equal"
                )
        if self.train.labels is None:
            return
        object.__setattr__(self, "class_names", self.class_names or range(self.classes))
        for name in SPLITS:
            if not has_label(np.asarray(self.split(name).labels)).any():
                raise ValueError(
                    f"no row of the {name} split of {self.name} has a label; give some, or none to any split"
                )

    def __repr__(self) -> str:
        rows = ", ".join(f"{len(self.split(name)):,} {name}" for name in SPLITS)
        labels = "no labels" if self.train.labels is None else f"{self.classes} classes"
        return f"Dataset({self.name}, {self.protocol}: {rows} rows; {labels})"

    def split(self, name: str) -> SplitT_co:
        """Return the split of that name: train, base or query."""
        return getattr(self, check_choice(name, "split", SPLITS))

    def check_several_classes(self) -> None:
        """Raise ``ValueError`` if all training rows have the same one label."""
        if self.train.labels is None:
            return
        classes = classes_of(np.asarray(self.train.labels))
        if len(classes) == 1:
            name = self.class_names[classes[0]]
            raise ValueError(
                f"every training row of {self.name} has the label {name}; there is nothing to learn from one class: "
                "give the right one as label_column"
            )

    def trained_base(self) -> npt.NDArray[np.bool_]:
        """Return which base rows are trained on, ``bool [n]``.

        Splits of one table are compared by row numbers, splits of several files by the values of their embeddings.
        """
        train: Any = self.train
        base: Any = self.base
        if train.needs_backbone or train.embeddings is base.embeddings:
            return np.isin(base.rows, train.rows)
        return np.isin(_row_hashes(base), _row_hashes(train))

    @property
    def multi_label(self) -> bool:
        """Whether a row may have several labels."""
        return np.asarray(self.train.labels).ndim == 2

    @property
    def classes(self) -> int:
        """C, the number of classes: one more than the largest label; 0 without labels."""
        if self.train.labels is None:
            return 0
        labels = [np.asarray(self.split(name).labels) for name in SPLITS]
        return max(one.shape[1] if one.ndim == 2 else int(one.max()) + 1 for one in labels)


def _row_hashes(split: Split) -> npt.NDArray[np.uint64]:
    """Return a hash of each row of embeddings, ``uint64 [n]``; equal rows share it, others almost surely do not."""
    weights = np.random.default_rng(0).integers(1, 2**64, split.input_dim(), dtype=np.uint64)
    return np.concatenate(
        [(chunk + np.float32(0)).view(np.uint32).astype(np.uint64) @ weights for chunk in split.chunks()]
    )
