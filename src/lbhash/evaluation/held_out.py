"""The score of validation rows' codes, by the lower bound and by their mean average precision.

The ratio uses the centers of these codes (``lbhash.evaluation.lower_bound``), not the designed centers. So it also
works for methods without designed centers, and shows classes whose codes fell together.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, check_codes, check_width
from lbhash.evaluation.diagnostics import Diagnostic, diagnose_codes
from lbhash.evaluation.lower_bound import bound_of_parts, quotient
from lbhash.evaluation.metrics import average_precision
from lbhash.evaluation.parts import Part, in_turn
from lbhash.evaluation.ranking import RankHistogram, Ranking
from lbhash.utils.labels import Numbers, check_numbers

PERCENTILE, INTER_PERCENTILE = 75.0, 10.0
"""The default percentiles of D_intra and D_inter. One code and one pair of classes decide the paper's maximum and
minimum, which say little of the settings."""

By = Literal["ratio", "map"]


@dataclass(frozen=True)
class Score:
    """The score of validation rows' codes: D_inter and D_intra in bits, at their percentiles and at their extremes."""

    inter: float
    intra: float
    inter_min: float
    intra_max: float
    map: float | None
    """Mean average precision, each row being a query to all the others; None if it was not computed."""
    distinct: int
    """The number of distinct codes."""
    diagnostics: tuple[Diagnostic, ...]
    """Why the ratio may mislead here."""
    ratio_seconds: float
    """Seconds to compute the ratio from the codes; ``map_seconds`` is the same for the mAP."""
    map_seconds: float | None

    @property
    def ratio(self) -> float:
        """D_inter / D_intra at their percentiles; infinite or NaN where D_intra is 0."""
        return quotient(self.inter, self.intra)

    @property
    def strict_ratio(self) -> float:
        """The paper's ratio, min D_inter / max D_intra."""
        return quotient(self.inter_min, self.intra_max)

    def by(self, criterion: By) -> float:
        """Return the finite value of a criterion; a search wants the largest."""
        if criterion == "map":
            assert self.map is not None
            return self.map
        return bounded_ratio(self.inter, self.intra)

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Score:
        """Return the score of a dict of its fields."""
        return cls(**stored | {"diagnostics": tuple(Diagnostic(**found) for found in stored["diagnostics"])})


def score_codes(
    codes: npt.ArrayLike,
    labels: Any,
    classes: int,
    bits: int,
    percentile: float = PERCENTILE,
    inter_percentile: float = INTER_PERCENTILE,
    *,
    with_map: bool = False,
    top_k: int | None = None,
) -> Score:
    """Score the packed codes of at least two validation rows by the ratio at percentiles of D_intra and D_inter.

    The mAP takes n² comparisons. It is mAP@``top_k``, or over all other rows if ``top_k`` is None or too large. Labels
    are positions among the classes; the other arguments and the errors are those of ``bound``.
    """
    array, checked = check_codes(codes), check_numbers(labels, classes)
    started = time.perf_counter()
    whole = bound_of_parts(in_turn([Part(array, checked)]), np.arange(classes), check_width(array, bits, "codes"))
    found = whole.at_percentile(percentile, inter_percentile)
    ratio_seconds = time.perf_counter() - started
    started = time.perf_counter()
    mean = leave_one_out_map(array, checked, bits, top_k) if with_map else None
    map_seconds = time.perf_counter() - started if with_map else None
    extremes = whole
    distances = [found.inter, found.intra, extremes.inter, extremes.intra]
    # With fewer than two classes D_inter is NaN: there is nothing between them.
    inter, intra, inter_min, intra_max = (float(value) if math.isfinite(value) else 0.0 for value in distances)
    distinct = len(np.unique(array, axis=0))
    diagnostics = tuple(diagnose_codes(array, checked, found, percentile, distinct))
    return Score(inter, intra, inter_min, intra_max, mean, distinct, diagnostics, ratio_seconds, map_seconds)


def bounded_ratio(inter: float, intra: float) -> float:
    """Return ``inter / max(intra, 1)``; 0 with fewer than two classes, or if all codes are equal.

    A D_intra below one bit counts as one bit, so the ratio is at most h. If several settings put most codes onto their
    centers, the one with the more distant centers wins.
    """
    return inter / max(intra, 1.0) if inter > 0 else 0.0


def leave_one_out_map(codes: PackedCodes, labels: Numbers, bits: int, top_k: int | None = None) -> float:
    """Return the expected mAP with each row as a query to all the others; 0 if no two rows share a class.

    Rows that were trained on would be a poor base: their codes lie on their centers even if the settings do not
    generalize.
    """
    histogram = RankHistogram.from_codes(codes, labels, codes, labels, bits)
    unique = histogram.unique
    total, graded = histogram.total[unique], histogram.graded[unique]
    # A row finds itself at distance 0, with as many labels in common as it has.
    own = np.ones(len(unique), np.int64) if labels.ndim == 1 else labels[unique].sum(axis=1, dtype=np.int64)
    total[:, 0] -= 1
    labeled = np.flatnonzero(own)
    graded[labeled, own[labeled] - 1, 0] -= 1
    others = len(codes) - 1
    top_k = others if top_k is None else min(top_k, others)
    values = average_precision(Ranking(total, graded), top_k)[histogram.inverse]
    return float(np.nanmean(values)) if np.isfinite(values).any() else 0.0
