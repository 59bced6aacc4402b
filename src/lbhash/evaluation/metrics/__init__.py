"""Retrieval metrics, computed from the histograms of each query and nothing else.

Codes at equal distance from a query are tied. Metrics that depend on a rank are therefore expectations over all orders
of the tied codes, each as likely as the next, computed exactly; average precision and the mis-rank also give their
largest and smallest value over those orders. In the formulas, n_d base codes of which r_d are relevant lie at distance
d of one query; N_d and R_d are their sums over all smaller distances.

Every metric takes a ``RankHistogram``, or a ``Ranking`` of ``stable_rankings``, and gives a value for each query,
``float64 [queries]``. A rank k (or ``top_k``) is an integer from 1 to the size of the base, which is its default; a
radius is an integer from 0 to the length of a code. Anything else is a ``TypeError`` or ``ValueError``.
"""

from lbhash.evaluation.metrics.average_precision import average_precision
from lbhash.evaluation.metrics.common import Empty, Normalize, Ties, mean_over_queries
from lbhash.evaluation.metrics.curves import Curve, precision_recall_curve
from lbhash.evaluation.metrics.graded import acg_at, ndcg_at, weighted_average_precision
from lbhash.evaluation.metrics.misrank import (
    average_precision_floor,
    largest_misrank,
    lowest_average_precision,
    mean_misrank,
)
from lbhash.evaluation.metrics.precision import (
    empty_within,
    f1_at,
    precision_at,
    precision_within,
    r_precision,
    recall_at,
    recall_within,
)

__all__ = ["Curve", "Empty", "Normalize", "Ties", "acg_at", "average_precision", "average_precision_floor"]
__all__ += ["empty_within", "f1_at", "largest_misrank", "lowest_average_precision", "mean_misrank"]
__all__ += ["mean_over_queries", "ndcg_at", "precision_at", "precision_recall_curve"]
__all__ += ["precision_within", "r_precision", "recall_at", "recall_within", "weighted_average_precision"]
