"""A data set: its train, base and query splits under one protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from lbhash.data.split import Split, classes_of
from lbhash.utils.labels import has_label
from lbhash.utils.validation import check_choice

SPLITS = ("train", "base", "query")

SplitT_co = TypeVar("SplitT_co", bound=Split, covariant=True)


@dataclass(frozen=True)
class Dataset(Generic[SplitT_co]):
    """Train, base and query of one data set under one protocol: splits of embeddings or of images.

    Raises:
        ValueError: a split is empty, the splits differ in having labels, in their kind or in dimension, or some
            classes of the training split have queries and others none, so that no figure would tell how those are
            found. (Where none has, the figures are of classes that the model has never seen.)
    """

    name: str
    protocol: str
    train: SplitT_co
    base: SplitT_co
    query: SplitT_co
    class_names: tuple[str, ...] = ()  # by number, if the classes have names

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
        for name in SPLITS:
            if not has_label(np.asarray(self.split(name).labels)).any():
                raise ValueError(
                    f"no row of the {name} split of {self.name} has a label; give some, or none to any split"
                )
        trained = classes_of(np.asarray(self.train.labels))
        absent = np.setdiff1d(trained, classes_of(np.asarray(self.query.labels)))
        if 0 < len(absent) < len(trained):
            first = self.class_names[absent[0]] if self.class_names else absent[0]
            raise ValueError(
                f"class {first} has no query in {self.name} ({len(absent)} of {self.classes} classes have none); "
                "every class of the train split must have one: leave such a class out, or mark one of its rows in_query"
            )

    def split(self, name: str) -> SplitT_co:
        """Return the split of that name: train, base or query."""
        return getattr(self, check_choice(name, "split", SPLITS))

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
