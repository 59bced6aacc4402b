"""Diagnostics of the ratio: the cases in which it misleads, each in one line with its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lbhash.codes import PackedCodes, hamming_distances, pack
from lbhash.evaluation.lower_bound import Bound
from lbhash.utils.labels import Numbers, one_hot

FEW_ROWS = 5
"""The number of validation rows of a class below which its center follows them: if a fifth of the bits are wrong by
chance, D_intra of 3 rows is a fifth too small, and D_intra of 5 rows a fourteenth."""

OUTLIER_PERCENTILE, OUTLIER_FACTOR = 99.0, 2.0
"""Codes are outliers if max D_intra is at least this factor times D_intra at this percentile."""

_NAMED = 3
_CHUNK = 1 << 14


@dataclass(frozen=True)
class Diagnostic:
    """A reason to doubt a ratio, with its figures in ``line``.

    The kinds "equal", "collapsed", "shared", "outliers" and "crossed" are about codes, "few" and "coarse" about the
    validation rows, and "ceiling" is about a search.
    """

    kind: str
    line: str


def diagnose_rows(labels: Numbers, classes: int, percentile: float) -> list[Diagnostic]:
    """Return why the ratio of these validation rows may mislead, whatever their codes."""
    sizes = np.bincount(labels, minlength=classes) if labels.ndim == 1 else labels.sum(axis=0, dtype=np.int64)
    found = []
    small = np.flatnonzero(sizes < FEW_ROWS)
    if len(small):
        least = int(sizes.argmin())
        line = (
            f"{len(small)} of {classes} classes have fewer than {FEW_ROWS} validation rows (class {least} has "
            f"{sizes[least]}); their D_intra is too small, because a center follows the few codes that make it"
        )
        found.append(Diagnostic("few", line))
    rows = int(sizes.sum())
    if percentile < 100 and (rows - 1) * (1 - percentile / 100) < 1:
        line = (
            f"percentile {percentile:g} of {rows:,} validation rows lies between the two farthest; it is almost the "
            "maximum, which one row decides"
        )
        found.append(Diagnostic("coarse", line))
    return found


def diagnose_values(ratios: Sequence[float]) -> list[Diagnostic]:
    """Return why the ratios of trials may mislead: several trials have the largest."""
    best = max(ratios, default=0.0)
    equal = sum(ratio == best for ratio in ratios)
    if equal < 2 or best == 0:
        return []
    line = (
        f"{equal} of {len(ratios)} trials have the largest ratio, {best:g}, and min D_inter / max D_intra decides "
        "among them; a higher percentile tells them apart"
    )
    return [Diagnostic("ceiling", line)]


def diagnose_codes(
    codes: PackedCodes, labels: Numbers, found: Bound, percentile: float, distinct: int
) -> Iterator[Diagnostic]:
    """Yield why the ratio of these codes may mislead; ``distinct`` is the number of different codes."""
    present = int(found.present.sum())
    if distinct == 1:
        yield Diagnostic("equal", f"all {len(codes):,} codes are equal; the ratio is 0 / 0 and says nothing")
        return
    if distinct < present:
        line = (
            f"{present:,} classes have {distinct:,} distinct codes among {len(codes):,} validation rows "
            f"({distinct / present:.0%} of a code each); classes share codes"
        )
        yield Diagnostic("collapsed", line)
    if found.inter_counts[0]:
        yield Diagnostic("shared", _shared_centers(found))
    extremes, most = found.at_percentile(100.0, 0.0), found.at_percentile(OUTLIER_PERCENTILE, 0.0)
    if extremes.inter > 0 and max(extremes.intra, 1.0) >= OUTLIER_FACTOR * max(most.intra, 1.0):
        line = (
            f"max D_intra is {extremes.intra:g}, and {OUTLIER_PERCENTILE:g} % of the codes lie within {most.intra:g}: "
            f"min D_inter / max D_intra is {extremes.ratio:.3g}, and without the few it is {most.ratio:.3g}"
        )
        yield Diagnostic("outliers", line)
    crossed = _crossed(codes, labels, found)
    if crossed > 1 - percentile / 100:
        line = (
            f"{crossed:.1%} of the validation rows lie nearer to another class's center than to their own, and "
            f"percentile {percentile:g} leaves out {1 - percentile / 100:.2g} of them; D_intra is then a distance "
            "between classes"
        )
        yield Diagnostic("crossed", line)


def _shared_centers(found: Bound) -> str:
    classes = np.flatnonzero(found.present)
    _, inverse, counts = np.unique(found.centers[classes], axis=0, return_inverse=True, return_counts=True)
    together = classes[inverse.ravel() == counts.argmax()]
    more = "" if len(together) <= _NAMED else f" and {len(together) - _NAMED} more"
    return (
        f"{counts[counts > 1].sum()} of {len(classes)} classes share their center with another (classes "
        f"{', '.join(map(str, together[:_NAMED]))}{more} have one); min D_inter is 0 whatever the others do"
    )


def _crossed(codes: PackedCodes, labels: Numbers, found: Bound) -> float:
    """Return the share of the labeled rows that are nearer to the center of another class than to their own."""
    centers = pack(found.centers[found.present])
    if len(centers) < 2:
        return 0.0
    crossed = labeled = 0
    for start in range(0, len(codes), _CHUNK):
        rows = slice(start, start + _CHUNK)
        own = one_hot(labels[rows], len(found.present))[:, found.present].astype(bool)
        distances, far = hamming_distances(codes[rows], centers), np.iinfo(np.int32).max
        nearest_own, nearest_other = np.where([own, ~own], distances, far).min(axis=2)
        some = own.any(axis=1)
        crossed += int((nearest_other < nearest_own)[some].sum())
        labeled += int(some.sum())
    return crossed / labeled if labeled else 0.0
