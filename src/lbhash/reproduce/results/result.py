"""What an experiment returns: a table, a figure, and what was done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lbhash.reproduce.results.interval import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cell = str | int | float | Interval | None
"""A cell of a table; ``None`` is empty."""

Record = dict[str, Cell]
"""A row of a table by its columns."""


@dataclass(frozen=True)
class Result:
    """A table with its figure; ``text`` says in Markdown what was done and what to note.

    ``more`` are further tables with figures; each key is what their files' names add to the experiment's name.
    ``digits`` is how many digits after the point people read. ``paper`` names the columns that hold the paper's
    figures, each with the column of ours to compare it with, or ``None``.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    text: str
    figure: Callable[[], Figure]
    more: Mapping[str, Result] = field(default_factory=dict)
    digits: int = 4
    paper: Mapping[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"a row of {self.title!r} has {len(row)} cells; it has {len(self.columns)} columns")
        for column in (*self.paper, *filter(None, self.paper.values())):
            if column not in self.columns:
                raise ValueError(f"{self.title!r} has no column {column!r}, which paper names")

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
        paper: Mapping[str, str | None] | None = None,
    ) -> Result:
        """Return a result with a row for each record.

        The column "NAME, paper" holds the paper's figures for the column NAME, unless ``paper`` says otherwise. An
        empty column of the paper's is left out, since the paper has no such data.
        """
        compared = {f"{name}, paper": name for name in records[0] if f"{name}, paper" in records[0]}
        of_paper = compared | dict(paper or {})
        empty = {column for column in of_paper if all(record[column] is None for record in records)}
        columns = [column for column in records[0] if column not in empty]
        rows = [[record[column] for column in columns] for record in records]
        known = {column: ours for column, ours in of_paper.items() if column not in empty}
        return cls(title, columns, rows, text, figure, more or {}, digits, known)

    def tables(self, name: str) -> dict[str, Result]:
        """Return this table and the further ones by the names of their files."""
        return {name: self} | {f"{name}-{suffix}": other for suffix, other in self.more.items()}
