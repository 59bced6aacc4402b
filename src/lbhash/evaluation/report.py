"""Everything that is reported about a set of codes, in one call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lbhash.codes import check_codes, check_same_width, check_width
from lbhash.evaluation import metrics
from lbhash.evaluation.bound import Bound, bound
from lbhash.evaluation.metrics import Curve, Empty, Normalize, check_choice
from lbhash.evaluation.metrics.common import EMPTY, NORMALIZE, Floats, check_radius
from lbhash.evaluation.ranking import RankHistogram, Ranking, check_lengths, stable_rankings
from lbhash.evaluation.recognition import linear_probe_accuracy, predict_from_counts
from lbhash.utils.labels import check_label_pair, number_classes
from lbhash.utils.validation import check_int

RANKS = (1, 10, 100, 1000)
"""The ranks K that are looked at by default, as far as the base reaches."""

VOTES = 100
"""How many base codes vote by default, as far as there are so many."""

Order = Literal["expected", "stable"]


@dataclass(frozen=True, eq=False)
class Report:
    """What ``evaluate`` finds.

    Every mean is over the same queries: those with a relevant base code, or with ``empty`` "zero" all of them. Figures
    by rank are for the order of ties that ``ties`` names.
    """

    map: float
    """Mean average precision at ``at``: expected over random orders of tied codes, or in the order of the base."""
    map_best: float
    """The same if every tie came out as well as it can."""
    map_worst: float
    """The same if every tie came out as badly as it can."""
    map_floor: float
    """Mean of the lowest AP over the whole base that each query's largest mis-rank leaves possible."""
    at: int
    """Length of the ranked list that mAP, NDCG, ACG and WAP look at."""
    ties: str
    """"expected", or "stable": ties in the order of the base."""
    normalize: str
    """What average precision is divided by: "retrieved" or "all"."""
    empty: str
    """Queries without a relevant base code: "skip", left out of the means, or "zero", 0 in them."""
    ranks: tuple[int, ...]
    """The ranks K of the next three."""
    precision_at: Floats
    """Mean P@K, ``[ranks]``."""
    recall_at: Floats
    """Mean recall of the first K, ``[ranks]``."""
    f1_at: Floats
    """Mean F1 of the first K, ``[ranks]``."""
    r_precision: float
    """Mean precision of as many places as the query has relevant base codes."""
    mean_misrank: float
    """Mean number of irrelevant base codes before a relevant one, the paper's m."""
    ndcg: float
    """Mean NDCG@``at``, with the gain 2^grade − 1."""
    acg: float
    """Mean grade of the first ``at`` places."""
    wap: float
    """Mean weighted average precision at ``at``."""
    radius: int
    """The Hamming radius, in bits, of the next three."""
    precision_within_radius: float
    """Mean precision within the radius; a query that finds nothing has precision 0."""
    recall_within_radius: float
    """Mean recall within the radius."""
    empty_within_radius: float
    """Share of the queries that find no base code within the radius."""
    curve: Curve
    """Mean precision and recall by radius, from 0 to ``bits``."""
    rank_curve: Curve
    """Mean precision and recall by rank."""
    bound: Bound
    """min D_inter, max D_intra and their ratio, of the base codes; its ``at_percentile`` gives the paper's 99.9 %."""
    knn_accuracy: float | None
    """Share of all queries whose class a vote of the ``k`` nearest base codes gets right; ``None`` if multi-label."""
    k: int
    """How many base codes vote."""
    probe_accuracy: float | None
    """Share of all queries that a linear probe on the base codes gets right; ``None`` unless asked for."""
    bits: int
    """Length of a code."""
    queries: int
    """Number of queries."""
    base: int
    """Number of base codes."""
    empty_queries: int
    """Number of queries to which no base code is relevant."""
    largest_grade: int
    """The most labels that a query and a base code share; 1 where codes are relevant or not."""

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON has it: plain numbers and lists, and ``None`` for what is NaN or infinite."""
        plain = {name: _plain(value) for name, value in vars(self).items() if not isinstance(value, (tuple, Bound))}
        percentile = self.bound.at_percentile(99.9)
        return {
            **plain,
            "ranks": list(self.ranks),
            "bound": {name: _plain(getattr(self.bound, name)) for name in ("inter", "intra", "ratio")},
            "bound_99.9": {name: _plain(getattr(percentile, name)) for name in ("inter", "intra", "ratio")},
            "curve": _plain_curve(self.curve, "radius"),
            "rank_curve": _plain_curve(self.rank_curve, "rank"),
        }


def evaluate(
    query_codes: npt.ArrayLike,
    query_labels: Any,
    base_codes: npt.ArrayLike,
    base_labels: Any,
    at: int | None = None,
    *,
    k: int | None = None,
    ranks: Sequence[int] | None = None,
    radius: int = 2,
    ties: Order = "expected",
    normalize: Normalize = "retrieved",
    empty: Empty = "skip",
    probe: bool = False,
    bits: int | None = None,
) -> Report:
    """Evaluate codes by exhaustive comparison of every query with every base code.

    Args:
        query_codes: ``uint8 [queries, bytes]``, packed.
        query_labels: class numbers ``[queries]``, or multi-label (see ``lbhash.utils.labels``).
        base_codes: ``uint8 [base, bytes]``, in memory or memory-mapped.
        base_labels: as the query labels, with as many classes if they are multi-hot.
        at: length of the ranked list for mAP, NDCG, ACG and WAP, from 1 to the size of the base, which is the default.
        k: how many base codes vote in recognition; by default 100, or all of a smaller base.
        ranks: the K of precision, recall and F1; by default 1, 10, 100 and 1,000, as far as the base reaches.
        radius: Hamming radius of the look-up, from 0 to the length of a code.
        ties: "expected" over random orders of tied codes; or "stable", in the order of the base, for comparison with
            what other programs print (it sorts, which takes a hundred times as long).
        normalize: what average precision is divided by; see ``lbhash.evaluation.metrics.average_precision``.
        empty: queries without a relevant base code are left out of the means ("skip") or score 0 in them ("zero").
        probe: whether to fit a linear probe to the base codes (seconds to a minute).
        bits: the length h of a code; by default 8 * bytes.

    Raises:
        TypeError, ValueError: an argument is not as above; the widths or lengths do not fit together; there are no
            queries, no base codes, or no query to which a base code is relevant.
    """
    queries, base = check_codes(query_codes, "query_codes"), check_codes(base_codes, "base_codes")
    check_same_width(queries, base, "query_codes", "base_codes")
    wanted, labels = check_label_pair(query_labels, base_labels)
    for codes, rows, which in ((queries, wanted, "query"), (base, labels, "base")):
        check_lengths(codes, rows, which)
        if len(codes) == 0:
            raise ValueError(f"{which}_codes is empty; it must have at least one row")
    length = check_width(base, bits, "base_codes")
    if bits is None and base.shape[1] >= 8 and base.max() == 1 and queries.max() <= 1:
        raise ValueError(
            "base_codes holds nothing but 0 and 1, as codes of a column a bit do; pack them (lbhash.codes.as_packed), "
            f"or say that bits is {length}"
        )
    at = len(base) if at is None else check_int(at, "at", 1, len(base), "the size of the base")
    k = min(VOTES, len(base)) if k is None else check_int(k, "k", 1, len(base), "the size of the base")
    if ranks is None:
        ranks = [rank for rank in RANKS if rank <= len(base)]
    ranks = tuple(sorted({check_int(rank, "ranks", 1, len(base), "the size of the base") for rank in ranks}))
    if not ranks:
        raise ValueError("ranks is empty; it must name at least one rank from 1 to the size of the base")
    radius = check_radius(radius, length)
    check_choice(ties, ("expected", "stable"), "ties")
    check_choice(normalize, NORMALIZE, "normalize")
    check_choice(empty, EMPTY, "empty")
    if probe and labels.ndim == 2:
        raise ValueError("probe is True, and the labels are multi-label; a linear probe takes class numbers [n] only")

    histogram = RankHistogram.from_codes(queries, wanted, base, labels, length)
    some_relevant = histogram.graded.any(axis=(1, 2))
    if not some_relevant.any():
        raise ValueError(
            "no base code is relevant to any query: base_labels and query_labels have no label in common, "
            "so there is nothing to evaluate"
        )
    # Queries of equal codes and labels have equal figures, which are computed once; and trained codes repeat.
    kind, once = histogram.kind, Ranking(histogram.total[histogram.distinct], histogram.graded[histogram.distinct])
    if ties == "stable":
        by_rank = _by_rank(stable_rankings(queries, wanted, base, labels), at, ranks, normalize)
    else:
        by_rank = {name: values[kind] for name, values in _by_rank((once,), at, ranks, normalize).items()}
    scored = some_relevant if empty == "skip" else np.ones(len(queries), bool)

    def mean(values: Floats) -> Any:
        """Over the queries that count, one without a relevant base code scoring 0."""
        values = values[scored]
        return np.where(np.isnan(values), 0.0, values).mean(axis=0)

    radii = metrics.radius_points(once)
    accuracy = None
    if labels.ndim == 1:
        accuracy = float(np.mean(predict_from_counts(queries, base, labels, histogram.total, k) == wanted))
    return Report(
        map=float(mean(by_rank["average_precision"])),
        map_best=float(mean(metrics.average_precision(once, at, "best", normalize)[kind])),
        map_worst=float(mean(metrics.average_precision(once, at, "worst", normalize)[kind])),
        map_floor=float(mean(metrics.average_precision_floor(once)[kind])),
        at=at,
        ties=ties,
        normalize=normalize,
        empty=empty,
        ranks=ranks,
        precision_at=mean(by_rank["precision_at"]),
        recall_at=mean(by_rank["recall_at"]),
        f1_at=mean(by_rank["f1_at"]),
        r_precision=float(mean(by_rank["r_precision"])),
        mean_misrank=float(np.nanmean(by_rank["misrank"])),
        ndcg=float(mean(by_rank["ndcg"])),
        acg=float(mean(by_rank["acg"])),
        wap=float(mean(by_rank["wap"])),
        radius=radius,
        precision_within_radius=float(mean(metrics.precision_within(once, radius)[kind])),
        recall_within_radius=float(mean(metrics.recall_within(once, radius)[kind])),
        empty_within_radius=float(mean(metrics.empty_within(once, radius)[kind])),
        curve=metrics.mean_curve(radii.at, radii.precision[kind], radii.recall[kind], empty),
        rank_curve=metrics.mean_curve(
            metrics.curve_ranks(len(base)), by_rank["curve_precision"], by_rank["curve_recall"], empty
        ),
        bound=bound(base, number_classes(labels)[1] if labels.ndim == 1 else labels, bits=length),
        knn_accuracy=accuracy,
        k=k,
        probe_accuracy=linear_probe_accuracy(queries, wanted, base, labels, length) if probe else None,
        bits=length,
        queries=len(queries),
        base=len(base),
        empty_queries=int((~some_relevant).sum()),
        largest_grade=1 + int(np.flatnonzero(histogram.graded.any(axis=(0, 2))).max()),
    )


def _by_rank(
    rankings: Iterable[Ranking], at: int, ranks: tuple[int, ...], normalize: Normalize
) -> dict[str, npt.NDArray[Any]]:
    """What depends on the order of ties, a row a query."""
    parts: list[dict[str, npt.NDArray[Any]]] = []
    for ranking in rankings:
        points = metrics.rank_points(ranking)
        average = metrics.average_precision(ranking, at, "expected", normalize)
        graded = ranking.graded.shape[1] > 1
        parts.append(
            {
                "average_precision": average,
                "precision_at": np.stack([metrics.precision_at(ranking, rank) for rank in ranks], axis=1),
                "recall_at": np.stack([metrics.recall_at(ranking, rank) for rank in ranks], axis=1),
                "f1_at": np.stack([metrics.f1_at(ranking, rank) for rank in ranks], axis=1),
                "r_precision": metrics.r_precision(ranking),
                "misrank": metrics.mean_misrank(ranking),
                "ndcg": metrics.ndcg_at(ranking, at),
                "acg": metrics.acg_at(ranking, at),
                "wap": metrics.weighted_average_precision(ranking, at, normalize) if graded else average,
                "curve_precision": points.precision,
                "curve_recall": points.recall,
            }
        )
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value


def _plain_curve(curve: Curve, by: str) -> dict[str, Any]:
    return {by: curve.at.tolist(), "precision": _plain(curve.precision), "recall": _plain(curve.recall)}
