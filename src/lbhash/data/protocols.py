"""Protocols: rules that split rows into train, base and query, by name and seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from lbhash.utils.labels import has_label
from lbhash.utils.validation import check_float, check_int


@dataclass(frozen=True)
class Protocol:
    """A rule that samples the splits from each class.

    With several labels a row, the same number of rows is sampled from all rows instead. If a label then has no query,
    one of its rows replaces a query that can be spared. (If the label has only this row, it is a query and the label is
    not trained.)
    """

    query: int  # rows of each class that are queries
    train: int | None  # rows of each class to train on; if None, the whole base
    disjoint: bool = False  # whether the training rows are kept out of the base

    def split(self, labels: npt.NDArray, seed: int) -> dict[str, npt.NDArray[np.int64]]:
        """Return the positions of the train, base and query rows, in the order of the rows.

        ``labels`` are ``int64 [n]``, or multi-hot ``[n, C]``; raises ``ValueError`` if a class has too few rows.
        """
        rng = np.random.default_rng(check_int(seed, "the seed of the split"))
        if labels.ndim == 2:
            groups = [("the data set", np.arange(len(labels)), labels.shape[1])]
        else:
            groups = [(f"class {label}", np.flatnonzero(labels == label), 1) for label in np.unique(labels)]
        found: dict[str, list[npt.NDArray[np.int64]]] = {"train": [], "base": [], "query": []}
        for name, rows, classes in groups:  # each group is sampled separately
            queries = self.query * classes
            trains = 0 if self.train is None else self.train * classes
            if len(rows) <= queries + trains:
                raise ValueError(
                    f"{name} has {len(rows)} rows; the protocol needs more than {queries + trains} "
                    f"({queries} queries, {trains} to train): add rows, leave it out, or say by the columns "
                    "in_train, in_base and in_query which rows are which"
                )
            order = rng.permutation(rows)
            if labels.ndim == 2:
                order = _with_a_query_each(order, queries, labels)
            rest = order[queries:]
            found["query"].append(order[:queries])
            found["train"].append(rest if self.train is None else rest[:trains])
            found["base"].append(rest[trains:] if self.disjoint else rest)
        return {split: np.sort(np.concatenate(rows)) for split, rows in found.items()}


class HoldoutProtocol:
    """The rule for data without splits: queries, base rows that are not trained on, and training rows.

    A class of 3 to 9 rows gives one query and one base row; a smaller class only trains, so that it causes no error.
    With several labels a row, the same number is sampled from all rows. A label with three or more rows then gets a
    query and a base row if possible; rows with a rarer label train if there are enough others.
    """

    share = 0.1  # of each class: one share is queries, another is base, and the rest trains
    disjoint = True  # no base row is trained on

    def split(self, labels: npt.NDArray, seed: int) -> dict[str, npt.NDArray[np.int64]]:
        """Split rows as ``Protocol.split`` does; raises ``ValueError`` if no class has three rows."""
        rng = np.random.default_rng(check_int(seed, "the seed of the split"))
        rows = np.arange(len(labels))
        groups = [rows] if labels.ndim == 2 else [np.flatnonzero(labels == label) for label in np.unique(labels)]
        found: dict[str, list[npt.NDArray[np.int64]]] = {"train": [], "base": [], "query": []}
        for group in groups:
            count = max(1, round(self.share * len(group))) if len(group) >= FEWEST else 0
            order = rng.permutation(group)
            if labels.ndim == 2:
                hot = labels != 0
                rare = hot.sum(axis=0) < FEWEST
                order = order[np.argsort(hot[order][:, rare].any(axis=1), kind="stable")]
                hot = hot & ~rare
                order = _with_a_query_each(order, count, hot)
                hot[order[:count]] = False
                order[count:] = _with_a_query_each(order[count:], count, hot)
            for split, part in zip(("query", "base", "train"), np.split(order, [count, 2 * count]), strict=True):
                found[split].append(part)
        splits = {split: np.sort(np.concatenate(parts)) for split, parts in found.items()}
        if not len(splits["query"]):
            raise ValueError(f"no class has {FEWEST} rows, which a query, a base row and a training row need; add rows")
        return splits


FEWEST = 3
"""The fewest rows of a class from which ``HoldoutProtocol`` takes a query and a base row."""


def trained_classes(labels: npt.NDArray, seed: int, share: float = 0.5) -> npt.NDArray[np.int64]:
    """Return the classes to train on after a ``share`` of them, drawn by seed, is left out.

    Raises ``ValueError`` unless each row has one label and both sides have at least two classes.
    """
    rng = np.random.default_rng(check_int(seed, "the seed of the split"))
    if not has_label(labels).all():
        raise ValueError("the protocol leaves classes out of training, and the data have rows without a label")
    share = check_float(share, "share", above=0, below=1)
    if labels.ndim == 2:
        raise ValueError("the protocol leaves classes out of training, and the data have several labels a row")
    classes = rng.permutation(np.unique(labels))
    if len(classes) < 4:
        raise ValueError(f"the data have {len(classes)} classes; the protocol needs at least 4")
    out = int(share * len(classes))
    if not 2 <= out <= len(classes) - 2:
        said = f"share is {share:g}, which takes {out} of {len(classes)} classes out of training"
        raise ValueError(f"{said}; at least two must be out and two in")
    return np.sort(classes[out:])


class UnseenProtocol:
    """A rule that trains on half of the classes; base and queries are of the others, which the model has never seen."""

    def split(self, labels: npt.NDArray, seed: int) -> dict[str, npt.NDArray[np.int64]]:
        """Split rows as ``Protocol.split`` does. An odd class is trained on."""
        trained = np.isin(labels, trained_classes(labels, seed))
        asked = np.flatnonzero(~trained)
        query = PROTOCOLS["holdout"].split(labels[asked], seed)["query"]
        base = np.delete(asked, query)
        return {"train": np.flatnonzero(trained), "base": base, "query": asked[query]}


PROTOCOLS: dict[str, Protocol | HoldoutProtocol | UnseenProtocol] = {
    "holdout": HoldoutProtocol(),
    "unseen": UnseenProtocol(),
    "digits": Protocol(query=20, train=80),
    "characters": Protocol(query=8, train=40),
    "cifar10": Protocol(query=100, train=500, disjoint=True),
    "cifar10-59k": Protocol(query=100, train=500),
    "cifar10-50k": Protocol(query=1000, train=None),
    "nuswide21": Protocol(query=100, train=500),
    "imagenet100": Protocol(query=50, train=100),
}
"""The protocols by name."""


@dataclass(frozen=True)
class TrainTestProtocol:
    """A rule for data sets that were published as a training set and a test or validation set."""

    base: Literal["train", "test"]  # which of the two published sets is the base
    train: int | None = None  # rows of each class of the training set that are trained on; if None, all
    query: int | None = None  # rows of each class of the test set that are queries; if None, all

    def split(
        self, labels: npt.NDArray, test_rows: npt.NDArray[np.bool_], seed: int
    ) -> dict[str, npt.NDArray[np.int64]]:
        """Split rows as ``Protocol.split`` does; ``test_rows``, ``bool [n]``, marks the published test set."""
        rng = np.random.default_rng(check_int(seed, "the seed of the split"))
        query = _sample(labels, test_rows, self.query, "query", rng)
        train = _sample(labels, ~test_rows, self.train, "train", rng)
        base = test_rows.copy() if self.base == "test" else ~test_rows
        base[query] = False
        if not base.any():
            raise ValueError("the queries take the whole test set, and leave no base; the protocol needs more rows")
        return {"train": train, "base": np.flatnonzero(base), "query": query}


TRAIN_TEST_PROTOCOLS = {
    "official": TrainTestProtocol("train"),
    "imagenet100": TrainTestProtocol("train", train=100),
    "imagenet1000": TrainTestProtocol("test", query=5),
}
"""The protocols for data sets with a published test set, by name."""


def _sample(
    labels: npt.NDArray, of: npt.NDArray[np.bool_], count: int | None, split: str, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return all rows of a published set, or ``count`` of each class."""
    rows = np.flatnonzero(of)
    if count is None:
        return rows
    if labels.ndim == 2:
        raise ValueError("the protocol samples by class, and the data have several labels a row")
    sampled = []
    if not has_label(labels[rows]).all():
        raise ValueError("the protocol samples by class, and the data have rows without a label")
    for label in np.unique(labels[rows]):
        of_class = rows[labels[rows] == label]
        if len(of_class) < count:
            said = f"class {label} has {len(of_class)} rows to sample the {split} rows from; it needs {count}"
            raise ValueError(said)
        sampled.append(rng.permutation(of_class)[:count])
    return np.sort(np.concatenate(sampled))


def _with_a_query_each(order: npt.NDArray[np.int64], queries: int, labels: npt.NDArray) -> npt.NDArray[np.int64]:
    """Return ``order`` with swaps that put each label among the first ``queries`` rows, if possible.

    Rare labels are served first, labels with a single row last. Each swap removes the last query whose labels all have
    another query.
    """
    order = order.copy()
    hot = labels != 0
    totals = hot.sum(axis=0)
    counts = hot[order[:queries]].sum(axis=0)
    missing = np.flatnonzero((counts == 0) & (totals > 0))
    for label in sorted(missing, key=lambda label: (totals[label] == 1, totals[label])):
        if counts[label]:
            continue  # a row of a rarer label brought it
        spare = np.flatnonzero(~(hot[order[:queries]] & (counts < 2)).any(axis=1))
        if not len(spare):
            break
        out, into = spare[-1], queries + np.flatnonzero(hot[order[queries:], label])[0]
        counts += hot[order[into]].astype(counts.dtype) - hot[order[out]]
        order[[out, into]] = order[[into, out]]
    return order
