"""Rows of the training part that are kept from training, to judge settings by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lbhash.data.dataset import Dataset
from lbhash.data.split import EmbeddingSplit
from lbhash.utils.labels import check_labels


def hold_out(
    part: EmbeddingSplit, share: float = 0.2, seed: int = 0, *, name: str = "held_out", purpose: str = "tuning"
) -> tuple[EmbeddingSplit, EmbeddingSplit]:
    """Split a training part in two: the rows to fit, and those that are held out.

    Of every class the same share is held out, at least one row where it has two, and never its last. With several
    labels a row a draw by class has no meaning, and the share is drawn from all rows.

    Args:
        part: with labels; its queries and base stay out of it, for they judge what was chosen.
        share: of each class's rows, above 0 and below 1.
        seed: of the draw.
        name: of the share, in messages.
        purpose: of the held-out rows, in messages.

    Returns:
        The rows to fit and the held-out rows, in the order of ``part``, without a copy of their embeddings.

    Raises:
        TypeError: ``share`` is not a number.
        ValueError: it is out of range, ``part`` has no labels, or no row can be held out.
    """
    held = held_rows(part.labels, share, seed, name=name, purpose=purpose)
    return part.where(~held), part.where(held)


def held_rows(
    labels: npt.NDArray | None, share: float, seed: int, *, name: str = "held_out", purpose: str = "tuning"
) -> npt.NDArray[np.bool_]:
    """Which rows of these labels are held out, ``bool [n]``; arguments and errors as of ``hold_out``."""
    if isinstance(share, bool) or not isinstance(share, (int, float, np.number)):
        raise TypeError(f"{name} is {share!r}; it must be a number above 0 and below 1")
    if not 0 < share < 1:
        raise ValueError(f"{name} is {share}; it must be above 0 and below 1")
    if labels is None:
        raise ValueError(f"part has no labels; {purpose} needs one for each row")
    labels = check_labels(labels, "labels of part")
    rng = np.random.default_rng(seed)
    held = np.zeros(len(labels), bool)
    for rows in _groups(labels):
        count = min(len(rows) - 1, max(1, round(share * len(rows))))
        held[rng.permutation(rows)[:count]] = True
    if held.sum() < 2:
        raise ValueError(f"part has {len(labels)} rows, of which {held.sum()} can be held out; {purpose} needs two")
    return held


def validation_dataset(data: Dataset[EmbeddingSplit], seed: int = 0) -> Dataset[EmbeddingSplit]:
    """Train, base and query cut from the training rows: 60, 30 and 10 % of every class.

    What is chosen by these has never seen a query of ``data``. Where the base of ``data`` holds training rows, this one
    does, too: as many of the rows that are trained on, drawn at random, as give them the same share of the base.
    """
    train, rest = hold_out(data.train, 0.4, seed, purpose="validation")
    base, query = hold_out(rest, 0.25, seed, purpose="validation")
    share = _share_of_training_rows(data)
    if share:
        count = len(train) if share == 1 else min(len(train), round(len(base) * share / (1 - share)))
        chosen = np.zeros(len(train), bool)
        chosen[np.random.default_rng(seed).permutation(len(train))[:count]] = True
        base = _joined(base, train.where(chosen))
    return Dataset(f"{data.name}, validation", "validation", train, base, query)


def _joined(one: EmbeddingSplit, other: EmbeddingSplit) -> EmbeddingSplit:
    """The rows of both, which are labeled and of one table."""
    assert one.labels is not None
    assert other.labels is not None
    labels = np.concatenate([one.labels, other.labels])
    return replace(one, rows=np.concatenate([one.rows, other.rows]), labels=labels)


def _share_of_training_rows(data: Dataset[EmbeddingSplit]) -> float:
    """Of the base's rows; rows of different tables are never the same."""
    if data.train.embeddings is not data.base.embeddings or not len(data.base):
        return 0.0
    return float(np.isin(data.base.rows, data.train.rows).mean())


def _groups(labels: npt.NDArray) -> list[npt.NDArray[np.int64]]:
    """The rows of every group that is drawn from on its own."""
    if labels.ndim == 2:
        return [np.arange(len(labels))] if len(labels) else []
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]
