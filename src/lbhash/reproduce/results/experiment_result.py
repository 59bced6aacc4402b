"""What an experiment returns: a table of numbers, words and intervals, a figure, and what was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd  # type: ignore[import-untyped]
from matplotlib.figure import Figure

from lbhash.trials.intervals import Interval

Cell = str | int | float | Interval | None
"""A cell of a table; ``None`` is empty."""

Record = dict[str, Cell]
"""A row of a table by its columns."""


def lift_counts(lifts: Sequence[Interval]) -> dict[str, int | None]:
    """Count the means above 0, and the intervals wholly above and below it; ``None`` if there are no intervals."""
    ends = [(lift.mean - lift.half, lift.mean + lift.half) for lift in lifts if lift.half is not None]
    return {
        "lift > 0": sum(lift.mean > 0 for lift in lifts),
        "interval above 0": sum(low > 0 for low, _ in ends) if ends else None,
        "interval below 0": sum(high < 0 for _, high in ends) if ends else None,
    }


@dataclass(frozen=True, eq=False)
class Result:
    """A table with its figure; ``text`` says in Markdown what was done and what to note.

    ``more`` has further tables with figures; their files' names add its keys to the experiment's name. ``digits`` is
    the number of digits shown after the point.
    """

    title: str
    table: pd.DataFrame
    text: str
    figure: Figure | None
    more: Mapping[str, Result] = field(default_factory=dict)
    digits: int = 4

    @classmethod
    def of(
        cls,
        title: str,
        records: Sequence[Record],
        text: str,
        figure: Figure | None,
        more: Mapping[str, Result] | None = None,
        *,
        digits: int = 2,
    ) -> Result:
        """Return a result with a row for each record.

        The column "NAME, paper" holds the paper's figures for the column NAME. It is left out if it is empty, since
        the paper has no such data.
        """
        table = pd.DataFrame(records, dtype=object)
        empty = [name for name in table if name.endswith(", paper") and table[name].isna().all()]
        return cls(title, table.drop(columns=empty), text, figure, more or {}, digits)

    def tables(self, name: str) -> dict[str, Result]:
        """Return this table and the further ones by the names of their files."""
        return {name: self} | {f"{name}-{suffix}": other for suffix, other in self.more.items()}
