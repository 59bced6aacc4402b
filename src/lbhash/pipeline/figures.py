"""Evaluate the codes of a trained model on new rows, and on the rows that it was trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, pack_outputs
from lbhash.data import Dataset
from lbhash.data.split import classes_of
from lbhash.evaluation.report import Report, evaluate
from lbhash.hasher import encode_split
from lbhash.utils.labels import Numbers, has_label

if TYPE_CHECKING:
    from lbhash.hasher import Hasher

_KEPT = ("map", "map_worst", "map_best", "map_macro", "knn_accuracy", "by_bits", "k", "top_k", "base")
"""The figures of a report that are stored for new rows and for training rows."""


def figures_of(
    dataset: Dataset,
    new_base: npt.NDArray[np.bool_],
    hasher: Hasher,
    outputs: npt.NDArray[np.float32],
    top_k: int | None,
) -> dict[str, Any]:
    """Evaluate real-valued queries against the base, its new rows, and the training rows; the data need labels.

    Args:
        dataset: the data that the model was trained on.
        new_base: which base rows were not trained on, ``bool [n]``.
        hasher: a hasher fitted to the train split.
        outputs: the real outputs of the labeled queries, ``[n, bits]``.
        top_k: the k of mAP@k; if None or if there are fewer rows, all rows are ranked.

    Returns:
        The report on the base, ``Report.as_dict``, with ``split``, the numbers of rows and classes; ``new_rows`` and
        ``trained_rows``, figures for the new base rows and for the training rows (None if no query has a relevant row
        there); and ``classes``, the rows and mAP of each class.
    """
    asked, held = dataset.query.labeled(), dataset.base.labeled()
    wanted, labels, codes = np.asarray(asked.labels), np.asarray(held.labels), encode_split(hasher, held)
    query, trained = pack_outputs(outputs), dataset.train.labeled()
    known, train = (has_label(np.asarray(split.labels)) for split in (dataset.base, dataset.train))
    new = new_base[known]

    def report(codes: PackedCodes, labels: Numbers, top_k: int | None) -> Report:
        return evaluate(
            query_codes=query,
            query_labels=wanted,
            base_codes=codes,
            base_labels=labels,
            top_k=top_k,
            query_outputs=outputs,
        )

    def some(codes: PackedCodes, labels: Numbers) -> Report | None:
        if not np.intersect1d(classes_of(wanted), classes_of(labels)).size:
            return None
        return report(codes, labels, None if top_k is None else min(top_k, len(codes)))

    whole = report(codes, labels, top_k)
    parts = {
        "new_rows": whole if new.all() else some(codes[new], labels[new]),
        "trained_rows": some(hasher.train_codes_[train], np.asarray(trained.labels)),
    }
    classes = _classes(dataset, new, parts)
    counts = {
        "train": len(dataset.train),
        "query": len(dataset.query),
        "new": int(new.sum()),
        "trained_base": int((~new).sum()),
        "classes": len(classes),
        "only_train": sum(one["train"] > 0 and one["query"] == 0 for one in classes),
        "few": sum(one["query"] == one["new"] == 1 and one["train"] < 8 for one in classes),
    }
    kept = {name: part and {own: part.as_dict()[own] for own in _KEPT} for name, part in parts.items()}
    return {"split": counts, **kept, "classes": classes, **whole.as_dict()}


def _classes(dataset: Dataset, new: npt.NDArray[np.bool_], parts: dict[str, Report | None]) -> list[dict[str, Any]]:
    """Return each class's name or number, its rows in each split, its mAP on new and training rows, and chance."""
    base = dataset.base.labeled()
    rows = {"train": dataset.train.labels, "query": dataset.query.labels, "new": np.asarray(base.labels)[new]}
    sizes = {split: _sizes(np.asarray(labels)) for split, labels in rows.items()}
    precision, chance = (
        {name: {} if part is None else part.by_class.of(figure) for name, part in parts.items()}
        for figure in ("map", "chance")
    )
    return [
        {
            "class": dataset.class_names[label],
            **{split: found.get(label, 0) for split, found in sizes.items()},
            "map": precision["new_rows"].get(label),
            "map_trained": precision["trained_rows"].get(label),
            "chance": chance["new_rows"].get(label),
        }
        for label in sorted({*sizes["train"], *sizes["query"], *sizes["new"]})
    ]


def _sizes(labels: npt.NDArray) -> dict[int, int]:
    """Return the number of rows of each class, keyed by class number."""
    classes = classes_of(labels)
    if labels.ndim == 2:
        counts = labels[:, classes].sum(axis=0, dtype=np.int64)
    else:
        counts = np.unique(labels[has_label(labels)], return_counts=True)[1]
    return dict(zip(classes.tolist(), counts.tolist(), strict=True))
