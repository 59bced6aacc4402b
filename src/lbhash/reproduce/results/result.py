"""What an experiment returns: a table of numbers, words and intervals, a figure, and what was done."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lbhash.trials.intervals import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]


def lift_counts(lifts: Sequence[Interval]) -> dict[str, int | None]:
    """Count the means above 0, and the intervals wholly above and below it; ``None`` if there are no intervals."""
    ends = [(lift.mean - lift.half, lift.mean + lift.half) for lift in lifts if lift.half is not None]
    return {
        "lift > 0": sum(lift.mean > 0 for lift in lifts),
        "interval above 0": sum(low > 0 for low, _ in ends) if ends else None,
        "interval below 0": sum(high < 0 for _, high in ends) if ends else None,
    }


@dataclass(frozen=True, eq=False)
class Regression:
    """The line of least squares through the finite points ``x``, ``y``.

    ``pearson`` is the correlation of x and y, ``spearman`` that of their ranks.
    """

    slope: float
    intercept: float
    pearson: float
    spearman: float
    x: Floats
    y: Floats

    @classmethod
    def of(cls, x: npt.ArrayLike, y: npt.ArrayLike) -> Regression | None:
        """Return the line; ``None`` with fewer than three finite points, or if x or y is the same in all of them."""
        points = np.array([np.ravel(x), np.ravel(y)], np.float64)
        finite = np.isfinite(points).all(axis=0)
        a, b = points[:, finite]
        if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
            return None
        from scipy.stats import linregress, spearmanr

        line = linregress(a, b)
        rank = float(spearmanr(a, b).statistic)
        return cls(float(line.slope), float(line.intercept), float(line.rvalue), rank, a, b)

    def line(self, x: Floats) -> Floats:
        """Return the line's y at these x."""
        return self.intercept + self.slope * x

    def band(self, x: Floats) -> Floats:
        """Return half the height of the line's 95 % confidence band at these x.

        t₀.₉₇₅(n − 2) s √(1/n + (x − x̄)² / Σ(x_i − x̄)²) with s² = Σ(y_i − line)² / (n − 2).
        """
        from scipy.stats import t

        n, mean = len(self.x), self.x.mean()
        s = math.sqrt(np.square(self.y - self.line(self.x)).sum() / (n - 2))
        spread = np.square(x - mean) / np.square(self.x - mean).sum()
        return t.ppf(0.975, n - 2) * s * np.sqrt(1 / n + spread)


Cell = str | int | float | Interval | None
"""A cell of a table; ``None`` is empty."""

Record = dict[str, Cell]
"""A row of a table by its columns."""


@dataclass(frozen=True)
class Result:
    """A table with its figure; ``text`` says in Markdown what was done and what to note.

    ``more`` are further tables with figures; each key is what their files' names add to the experiment's name.
    ``digits`` is how many digits after the point people read.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    text: str
    figure: Callable[[], Figure]
    more: Mapping[str, Result] = field(default_factory=dict)
    digits: int = 4

    @classmethod
    def of(
        cls,
        title: str,
        records: Sequence[Record],
        text: str,
        figure: Callable[[], Figure],
        more: Mapping[str, Result] | None = None,
        *,
        digits: int = 2,
    ) -> Result:
        """Return a result with a row for each record.

        The column "NAME, paper" holds the paper's figures for the column NAME. It is left out if it is empty, since
        the paper has no such data.
        """
        filled = {name for record in records for name, value in record.items() if value is not None}
        columns = [name for name in records[0] if name in filled or not name.endswith(", paper")]
        rows = [[record[column] for column in columns] for record in records]
        return cls(title, columns, rows, text, figure, more or {}, digits)

    def tables(self, name: str) -> dict[str, Result]:
        """Return this table and the further ones by the names of their files."""
        return {name: self} | {f"{name}-{suffix}": other for suffix, other in self.more.items()}
