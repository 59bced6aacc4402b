"""The model's numbers: how well the index answers the data's queries, and how far apart its classes are.

For NumPy's late import see ``Worker``.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

MAX_BASE = 1_000_000
MAX_QUERIES = 1000
_PAIRS = 12  # of frequently confused classes
_FIGURES = {"precision_within_2": "precision_within_radius"} | {
    name: name for name in ("queries", "map", "map_worst", "map_best", "knn_accuracy")
}


@dataclass(frozen=True)
class Evidence:
    """What the numbers are computed from."""

    codes: Any  # of the index, uint8 [n, bytes]
    labels: list[Any]  # a class number, or a list of class numbers, for each code
    bits: int
    query_codes: Any = None  # uint8 [m, bytes], or None without queries
    query_labels: list[Any] | None = None


def summarize(evidence: Evidence) -> bytes:
    """Return the fields of ``lbhash.service.schemas.Summary`` as JSON; takes seconds."""
    from lbhash.utils.labels import check_label_pair, check_labels

    if evidence.query_labels is None:
        return json.dumps(_of_classes(evidence, check_labels(evidence.labels))).encode()
    query_labels, base_labels = check_label_pair(evidence.query_labels, evidence.labels)
    summary = {**_of_classes(evidence, base_labels), **_of_queries(evidence, query_labels, base_labels)}
    return json.dumps(summary, allow_nan=False).encode()


def _of_classes(evidence: Evidence, labels: Any) -> dict[str, Any]:
    """Return the distances of the lower bound, for each class and for all."""
    import numpy as np

    from lbhash.evaluation.bound import bound
    from lbhash.utils.labels import number_classes

    names, members = number_classes(labels) if labels.ndim == 1 else (np.arange(labels.shape[1]), labels)
    found = bound(evidence.codes, members, bits=evidence.bits)
    inter = found.inter_matrix().astype(float)
    np.fill_diagonal(inter, np.inf)
    alone = len(inter) < 2
    present = np.flatnonzero(found.present)
    classes = []
    for row, number in zip(inter, present, strict=True):
        counts = found.intra_counts[number]
        classes.append(
            {
                "label": int(names[number]),
                "codes": int(counts.sum()),
                "intra": float(found.intra_per_class[number]),
                "intra_mean": float(counts @ np.arange(evidence.bits + 1) / counts.sum()),
                "inter": None if alone else float(row.min()),
                "nearest": None if alone else int(names[present[row.argmin()]]),
            }
        )
    ratio_999 = found.at_percentile(99.9).ratio
    numbers = {"inter": found.inter, "intra": found.intra, "ratio": found.ratio, "ratio_999": ratio_999}
    finite = {name: float(value) if np.isfinite(value) else None for name, value in numbers.items()}
    return {"codes": len(evidence.codes), "classes": classes, **finite}


def _of_queries(evidence: Evidence, query_labels: Any, base_labels: Any) -> dict[str, Any]:
    """Return the figures of the evaluation, and which classes are frequently confused."""
    from lbhash.evaluation.recognition import knn_predict
    from lbhash.evaluation.report import VOTES, evaluate

    report = evaluate(evidence.query_codes, query_labels, evidence.codes, base_labels, bits=evidence.bits)
    figures = {name: getattr(report, attribute) for name, attribute in _FIGURES.items()}
    if base_labels.ndim == 2:
        return {**figures, "confused": None}
    voted = knn_predict(evidence.query_codes, evidence.codes, base_labels, min(VOTES, len(evidence.codes)))
    pairs = sorted(zip(query_labels.tolist(), voted.tolist(), strict=True))
    queries = Counter(label for label, _ in pairs)
    wrong = Counter(pair for pair in pairs if pair[0] != pair[1]).most_common(_PAIRS)
    confused = [
        {"label": label, "taken_for": other, "queries": count, "share": count / queries[label]}
        for (label, other), count in wrong
    ]
    return {**figures, "confused": confused}
