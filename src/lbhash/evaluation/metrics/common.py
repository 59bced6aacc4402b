"""Shared by the metrics: named choices, the check of a rank, means over queries."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from lbhash.evaluation.ranking import Ranking
from lbhash.utils.validation import check_choice, check_filled, check_int

Floats = npt.NDArray[np.float64]
Ties = Literal["expected", "best", "worst"]
Normalize = Literal["retrieved", "all"]
Empty = Literal["skip", "zero"]

TIES, NORMALIZE, EMPTY = get_args(Ties), get_args(Normalize), get_args(Empty)


def mean_over_queries(values: Floats, empty: Empty = "skip") -> float:
    """Return the mean of a metric that is NaN for a query without a relevant base code.

    With "skip" those queries are left out, with "zero" they count as 0. The mean is NaN if no query is left.
    """
    empty = check_choice(empty, "empty", EMPTY)
    if empty == "zero":
        values = np.nan_to_num(values, nan=0.0)
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


def check_rank(ranking: Ranking, rank: int | None, name: str = "k") -> int:
    """Return a rank, by default the last; raise ``TypeError`` or ``ValueError`` unless the base has it."""
    check_filled(range(ranking.base), "hist", "query and one base code")
    return ranking.base if rank is None else check_int(rank, name, 1, ranking.base, "the size of the base")


def ratio(above: npt.NDArray[Any], below: npt.NDArray[Any], otherwise: float) -> Floats:
    """Return ``above / below`` with broadcasting, and ``otherwise`` where ``below`` is 0."""
    shape = np.broadcast_shapes(np.shape(above), np.shape(below))
    return np.divide(above, below, out=np.full(shape, otherwise), where=below > 0)


def all_relevant(ranking: Ranking) -> npt.NDArray[np.int64]:
    """Return the number of base codes relevant to each query, ``[queries]``."""
    return ranking.graded.sum(axis=(1, 2))
