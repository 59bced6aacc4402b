"""Held-out (validation) rows: training rows that are not trained on, so that settings can be judged by them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lbhash.data.dataset import Dataset
from lbhash.data.split import EmbeddingSplit, SplitT
from lbhash.utils.labels import has_label
from lbhash.utils.validation import check_float


def hold_out(split: SplitT, share: float = 0.2, seed: int = 0, *, purpose: str = "tuning") -> tuple[SplitT, SplitT]:
    """Divide a training split into rows to train on and held-out rows, each in the order of the split.

    Each class holds out the same ``share``, above 0 and below 1: at least one row if it has two, but never all of them.
    Rows without a label are never held out. With several labels a row, the share is sampled from all rows. ``purpose``
    appears in messages. Raises ``TypeError`` or ``ValueError`` if the share is out of range, the split has no labels,
    or fewer than two rows can be held out.
    """
    validation = validation_rows(split.labels, share, seed, purpose=purpose)
    return split.where(~validation), split.where(validation)


def validation_rows(
    labels: npt.NDArray | None, share: float, seed: int, *, name: str = "held_out", purpose: str = "tuning"
) -> npt.NDArray[np.bool_]:
    """Return which of the rows with these labels ``hold_out`` holds out, ``bool [n]``."""
    share = check_float(share, name, above=0, below=1)
    if labels is None:
        raise ValueError(f"split has no labels; {purpose} needs one for each row")
    if isinstance(labels, np.ndarray) and not (known := has_label(labels)).all():
        chosen = np.zeros(len(labels), bool)
        chosen[known] = validation_rows(labels[known], share, seed, name=name, purpose=purpose)
        return chosen
    labels = np.asarray(labels)
    rng = np.random.default_rng(seed)
    chosen = np.zeros(len(labels), bool)
    for label in [None] if labels.ndim == 2 else np.unique(labels):
        rows = np.arange(len(labels)) if label is None else np.flatnonzero(labels == label)
        count = max(0, min(len(rows) - 1, max(1, round(share * len(rows)))))
        chosen[rng.permutation(rows)[:count]] = True
    if chosen.sum() < 2:
        raise ValueError(
            f"split has {len(labels)} rows, of which {chosen.sum()} can be for validation; {purpose} needs two"
        )
    return chosen


def validation_dataset(data: Dataset[EmbeddingSplit], seed: int = 0) -> Dataset[EmbeddingSplit]:
    """Return train, base and query cut from the training rows: 60, 30 and 10 % of every class.

    Settings chosen on them have never seen a query of ``data``. If the base of ``data`` includes training rows, the new
    base also includes new training rows, sampled at random to the same share of the base.
    """
    train, rest = hold_out(data.train, 0.4, seed, purpose="validation")
    base, query = hold_out(rest, 0.25, seed, purpose="validation")
    if data.train.embeddings is data.base.embeddings:  # rows of different tables are never the same
        share = float(np.isin(data.base.rows, data.train.rows).mean())
        count = len(train) if share == 1 else min(len(train), round(len(base) * share / (1 - share)))
        added = train.subsample(count, seed)
        labels = np.concatenate([np.asarray(base.labels), np.asarray(added.labels)])
        base = base.with_rows(np.concatenate([base.rows, added.rows]), labels)
    return Dataset(f"{data.name}, validation", "validation", train, base, query, data.class_names)
