"""The sums in average precision, each by a closed form where that is exact enough."""

from __future__ import annotations

import numpy as np

from lbhash.utils.compiled import compiled


@compiled
def harmonic(after: int, count: int) -> float:
    """Return ``sum of 1/(after + k) for k = 1 ... count``, without the cancellation of a difference of two large sums.

    Few terms, and those up to 64, are added one by one; the others follow from the expansion of the digamma function,
    ``H_n = log x + gamma + 1/(24 x^2) - 7/(960 x^4) + 31/(8064 x^6) - ...`` with x = n + 1/2.
    """
    total = 0.0
    stop = after + count
    low = stop if count <= 16 else min(stop, max(after, 64))
    for k in range(after + 1, low + 1):
        total += 1.0 / k
    if stop > low:
        x, y = low + 0.5, stop + 0.5
        p, q = 1.0 / (x * x), 1.0 / (y * y)
        total += np.log1p((stop - low) / x)
        total += (q - p) / 24 - 7 * (q * q - p * p) / 960 + 31 * (q * q * q - p * p * p) / 8064
    return total


@compiled
def moment(after: int, count: int, harmonic: float) -> float:
    """Return ``sum of (k-1)/(after + k) for k = 1 ... count``, term by term where the closed form would cancel."""
    if count > 64:
        return count - (after + 1) * harmonic
    total = 0.0
    for k in range(1, count + 1):
        total += (k - 1) / (after + k)
    return total


@compiled
def run(relevant: int, before: int, after: int) -> float:
    """Return ``sum of (before + j)/(after + j) for j = 1 ... relevant``, the precisions of a run of relevant codes."""
    if relevant > 64:
        return relevant + (before - after) * harmonic(after, relevant)
    total = 0.0
    for j in range(1, relevant + 1):
        total += (before + j) / (after + j)
    return total
