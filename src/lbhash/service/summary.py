"""Compute the page's summary of the index: the model's measures, and a 2-D map of codes (PCA, then t-SNE)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from lbhash.utils.labels import Labels, in_one_order, read_labels

POINTS = 2000  # codes in the map
MAX_BASE = 1_000_000
MAX_QUERIES = 1000


class Evidence(NamedTuple):
    """The input of the summary: codes ``uint8 [n, bytes]``, with a label or a list of labels for each.

    Queries search the codes where ``searched``, ``bool [n]``, is true.
    """

    codes: Any
    labels: list[Any]
    bits: int
    query_codes: Any = None
    query_labels: list[Any] | None = None
    searched: Any = slice(None)


def summarize(evidence: Evidence) -> bytes:
    """Return the fields of ``lbhash.service.schemas.Summary`` as JSON; takes seconds."""
    labels = read_labels(evidence.labels)
    if evidence.query_labels is None:
        summary = _of_classes(evidence, labels)
    else:
        asked, labels = in_one_order({"the data": read_labels(evidence.query_labels), "the index": labels})
        summary = _of_classes(evidence, labels)
        figures, by_class = _of_queries(evidence, asked, labels)
        summary |= figures
        for row in summary["classes"]:
            row["map"] = by_class.get(labels.classes[row["label"]])
    for row in [*summary["classes"], *(summary.get("confused") or ())]:
        row |= {key: labels.classes[row[key]] for key in ("label", "nearest", "taken_for") if row.get(key) is not None}
    return json.dumps(summary, allow_nan=False).encode()


def _of_classes(evidence: Evidence, labels: Labels) -> dict[str, Any]:
    """Return the distances of the lower bound, for each class, by its number, and for all."""
    from lbhash.evaluation.lower_bound import bound

    found = bound(evidence.codes, Labels(labels.numbers, range(len(labels.classes))), bits=evidence.bits)
    inter = found.inter_matrix().astype(float)
    np.fill_diagonal(inter, np.inf)
    alone = len(inter) < 2
    present = np.flatnonzero(found.present)
    counts = found.intra_counts[present]
    nobody = [None] * len(present)
    columns = {
        "label": present.tolist(),
        "codes": counts.sum(axis=1).tolist(),
        "intra": found.intra_per_class[present].astype(float).tolist(),
        "intra_mean": (counts @ np.arange(evidence.bits + 1) / counts.sum(axis=1)).tolist(),
        "inter": nobody if alone else inter.min(axis=1).tolist(),
        "nearest": nobody if alone else present[inter.argmin(axis=1)].tolist(),
    }
    classes = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    numbers = {name: getattr(found, name) for name in ("inter", "intra", "ratio")}
    numbers["ratio_999"] = found.at_percentile().ratio
    finite = {name: float(value) if np.isfinite(value) else None for name, value in numbers.items()}
    return {"codes": len(evidence.codes), "classes": classes, **finite}


def _of_queries(evidence: Evidence, asked: Labels, labels: Labels) -> tuple[dict[str, Any], dict[Any, float]]:
    """Return the figures of the evaluation with the most confused classes, and each class's mAP."""
    from lbhash.evaluation.recognition import knn_predict
    from lbhash.evaluation.report import evaluate

    codes, held = evidence.codes[evidence.searched], labels[evidence.searched]
    report = evaluate(
        query_codes=evidence.query_codes, query_labels=asked, base_codes=codes, base_labels=held, bits=evidence.bits
    )
    named = ("queries", "base", "map", "map_worst", "map_best", "map_macro", "knn_accuracy")
    figures = {name: getattr(report, name) for name in named}
    figures |= {"precision_within_2": report.precision_within_radius, "confused": None}
    by_class = dict(zip(report.by_class.label.tolist(), report.by_class.map.tolist(), strict=True))
    if labels.numbers.ndim == 2:
        return figures, by_class
    voted = knn_predict(evidence.query_codes, codes, held.numbers, report.k)
    pairs = sorted(zip(asked.numbers.tolist(), voted.tolist(), strict=True))
    queries = Counter(label for label, _ in pairs)
    wrong = Counter(pair for pair in pairs if pair[0] != pair[1]).most_common(12)
    figures["confused"] = [
        {"label": label, "taken_for": other, "queries": count, "share": count / queries[label]}
        for (label, other), count in wrong
    ]
    return figures, by_class


def principal(signs: Any) -> Any:
    """Return the first two principal components of codes of ±1: ``[n, bits]`` to ``float32 [n, 2]`` in [-1, 1]."""
    centered = signs.astype(np.float64) - signs.mean(axis=0)
    _, vectors = np.linalg.eigh(centered.T @ centered)
    plane = centered @ vectors[:, ::-1][:, :2]
    return _scaled(np.pad(plane, ((0, 0), (0, 2 - plane.shape[1]))))


def neighborly(signs: Any) -> bytes:
    """Return the t-SNE of codes of ±1, ``[n, bits]``, as the bytes of ``float32 [n, 2]``; takes seconds.

    The squared Euclidean distance of codes of ±1 is four times the Hamming distance, so the neighbors are the same.
    """
    from sklearn.manifold import TSNE

    start = principal(signs) * 1e-2
    # Without noise, equal codes would start at one point and stay there together.
    start += np.random.default_rng(0).normal(scale=1e-3, size=start.shape).astype(np.float32)
    tsne = TSNE(perplexity=min(30.0, (len(signs) - 1) / 3), init=start, random_state=0, n_jobs=1)
    return _scaled(tsne.fit_transform(signs.astype(np.float32))).tobytes()


def _scaled(plane: Any) -> Any:
    """Center points and scale them to [-1, 1]; move far outliers inwards, so the others have room."""
    plane = plane - np.median(plane, axis=0)
    radius = np.hypot(*plane.T)
    usual = max(float(np.median(radius)), 1e-12)
    plane = plane * (np.arcsinh(radius / usual) / np.maximum(radius, 1e-12))[:, None]
    plane = plane - (plane.max(axis=0) + plane.min(axis=0)) / 2
    return (plane / max(float(np.abs(plane).max()), 1e-12)).astype(np.float32)
