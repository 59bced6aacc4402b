"""Everything that is reported about a set of codes, in one call."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.bound import Bound, bound
from lbhash.codes import check_codes
from lbhash.labels import check_count, check_label_pair
from lbhash.metrics import (
    Curve,
    Empty,
    Normalize,
    check_choice,
    mean_average_precision,
    mean_over_queries,
    precision_recall_curve,
    precision_within,
    recall_within,
)
from lbhash.ranking import RankHistogram, check_lengths, check_width
from lbhash.recognition import predict_from_counts


@dataclass(frozen=True, eq=False)
class Report:
    """What ``evaluate`` finds. Every mean is over the same queries, which ``empty`` of ``evaluate`` decides."""

    map: float
    """Mean average precision at ``at``, expected over random orders of tied codes."""
    map_best: float
    """The same if every tie came out as well as it can."""
    map_worst: float
    """The same if every tie came out as badly as it can."""
    at: int
    """Length of the ranked list that average precision looks at."""
    radius: int
    """The Hamming radius, in bits, of the next two."""
    precision_within_radius: float
    """Mean precision within the radius; a query that finds nothing has precision 0."""
    recall_within_radius: float
    """Mean recall within the radius."""
    curve: Curve
    """Mean precision and recall by radius, from 0 to ``bits``."""
    bound: Bound
    """min D_inter, max D_intra and their ratio, of the base codes."""
    knn_accuracy: float | None
    """Share of all queries whose class a vote of the ``k`` nearest base codes gets right; ``None`` if multi-label."""
    k: int
    """How many base codes vote: as asked, or the size of the base if that is less."""
    bits: int
    """Length of a code."""
    queries: int
    """Number of queries."""
    base: int
    """Number of base codes."""
    empty_queries: int
    """Number of queries to which no base code is relevant."""

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON has it: plain numbers and lists, and ``None`` for what is NaN or infinite."""
        names = ("map", "map_best", "map_worst", "at", "radius", "precision_within_radius", "recall_within_radius")
        more = ("knn_accuracy", "k", "bits", "queries", "base", "empty_queries")
        return {
            **{name: _plain(getattr(self, name)) for name in names + more},
            "bound": {name: _plain(getattr(self.bound, name)) for name in ("inter", "intra", "ratio")},
            "curve": {
                "radius": self.curve.at.tolist(),
                "precision": [_plain(value) for value in self.curve.precision.tolist()],
                "recall": [_plain(value) for value in self.curve.recall.tolist()],
            },
        }


def evaluate(
    query_codes: npt.ArrayLike,
    query_labels: Any,
    base_codes: npt.ArrayLike,
    base_labels: Any,
    at: int | None = None,
    *,
    k: int = 100,
    radius: int = 2,
    normalize: Normalize = "retrieved",
    empty: Empty = "skip",
    bits: int | None = None,
) -> Report:
    """Evaluate codes by exhaustive comparison of every query with every base code.

    Args:
        query_codes: ``uint8 [queries, bytes]``, packed.
        query_labels: class numbers ``[queries]``, or multi-label (see ``lbhash.labels``).
        base_codes: ``uint8 [base, bytes]``.
        base_labels: as the query labels, with as many classes if they are multi-hot.
        at: length of the ranked list for average precision, from 1 to the size of the base, which is the default.
        k: how many base codes vote in recognition; reduced to the size of the base if that is less.
        radius: Hamming radius of the look-up, from 0 to the length of a code.
        normalize: what average precision is divided by; see ``lbhash.metrics.average_precision``.
        empty: queries without a relevant base code are left out of the means ("skip") or score 0 in them ("zero").
        bits: the length h of a code; by default 8 * bytes.

    Raises:
        TypeError, ValueError: an argument is not as above; the widths or lengths do not fit together; there are no
            queries, no base codes, or no query to which a base code is relevant.
    """
    queries, base = check_codes(query_codes, "query_codes"), check_codes(base_codes, "base_codes")
    if queries.shape[1] != base.shape[1]:
        raise ValueError(
            f"query_codes has {queries.shape[1]} bytes a row and base_codes has {base.shape[1]}; they must be equal"
        )
    wanted, labels = check_label_pair(query_labels, base_labels)
    for codes, rows, which in ((queries, wanted, "query"), (base, labels, "base")):
        check_lengths(codes, rows, which)
        if len(codes) == 0:
            raise ValueError(f"{which}_codes is empty; it must have at least one row")
    length = check_width(base, bits, "base_codes")
    at = len(base) if at is None else check_count(at, "at", len(base), "the size of the base")
    k = min(check_count(k, "k"), len(base))
    if isinstance(radius, bool) or not isinstance(radius, (int, np.integer)) or not 0 <= radius <= length:
        kind = ValueError if isinstance(radius, (int, np.integer)) else TypeError
        raise kind(f"radius is {radius!r}; it must be an integer from 0 to the length of a code ({length})")
    check_choice(normalize, ("retrieved", "all"), "normalize")
    check_choice(empty, ("skip", "zero"), "empty")

    histogram = RankHistogram.from_codes(queries, wanted, base, labels, length)
    empty_queries = int((histogram.relevant.sum(axis=1) == 0).sum())
    if empty_queries == len(queries):
        raise ValueError(
            "no base code is relevant to any query: base_labels and query_labels have no label in common, "
            "so there is nothing to evaluate"
        )
    scored = histogram.relevant.sum(axis=1) > 0 if empty == "skip" else np.ones(len(queries), bool)
    accuracy = None
    if labels.ndim == 1:
        accuracy = float(np.mean(predict_from_counts(queries, base, labels, histogram.total, k) == wanted))
    return Report(
        map=mean_average_precision(histogram, at, "expected", normalize, empty),
        map_best=mean_average_precision(histogram, at, "best", normalize, empty),
        map_worst=mean_average_precision(histogram, at, "worst", normalize, empty),
        at=at,
        radius=int(radius),
        precision_within_radius=float(precision_within(histogram, radius)[scored].mean()),
        recall_within_radius=mean_over_queries(recall_within(histogram, radius), empty),
        curve=precision_recall_curve(histogram, "radius", empty=empty),
        bound=bound(base, labels, bits=length),
        knn_accuracy=accuracy,
        k=k,
        bits=length,
        queries=len(queries),
        base=len(base),
        empty_queries=empty_queries,
    )


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
