"""Where the ratio misleads: the edge cases of the bound, each said in a line with its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lbhash.codes import PackedCodes, hamming_distances, pack
from lbhash.evaluation.bound import Bound
from lbhash.utils.labels import Labels, one_hot

FEW_ROWS = 5
"""Held-out rows of a class below which its center follows them: of n = 3 rows with bits that are wrong by chance in a
fifth of cases, D_intra is a fifth too small, of 5 rows a fourteenth."""

OUTLIER_PERCENTILE, OUTLIER_FACTOR = 99.0, 2.0
"""Outliers are spoken of where max D_intra is so many times D_intra at this percentile."""

_NAMED = 3
_CHUNK = 1 << 14


@dataclass(frozen=True)
class Caution:
    """A reason to doubt a ratio.

    Attributes:
        kind: "equal", "collapsed", "shared", "outliers" and "crossed" are of codes, "few" and "coarse" of the held-out
            rows, and "ceiling" is of a search.
        line: the reason with its figures.
    """

    kind: str
    line: str


def cautions_of_rows(labels: Labels, classes: int, percentile: float) -> list[Caution]:
    """What speaks against the ratio of any codes of these held-out rows.

    - few: a class has fewer rows than ``FEW_ROWS``;
    - coarse: the percentile lies between the two farthest rows, so that one of them decides.
    """
    sizes = np.bincount(labels, minlength=classes) if labels.ndim == 1 else labels.sum(axis=0, dtype=np.int64)
    found = []
    small = np.flatnonzero(sizes < FEW_ROWS)
    if len(small):
        least = int(sizes.argmin())
        found.append(
            Caution(
                "few",
                f"{len(small)} of {classes} classes have fewer than {FEW_ROWS} held-out rows (class {least} has "
                f"{sizes[least]}); their D_intra is too small, for a center follows the few codes that make it",
            )
        )
    rows = int(sizes.sum())
    if percentile < 100 and (rows - 1) * (1 - percentile / 100) < 1:
        found.append(
            Caution(
                "coarse",
                f"percentile {percentile:g} of {rows:,} held-out rows lies between the two farthest; it is a maximum "
                "but for the name, which one row decides",
            )
        )
    return found


def cautions_of_values(ratios: Sequence[float]) -> list[Caution]:
    """What speaks against choosing among trials by these ratios of theirs.

    - ceiling: several have the largest, so that something else decides among them.
    """
    best = max(ratios, default=0.0)
    equal = sum(ratio == best for ratio in ratios)
    if equal < 2 or best == 0:
        return []
    return [
        Caution(
            "ceiling",
            f"{equal} of {len(ratios)} trials have the largest ratio, {best:g}, and min D_inter / max D_intra decides "
            "among them; a higher percentile tells them apart",
        )
    ]


def cautions_of_codes(
    codes: PackedCodes, labels: Labels, found: Bound, percentile: float, distinct: int
) -> Iterator[Caution]:
    """What speaks against the ratio of these codes.

    - equal: all of them are one code, so that the ratio is 0 / 0;
    - collapsed: there are fewer codes than classes, so that classes share them;
    - shared: classes have the same center, so that min D_inter is 0 however good the other classes are;
    - outliers: a few codes lie ``OUTLIER_FACTOR`` times as far from their center as all the others, so that the ratio
      at the maximum is theirs;
    - crossed: more rows than the percentile leaves out lie nearer to another class's center than to their own, so that
      D_intra is a distance between classes and no spread within one.
    """
    present = int(found.present.sum())
    if distinct == 1:
        yield Caution("equal", f"all {len(codes):,} held-out codes are equal; the ratio is 0 / 0 and says nothing")
        return
    if distinct < present:
        yield Caution(
            "collapsed",
            f"{present:,} classes have {distinct:,} distinct codes among {len(codes):,} held-out rows "
            f"({distinct / present:.0%} of a code each); classes share codes",
        )
    yield from _shared(found)
    extremes, most = found.at_percentile(100.0, 0.0), found.at_percentile(OUTLIER_PERCENTILE, 0.0)
    if extremes.inter > 0 and max(extremes.intra, 1.0) >= OUTLIER_FACTOR * max(most.intra, 1.0):
        yield Caution(
            "outliers",
            f"max D_intra is {extremes.intra:g}, and {OUTLIER_PERCENTILE:g} % of the codes lie within {most.intra:g}: "
            f"min D_inter / max D_intra is {extremes.ratio:.3g}, and without the few it is {most.ratio:.3g}",
        )
    crossed = _crossed(codes, labels, found)
    if crossed > 1 - percentile / 100:
        yield Caution(
            "crossed",
            f"{crossed:.1%} of the held-out rows lie nearer to another class's center than to their own, and "
            f"percentile {percentile:g} leaves out {1 - percentile / 100:.2g} of them; D_intra is then a distance "
            "between classes",
        )


def _shared(found: Bound) -> Iterator[Caution]:
    if found.inter_counts[0] == 0:
        return
    classes = np.flatnonzero(found.present)
    _, which, counts = np.unique(found.centers[classes], axis=0, return_inverse=True, return_counts=True)
    together = classes[which.ravel() == counts.argmax()]
    more = "" if len(together) <= _NAMED else f" and {len(together) - _NAMED} more"
    yield Caution(
        "shared",
        f"{counts[counts > 1].sum()} of {len(classes)} classes share their center with another (classes "
        f"{', '.join(map(str, together[:_NAMED]))}{more} have one); min D_inter is 0 whatever the others do",
    )


def _crossed(codes: PackedCodes, labels: Labels, found: Bound) -> float:
    """Share of the rows that are nearer to the center of a class that is not theirs; of those that have a class."""
    centers = pack(found.centers[found.present])
    if len(centers) < 2:
        return 0.0
    crossed = labeled = 0
    for start in range(0, len(codes), _CHUNK):
        part = slice(start, start + _CHUNK)
        own = one_hot(labels[part], len(found.present))[:, found.present].astype(bool)
        distances = hamming_distances(codes[part], centers)
        far = np.iinfo(np.int32).max
        nearest_own = np.where(own, distances, far).min(axis=1)
        nearest_other = np.where(own, far, distances).min(axis=1)
        some = own.any(axis=1)
        crossed += int((nearest_other < nearest_own)[some].sum())
        labeled += int(some.sum())
    return crossed / labeled if labeled else 0.0
