"""The model's numbers: how its codes of the index answer the queries of the data, and how far apart its classes are."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

MAX_BASE = 1_000_000
MAX_QUERIES = 1000
WORST = 12
"""How many pairs of confused classes are told."""


@dataclass(frozen=True)
class Evidence:
    """What the numbers are computed from.

    Attributes:
        codes: of the index's labeled codes, ``uint8 [n, bytes]``.
        labels: theirs: class numbers, or a list of class numbers for each.
        bits: h.
        query_codes: ``uint8 [m, bytes]``; ``None`` where there are no queries.
        query_labels: theirs, as ``labels``.
    """

    codes: Any
    labels: list[Any]
    bits: int
    query_codes: Any = None
    query_labels: list[Any] | None = None


def summarize(evidence: Evidence) -> bytes:
    """The fields of ``lbhash.service.schemas.Summary``, as JSON; for a child process, as it can take seconds."""
    from lbhash.utils.labels import check_label_pair, check_labels

    if evidence.query_codes is None or evidence.query_labels is None:
        base_labels = check_labels(evidence.labels)
        return json.dumps(_of_classes(evidence, base_labels)).encode()
    query_labels, base_labels = check_label_pair(evidence.query_labels, evidence.labels)
    found = {**_of_classes(evidence, base_labels), **_of_queries(evidence, query_labels, base_labels)}
    return json.dumps(found, allow_nan=False).encode()


def _of_classes(evidence: Evidence, labels: Any) -> dict[str, Any]:
    import numpy as np

    from lbhash.evaluation.bound import bound
    from lbhash.utils.labels import number_classes

    names, members = number_classes(labels) if labels.ndim == 1 else (np.arange(labels.shape[1]), labels)
    found = bound(evidence.codes, members, bits=evidence.bits)
    inter = found.inter_matrix().astype(float)
    np.fill_diagonal(inter, np.inf)
    radii = np.arange(evidence.bits + 1)
    classes = []
    for place, at in enumerate(np.flatnonzero(found.present)):
        counts = found.intra_counts[at]
        alone = len(inter) < 2
        nearest = int(inter[place].argmin())
        classes.append(
            {
                "label": int(names[at]),
                "codes": int(counts.sum()),
                "intra": float(found.intra_per_class[at]),
                "intra_mean": float(counts @ radii / counts.sum()),
                "inter": None if alone else float(inter[place, nearest]),
                "nearest": None if alone else int(names[np.flatnonzero(found.present)[nearest]]),
            }
        )
    numbers = {
        "inter": found.inter,
        "intra": found.intra,
        "ratio": found.ratio,
        "ratio_999": found.at_percentile(99.9).ratio,
    }
    plain = {name: float(value) if np.isfinite(value) else None for name, value in numbers.items()}
    return {"codes": len(evidence.codes), "classes": classes, **plain}


def _of_queries(evidence: Evidence, query_labels: Any, base_labels: Any) -> dict[str, Any]:
    import numpy as np

    from lbhash.evaluation.recognition import knn_predict
    from lbhash.evaluation.report import VOTES, evaluate

    report = evaluate(evidence.query_codes, query_labels, evidence.codes, base_labels, bits=evidence.bits)
    figures: dict[str, Any] = {
        "queries": report.queries,
        "map": report.map,
        "map_worst": report.map_worst,
        "map_best": report.map_best,
        "knn_accuracy": report.knn_accuracy,
        "precision_within_2": report.precision_within_radius,
        "confused": None,
    }
    if base_labels.ndim == 2:
        return figures
    voted = knn_predict(evidence.query_codes, evidence.codes, base_labels, min(VOTES, len(evidence.codes)))
    wrong = voted != query_labels
    pairs, counts = np.unique(np.stack([query_labels[wrong], voted[wrong]], axis=1), axis=0, return_counts=True)
    asked = dict(zip(*np.unique(query_labels, return_counts=True), strict=True))
    order = np.argsort(-counts, kind="stable")[:WORST]
    figures["confused"] = [
        {
            "label": int(pairs[at, 0]),
            "taken_for": int(pairs[at, 1]),
            "queries": int(counts[at]),
            "share": float(counts[at] / asked[pairs[at, 0]]),
        }
        for at in order
    ]
    return figures
