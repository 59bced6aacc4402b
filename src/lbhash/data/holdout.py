"""Rows of the training part that are kept from training, to judge settings by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lbhash.data.dataset import Dataset, Part
from lbhash.labels import check_labels


def hold_out(part: Part, share: float = 0.2, seed: int = 0) -> tuple[Part, Part]:
    """Split a training part in two: the rows to fit, and those that are held out.

    Of every class the same share is held out, at least one row where it has two, and never its last. With several
    labels a row a draw by class has no meaning, and the share is drawn from all rows.

    Args:
        part: with labels; its queries and base stay out of it, for they judge what was chosen.
        share: of each class's rows, above 0 and below 1.
        seed: of the draw.

    Returns:
        The rows to fit and the held-out rows, in the order of ``part``, without a copy of their embeddings.

    Raises:
        TypeError: ``share`` is not a number.
        ValueError: it is out of range, ``part`` has no labels, or no row can be held out.
    """
    if isinstance(share, bool) or not isinstance(share, (int, float, np.number)):
        raise TypeError(f"held_out is {share!r}; it must be a number above 0 and below 1")
    if not 0 < share < 1:
        raise ValueError(f"held_out is {share}; it must be above 0 and below 1")
    if part.labels is None:
        raise ValueError("part has no labels; tuning needs one for each row")
    labels = check_labels(part.labels, "labels of part")
    rng = np.random.default_rng(seed)
    held = np.zeros(len(labels), bool)
    for rows in _groups(labels):
        count = min(len(rows) - 1, max(1, round(share * len(rows))))
        held[rng.permutation(rows)[:count]] = True
    if held.sum() < 2:
        raise ValueError(f"part has {len(labels)} rows, of which {held.sum()} can be held out; tuning needs two")
    return _rows(part, ~held), _rows(part, held)


def validation_dataset(data: Dataset, seed: int = 0) -> Dataset:
    """Train, base and query cut from the training rows: 60, 30 and 10 % of every class.

    What is chosen by these has never seen a query of ``data``.
    """
    train, rest = hold_out(data.train, 0.4, seed)
    base, query = hold_out(rest, 0.25, seed)
    return Dataset(f"{data.name}, validation", "validation", train, base, query)


def _groups(labels: npt.NDArray) -> list[npt.NDArray[np.int64]]:
    """The rows of every group that is drawn from on its own."""
    if labels.ndim == 2:
        return [np.arange(len(labels))] if len(labels) else []
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


def _rows(part: Part, chosen: npt.NDArray[np.bool_]) -> Part:
    assert part.labels is not None
    return replace(part, rows=part.rows[chosen], labels=part.labels[chosen])
