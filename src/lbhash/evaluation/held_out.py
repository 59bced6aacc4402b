"""What held-out codes are worth: by the lower bound, and by their mean average precision.

The ratio is that of the codes against the centers of these same codes (``lbhash.evaluation.bound``), not against the
centers that were designed. It is the bound's own definition, it holds for methods that know no designed centers, and
it sees classes that have fallen together: between designed centers D_inter would be the same in every trial.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, check_codes
from lbhash.evaluation.bound import bound, quotient
from lbhash.evaluation.diagnostics import Caution, cautions_of_codes
from lbhash.evaluation.metrics import average_precision
from lbhash.evaluation.ranking import RankHistogram, Ranking
from lbhash.utils.labels import Labels, check_labels

PERCENTILE, INTER_PERCENTILE = 75.0, 10.0
"""Of D_intra in the place of its maximum, and of D_inter in the place of its minimum, where none are named.

The paper's extremes are decided by one code and by one pair of classes, which say little of the settings;
``docs/tuning.md`` holds the percentiles against others.
"""

By = Literal["ratio", "map"]


@dataclass(frozen=True)
class Score:
    """What the held-out rows' codes are worth. Distances are in bits."""

    inter: float
    """D_inter at its percentile."""
    intra: float
    """D_intra at its percentile."""
    inter_min: float
    """min D_inter."""
    intra_max: float
    """max D_intra."""
    map: float | None
    """Mean average precision, each held-out row being a query to all the others; ``None`` where it was not computed."""
    distinct: int
    """How many of the codes differ."""
    cautions: tuple[Caution, ...]
    """Why the ratio may mislead here."""
    ratio_seconds: float
    """What the ratio took, given the codes."""
    map_seconds: float | None
    """What the mAP took, given the codes."""

    @property
    def ratio(self) -> float:
        """D_inter / D_intra at their percentiles; infinite or NaN where D_intra is 0."""
        return quotient(self.inter, self.intra)

    @property
    def strict_ratio(self) -> float:
        """min D_inter / max D_intra, as the paper has it."""
        return quotient(self.inter_min, self.intra_max)

    def by(self, criterion: By) -> float:
        """The value that is searched for the largest of; it is finite.

        A D_intra below one bit counts as one bit: the ratio is then at most h, and of settings that put most codes onto
        their centers those win whose centers are farther apart. All codes equal, 0 / 0, is 0.
        """
        if criterion == "map":
            assert self.map is not None
            return self.map
        return bounded_ratio(self.inter, self.intra)

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON holds them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, held: dict[str, Any]) -> Score:
        """Of what ``as_dict`` gave."""
        return cls(**{**held, "cautions": tuple(Caution(**caution) for caution in held["cautions"])})


def score_codes(
    codes: npt.ArrayLike,
    labels: Any,
    classes: int,
    bits: int,
    percentile: float = PERCENTILE,
    inter_percentile: float = INTER_PERCENTILE,
    *,
    with_map: bool = False,
    at: int | None = None,
) -> Score:
    """Judge codes of held-out rows.

    Args:
        codes: ``uint8 [n, bytes]``, packed; at least two.
        labels: class numbers ``[n]``, or multi-label.
        classes: C.
        bits: h.
        percentile: of D_intra, from 0 to 100; 100 is the maximum.
        inter_percentile: of D_inter, from 0 to 100; 0 is the minimum.
        with_map: whether to compute the mAP too, which takes n² comparisons.
        at: rank R of the mAP; where there are fewer other rows, or none is given, all of them.

    Raises:
        TypeError, ValueError: an argument is not as above.
    """
    array, checked = check_codes(codes), check_labels(labels, classes=classes)
    started = time.perf_counter()
    found = bound(array, checked, percentile, inter_percentile=inter_percentile, classes=classes, bits=bits)
    ratio_seconds = time.perf_counter() - started
    mean = seconds = None
    if with_map:
        started = time.perf_counter()
        mean = leave_one_out_map(array, checked, bits, at)
        seconds = time.perf_counter() - started
    extremes = found.at_percentile(100.0, 0.0)
    distinct = len(np.unique(array, axis=0))
    return Score(
        inter=_number(found.inter),
        intra=_number(found.intra),
        inter_min=_number(extremes.inter),
        intra_max=_number(extremes.intra),
        map=mean,
        distinct=distinct,
        cautions=tuple(cautions_of_codes(array, checked, found, percentile, distinct)),
        ratio_seconds=ratio_seconds,
        map_seconds=seconds,
    )


def bounded_ratio(inter: float, intra: float) -> float:
    """``inter / max(intra, 1)``; 0 with fewer than two classes."""
    return inter / max(intra, 1.0) if inter > 0 else 0.0


def leave_one_out_map(codes: PackedCodes, labels: Labels, bits: int, at: int | None = None) -> float:
    """mAP of every row as a query to all the other rows, in expectation over ties.

    Both sides are rows that were not trained on, as query and base are in the end. Rows that were trained on would be a
    poor base: their codes lie on their centers whether or not the settings generalize.

    Returns:
        The mean over the rows that share a class with another; 0 where none does.
    """
    histogram = RankHistogram.from_codes(codes, labels, codes, labels, bits)
    once = histogram.distinct
    total, graded = histogram.total[once], histogram.graded[once]
    # A row finds itself at distance 0, with as many labels in common as it has.
    own = np.ones(len(once), np.int64) if labels.ndim == 1 else labels[once].sum(axis=1, dtype=np.int64)
    total[:, 0] -= 1
    labeled = np.flatnonzero(own)
    graded[labeled, own[labeled] - 1, 0] -= 1
    others = len(codes) - 1
    values = average_precision(Ranking(total, graded), others if at is None else min(at, others))[histogram.kind]
    return float(np.nanmean(values)) if np.isfinite(values).any() else 0.0


def _number(value: float) -> float:
    """0 in the place of the NaN of fewer than two classes: there is then nothing between them."""
    return float(value) if math.isfinite(value) else 0.0
