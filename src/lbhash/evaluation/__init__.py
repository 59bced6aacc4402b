"""Evaluation of codes: the report, the bound, rankings, metrics and recognition; none needs PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbhash.utils.lazy import lazy_names

if TYPE_CHECKING:
    from lbhash.evaluation.lower_bound import Bound, bound
    from lbhash.evaluation.metrics import average_precision
    from lbhash.evaluation.ranking import RankHistogram

__all__ = ["Bound", "RankHistogram", "average_precision", "bound"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        {"Bound": "lower_bound", "RankHistogram": "ranking", "average_precision": "metrics", "bound": "lower_bound"},
    )
