"""Intervals over seeds and queries: Student's t, a nested bootstrap, and p-values corrected by Holm's method."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DRAWS = 10_000


@dataclass(frozen=True)
class Interval:
    """A mean ± half the width of its 95 % confidence interval by Student's t, of ``count`` values.

    Both use the finite values; without any, the mean is infinite. ``half`` is t₀.₉₇₅(n − 1) · s / √n with standard
    deviation s, or ``None`` for a single value. ``infinite`` counts the infinite values.
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
        mean, half = float(finite.mean()) if len(finite) else math.inf, None
        if len(finite) > 1:
            from scipy.stats import t

            half = float(t.ppf(0.975, len(finite) - 1) / math.sqrt(len(finite)) * finite.std(ddof=1))
        return cls(mean, half, len(given), len(given) - len(finite))

    @classmethod
    def of_known(cls, values: Iterable[float]) -> Interval | None:
        """Return the interval of the values that are not NaN; ``None`` if all are."""
        known = [value for value in values if not math.isnan(value)]
        return cls.of(known) if known else None

    def shown(self, digits: int) -> str:
        """Return the interval as people read it, with ``digits`` digits after the point."""
        if not math.isfinite(self.mean):
            return "∞"
        text = f"{self.mean:.{digits}f}" + (f" ± {self.half:.{digits}f}" if self.half is not None else "")
        return text + (f" (∞ in {self.infinite} of {self.count})" if self.infinite else "")


def bootstrap(lift: Floats, draws: int = DRAWS, seed: int = 0) -> Floats:
    """Return means of differences ``lift [..., seeds, queries]`` over seeds and queries drawn anew, ``[..., draws]``.

    All differences have the same draws.
    """
    rng = np.random.default_rng(seed)
    seeds, queries = lift.shape[-2:]
    means = np.empty((*lift.shape[:-2], draws))
    for start in range(0, draws, 500):
        count = min(500, draws - start)
        of_queries = rng.multinomial(queries, np.full(queries, 1 / queries), count) / queries
        of_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), count) / seeds
        means[..., start : start + count] = np.einsum("...sd,ds->...d", lift @ of_queries.T, of_seeds)
    return means


def p_value(means: Floats) -> float:
    """Return the two-sided p-value of a mean of 0, at least 2 / (draws + 1)."""
    below, above = (means <= 0).sum(), (means >= 0).sum()
    return float(min(1.0, 2 * (min(below, above) + 1) / (len(means) + 1)))


def holm(p: Floats) -> Floats:
    """Return the p-values corrected by Holm's method."""
    order = np.argsort(p)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return corrected
