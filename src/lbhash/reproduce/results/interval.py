"""A mean over repetitions with its 95 % confidence interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Interval:
    """A mean ± half the width of its 95 % confidence interval by Student's t.

    Attributes:
        mean: of the finite values; infinite where there is none.
        half: t₀.₉₇₅(n − 1) · s / √n of the n finite values with standard deviation s; ``None`` for a single one.
        count: number of values.
        infinite: how many of them are infinite.
    """

    mean: float
    half: float | None
    count: int
    infinite: int = 0

    @classmethod
    def of(cls, values: Iterable[float]) -> Interval:
        """Of these values, of which there must be one at least."""
        given = np.asarray(list(values), np.float64)
        finite = given[np.isfinite(given)]
        infinite = len(given) - len(finite)
        if not len(finite):
            return cls(math.inf, None, len(given), infinite)
        if len(finite) == 1:
            return cls(float(finite[0]), None, len(given), infinite)
        from scipy.stats import t

        half = t.ppf(0.975, len(finite) - 1) * finite.std(ddof=1) / math.sqrt(len(finite))
        return cls(float(finite.mean()), float(half), len(given), infinite)

    def wholly_above(self, value: float) -> bool:
        """Whether even its lower end is above ``value``; of a single repetition there is no telling."""
        return self.half is not None and self.mean - self.half > value

    def wholly_below(self, value: float) -> bool:
        """Whether even its upper end is below ``value``; of a single repetition there is no telling."""
        return self.half is not None and self.mean + self.half < value

    def shown(self, digits: int) -> str:
        """As people read it, with so many digits after the point."""
        if not math.isfinite(self.mean):
            return "∞"
        text = f"{self.mean:.{digits}f}" + (f" ± {self.half:.{digits}f}" if self.half is not None else "")
        return text + (f" (∞ in {self.infinite} of {self.count})" if self.infinite else "")

    def __str__(self) -> str:
        return self.shown(4)


LIFT_COUNTS = ("lift > 0", "interval above 0", "interval below 0")


def lift_counts(lifts: Sequence[Interval]) -> list[int | None]:
    """How many means are above 0, and how many intervals wholly above and below it; ``None`` where there is none."""
    known = any(lift.half is not None for lift in lifts)
    wholly = [sum(lift.wholly_above(0) for lift in lifts), sum(lift.wholly_below(0) for lift in lifts)]
    return [sum(lift.mean > 0 for lift in lifts), *(wholly if known else (None, None))]


def interval_of_some(values: Iterable[float]) -> Interval | None:
    """Of the values that are not NaN; ``None`` where there is none."""
    given = [value for value in values if not math.isnan(value)]
    return Interval.of(given) if given else None
