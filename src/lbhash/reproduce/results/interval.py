"""A mean over repetitions with its 95 % confidence interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Interval:
    """A mean ± half the width of its 95 % confidence interval by Student's t, of ``count`` values.

    Both are of the finite values: the mean is infinite if there is none, and ``half``, t₀.₉₇₅(n − 1) · s / √n with
    standard deviation s, is ``None`` for a single one. ``infinite`` is how many values are infinite.
    """

    mean: float
    half: float | None
    count: int
    infinite: int = 0

    @classmethod
    def of(cls, values: Iterable[float]) -> Interval:
        """Return the interval of one value or more."""
        given = np.asarray(list(values), np.float64)
        finite = given[np.isfinite(given)]
        infinite = len(given) - len(finite)
        if not len(finite):
            return cls(math.inf, None, len(given), infinite)
        if len(finite) == 1:
            return cls(float(finite[0]), None, len(given), infinite)
        half = _factor(len(finite)) * finite.std(ddof=1)
        return cls(float(finite.mean()), float(half), len(given), infinite)

    def with_more(self, values: Iterable[float]) -> Interval:
        """Return the interval of these values, which are finite, and as many more as are given."""
        more = np.asarray(list(values), np.float64)
        count, own = self.count + len(more), 0.0 if self.half is None else self.half / _factor(self.count)
        mean = (self.count * self.mean + more.sum()) / count
        squares = (self.count - 1) * own**2 + self.count * (self.mean - mean) ** 2 + np.square(more - mean).sum()
        half = _factor(count) * math.sqrt(squares / (count - 1)) if count > 1 else None
        return Interval(float(mean), half, count)

    @classmethod
    def of_known(cls, values: Iterable[float]) -> Interval | None:
        """Return the interval of the values that are not NaN; ``None`` if all are."""
        known = [value for value in values if not math.isnan(value)]
        return cls.of(known) if known else None

    def is_above(self, value: float) -> bool:
        """Whether the whole interval is above ``value``; never for a single repetition, which has no interval."""
        return self.half is not None and self.mean - self.half > value

    def is_below(self, value: float) -> bool:
        """Whether the whole interval is below ``value``; never for a single repetition, which has no interval."""
        return self.half is not None and self.mean + self.half < value

    def shown(self, digits: int) -> str:
        """Return the interval as people read it, with so many digits after the point."""
        if not math.isfinite(self.mean):
            return "∞"
        text = f"{self.mean:.{digits}f}" + (f" ± {self.half:.{digits}f}" if self.half is not None else "")
        return text + (f" (∞ in {self.infinite} of {self.count})" if self.infinite else "")

    def __str__(self) -> str:
        return self.shown(4)


def _factor(count: int) -> float:
    """Return t₀.₉₇₅(n − 1) / √n, by which a standard deviation is half the width of the interval."""
    from scipy.stats import t

    return float(t.ppf(0.975, count - 1)) / math.sqrt(count)


def lift_counts(lifts: Sequence[Interval]) -> dict[str, int | None]:
    """Count the means above 0, and the intervals wholly above and below it; ``None`` if there are no intervals."""
    known = any(lift.half is not None for lift in lifts)
    return {
        "lift > 0": sum(lift.mean > 0 for lift in lifts),
        "interval above 0": sum(lift.is_above(0) for lift in lifts) if known else None,
        "interval below 0": sum(lift.is_below(0) for lift in lifts) if known else None,
    }
