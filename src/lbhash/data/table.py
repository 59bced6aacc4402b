"""Tables: all rows of a file or folder, and their splits into a data set."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from lbhash.data.dataset import SPLITS, Dataset
from lbhash.data.protocols import PROTOCOLS, TRAIN_TEST_PROTOCOLS, UnseenProtocol
from lbhash.data.split import EmbeddingSplit, SplitT
from lbhash.utils.labels import has_label, own_classes
from lbhash.utils.validation import check_choice, check_int

TableT = TypeVar("TableT", bound="Table[Any]")


@dataclass(frozen=True)
class Table(ABC, Generic[SplitT]):
    """Rows of embeddings or of images, as a file or a folder holds them."""

    content: Any  # embeddings [n, dim], or an image store
    labels: npt.NDArray | None  # class numbers int64 [n] (or UNLABELED), or multi-hot uint8 [n, C]; None without labels
    name: str  # where the rows come from, for messages
    flags: dict[str, npt.NDArray[np.bool_]] = field(default_factory=dict)  # by split [n], if the data mark the rows
    test_rows: npt.NDArray[np.bool_] | None = None  # [n], the published test or validation set
    protocol: str = "holdout"  # if neither flags nor the user choose the splits
    class_names: Sequence[Any] = ()  # the class of each label number; if left out, the numbers themselves
    damaged: npt.NDArray[np.bool_] | None = None  # [n], rows that are in no split

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_names", self.class_names or own_classes(self.labels))

    def __len__(self) -> int:
        return len(self.content)

    def __repr__(self) -> str:
        labels = "no labels" if self.labels is None else f"{len(self.class_names)} classes"
        return f"{type(self).__name__}({self.name}, {len(self):,} rows, {labels})"

    @property
    def has_splits(self) -> bool:
        """Whether the data bring their own splits: flags, a published test set or a protocol."""
        return bool(self.flags) or self.test_rows is not None or self.protocol != "holdout"

    def where(self, row: int) -> str:
        """Return the name of a row for messages."""
        return f"row {row} of {self.name}"

    @abstractmethod
    def split(self, rows: npt.NDArray[np.int64] | None = None) -> SplitT:
        """Return these rows as a split; if None, all that are not damaged."""

    def split_rows(self, protocol: str | None = None, seed: int = 0) -> tuple[str, dict[str, npt.NDArray[np.int64]]]:
        """Return the name of the protocol and its train, base and query rows.

        In partly labeled data, the protocols of ``PROTOCOLS`` make no query of a row without a label. Such rows are
        train, and also base if the protocol's base includes train rows.

        Args:
            protocol: a name of ``PROTOCOLS``, or of ``TRAIN_TEST_PROTOCOLS`` for a table with a published test set. If
                None, the table's flags count, or else its own protocol. A table without labels allows only ``official``
                and ``holdout``, which then samples all rows as one class. All rows but the queries are both train and
                base, because the number of rows affects how many neighbors codes keep.
            seed: seed of the sample.
        """
        protocol, seed = check_protocol(protocol), check_int(seed, "the seed of the split")
        rows = self.sound()
        if protocol is None and self.flags:
            self._check_flags()
            return "flags", {split: rows[self.flags[split][rows]] for split in SPLITS}
        chosen = protocol or self.protocol
        if self.labels is None and chosen not in ("holdout", "official"):
            said = f"protocol is {chosen!r}, which samples by class, and {self.name} has no labels"
            raise ValueError(f"{said}; give them as a column, an array or a file, or leave the protocol out")
        labels = np.zeros(len(rows), np.int64) if self.labels is None else self.labels[rows]
        published = self.test_rows is not None and chosen in TRAIN_TEST_PROTOCOLS
        known = has_label(labels)
        if not known.all() and isinstance(PROTOCOLS.get(chosen), UnseenProtocol):
            said = f"protocol is {chosen!r}, and {len(known) - known.sum():,} rows of {self.name} have no label"
            raise ValueError(f"{said}; leave them out, or mark the rows by the columns in_train, in_base and in_query")
        try:
            if published and self.test_rows is not None:
                found = TRAIN_TEST_PROTOCOLS[chosen].split(labels, self.test_rows[rows], seed)
            elif chosen in PROTOCOLS:
                found = _with_unlabeled(PROTOCOLS[chosen], labels, known, seed)
            else:
                raise ValueError(
                    f"protocol is {chosen!r}, which needs a training set and a test or validation set; {self.name} "
                    "is one set"
                )
        except ValueError as error:
            line = re.sub(r"^class (\d+) ", self._class_of, str(error))
            if protocol is not None:
                raise ValueError(line) from None
            said = f"protocol is {chosen!r}, the default of such data: {line} (or another protocol)"
            raise ValueError(said) from None
        if self.labels is None and chosen == "holdout":
            found["train"] = found["base"] = np.delete(np.arange(len(rows)), found["query"])
        return chosen, {split: rows[found[split]] for split in SPLITS}

    def dataset(self, protocol: str | None = None, seed: int = 0) -> Dataset[SplitT]:
        """Return the data set of the splits that ``split_rows`` makes with these arguments."""
        chosen, rows = self.split_rows(protocol, seed)
        return Dataset(
            self.name, chosen, **{split: self.split(rows[split]) for split in SPLITS}, class_names=self.class_names
        )

    def without(self: TableT, damaged: Collection[int]) -> TableT:
        """Return the same table with these rows marked as damaged."""
        return replace(self, damaged=np.isin(np.arange(len(self)), list(damaged)))

    def sound(self) -> npt.NDArray[np.int64]:
        """Return the rows that are not damaged."""
        return np.arange(len(self)) if self.damaged is None else np.flatnonzero(~self.damaged)

    def _class_of(self, number: re.Match[str]) -> str:
        return f"class {self.class_names[int(number[1])]!r} "

    def _check_flags(self) -> None:
        missing = [split for split in SPLITS if split not in self.flags]
        if missing:
            said = f"{self.name} has no flag in_{missing[0]}"
            raise ValueError(f"{said}; it must have one for train, base and query, or none")
        for split in ("train", "base"):
            both = self.flags["query"] & self.flags[split]
            if both.any():
                said = f"{self.where(int(np.argmax(both)))} is in query and in {split} ({both.sum()} rows are)"
                raise ValueError(f"{said}; a query must be in no other split, or it finds itself")


@dataclass(frozen=True, repr=False)
class EmbeddingTable(Table[EmbeddingSplit]):
    """Rows of embeddings ``[n, dim]``: in memory, or read on access (``lbhash.data.streamed``).

    They are used as float32, which keeps seven digits: center float64 values that vary by less beforehand.
    """

    @property
    def embeddings(self) -> npt.NDArray:
        """The embeddings."""
        return self.content

    def split(self, rows: npt.NDArray[np.int64] | None = None) -> EmbeddingSplit:
        """Return these rows as a split; if None, all that are not damaged."""
        rows = self.sound() if rows is None else rows
        return EmbeddingSplit(self.embeddings, rows, None if self.labels is None else self.labels[rows])


def _with_unlabeled(
    protocol: Any, labels: npt.NDArray, known: npt.NDArray[np.bool_], seed: int
) -> dict[str, npt.NDArray[np.int64]]:
    """Return a protocol's splits of labeled rows; unlabeled rows join train, and base if it includes train rows."""
    if known.all():
        return protocol.split(labels, seed)
    labeled, others = np.flatnonzero(known), np.flatnonzero(~known)
    found = {split: labeled[rows] for split, rows in protocol.split(labels[known], seed).items()}
    taking = ("train",) if protocol.disjoint else ("train", "base")
    return found | {split: np.sort(np.concatenate([found[split], others])) for split in taking}


def check_protocol(protocol: str | None) -> str | None:
    """Return the name of a protocol in its exact spelling, or None; ``ValueError`` if there is no such protocol."""
    return protocol and check_choice(protocol, "protocol", list({**PROTOCOLS, **TRAIN_TEST_PROTOCOLS}))
