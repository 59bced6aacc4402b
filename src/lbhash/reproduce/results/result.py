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


@dataclass(frozen=True)
class Result:
    """A table with its figure.

    Attributes:
        title: of the table.
        columns: their heads.
        rows: as many cells each.
        text: what was done and what to note, in Markdown; paragraphs are separated by an empty line.
        draw: makes the figure.
        more: further tables with figures, by what is added to the name of their files.
        digits: of numbers, behind the point, as people read them.
        paper: columns with the paper's figures, and which column of ours each is to be compared with, if any.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    text: str
    draw: Callable[[], Figure]
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

    def parts(self, name: str) -> dict[str, Result]:
        """This table and the further ones by the names of their files."""
        return {name: self} | {f"{name}-{suffix}": other for suffix, other in self.more.items()}
