"""What the metrics share: named choices, ranks and radii as arguments, means over queries."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lbhash.evaluation.ranking import Ranking
from lbhash.utils.validation import check_int

Floats = npt.NDArray[np.float64]
Ties = Literal["expected", "best", "worst"]
Normalize = Literal["retrieved", "all"]
Empty = Literal["skip", "zero"]

TIES = ("expected", "best", "worst")
NORMALIZE = ("retrieved", "all")
EMPTY = ("skip", "zero")


def mean_over_queries(values: Floats, empty: Empty = "skip") -> float:
    """Mean of a metric that is NaN for a query without a relevant base code; "skip" leaves those out, "zero" is 0.

    NaN if no query is left.
    """
    check_choice(empty, EMPTY, "empty")
    if empty == "zero":
        values = np.nan_to_num(values, nan=0.0)
    values = values[~np.isnan(values)]
    return float(values.mean()) if len(values) else float("nan")


def check_choice(value: Any, choices: tuple[str, ...], name: str) -> None:
    """Raise ``ValueError`` unless ``value`` is one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(repr, choices))}")


def check_rank(ranking: Ranking, rank: int | None, name: str) -> int:
    """Return a rank, by default the last; raise ``TypeError`` or ``ValueError`` unless it is one of the base."""
    if ranking.base == 0:
        raise ValueError("hist is empty; it must have at least one query and one base code")
    return ranking.base if rank is None else check_int(rank, name, 1, ranking.base, "the size of the base")


def check_radius(radius: int, bits: int, name: str = "radius") -> int:
    """Return a Hamming radius; raise ``TypeError`` or ``ValueError`` unless it is an integer from 0 to ``bits``."""
    whole = isinstance(radius, (int, np.integer)) and not isinstance(radius, bool)
    if not whole or not 0 <= radius <= bits:
        kind = ValueError if whole else TypeError
        raise kind(f"{name} is {radius!r}; it must be an integer from 0 to the length of a code ({bits})")
    return int(radius)


def ratio(above: npt.NDArray[Any], below: npt.NDArray[Any], otherwise: float) -> Floats:
    """``above / below`` with broadcasting, and ``otherwise`` where ``below`` is 0."""
    shape = np.broadcast_shapes(np.shape(above), np.shape(below))
    return np.divide(above, below, out=np.full(shape, otherwise), where=below > 0)


def all_relevant(ranking: Ranking) -> npt.NDArray[np.int64]:
    """Number of base codes relevant to each query, ``[queries]``."""
    return ranking.graded.sum(axis=(1, 2))
