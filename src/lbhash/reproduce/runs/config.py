"""Trainings as the experiments ask for them: everything of a run but its seed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from lbhash.centers.targets import centers_fingerprint
from lbhash.reproduce.runs.settings import EPOCHS, LR
from lbhash.reproduce.runs.sources import Source

RECIPES: dict[str, dict[str, Any] | None] = {
    "plain": None,
    "guided": {},
    "replace": {"mode": "replace"},
    "balanced": {"weight": "balanced"},
}
"""Options of the guidance by recipe: the plain host has none, "guided" is the paper's X_D, in "replace" the guidance
stands in the place of the host's own loss, in "balanced" it has the weight of ``Objective.guidance_weight``."""

SUFFIXES = {"plain": "", "guided": "_d", "replace": "_replaced", "balanced": "_d_balanced"}

TRAJECTORY, CODES, SECONDS = "trajectory", "codes", "seconds"
PARTS = (TRAJECTORY, CODES, SECONDS)
"""What a run can leave beside its final figures: mAP, ratio and loss by epoch; the codes of query and base; the
processor's seconds of each epoch."""


@dataclass(frozen=True)
class Cell:
    """A training run but for its seed.

    Attributes:
        source: the data.
        method: the host method.
        recipe: one of ``RECIPES``.
        bits: length of a code.
        centers: kind of the class centers.
        epochs: passes over the training rows.
        hidden: width of the head's hidden layer.
        batch_size: rows in a step.
        lr: Adam's learning rate, at first.
        wanted: which of ``PARTS`` a run must leave beside its final figures. It makes no other run of it.
    """

    source: Source
    method: str
    recipe: str = "plain"
    bits: int = 64
    centers: str = "best"
    epochs: int = EPOCHS
    hidden: int = 1024
    batch_size: int = 64
    lr: float = LR
    wanted: frozenset[str] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        if self.recipe not in RECIPES:
            raise ValueError(f"recipe is {self.recipe!r}; it must be one of {', '.join(RECIPES)}")
        unknown = sorted(self.wanted - set(PARTS))
        if unknown:
            raise ValueError(f"wanted has {unknown[0]!r}; it must be some of {', '.join(PARTS)}")

    @property
    def label(self) -> str:
        """Method and recipe: ``csq``, ``csq_d``, ``csq_replaced``."""
        return self.method + SUFFIXES[self.recipe]

    def name(self, seed: int) -> str:
        """Of a run's files: all that decides what is in them."""
        return _name(self, seed)

    def wanting(self, *parts: str) -> Cell:
        """The same run with these parts."""
        return replace(self, wanted=self.wanted | set(parts))


@lru_cache(maxsize=4096)
def _name(cell: Cell, seed: int) -> str:
    from lbhash.losses import METHODS, uses_centers

    options = RECIPES[cell.recipe]
    if cell.recipe == "balanced":
        options = {"weight": METHODS[cell.method].guidance_weight}  # another weight makes another run
    marks = [cell.source.name, cell.label, f"{cell.bits}bits", f"{cell.epochs}epochs", f"seed{seed}"]
    if uses_centers(cell.method, RECIPES[cell.recipe] is not None):
        marks.append(centers_fingerprint(cell.source.classes(), cell.bits, cell.centers, seed))
    rest = json.dumps([cell.hidden, cell.batch_size, cell.lr, options])
    return "-".join([*marks, cell.source.mark(), f"settings{zlib.crc32(rest.encode()):08x}"])


def distinct(cells: Iterable[Cell]) -> list[Cell]:
    """Each run once, with all that is wanted of it."""
    merged: dict[Cell, Cell] = {}
    for cell in cells:
        merged[cell] = merged.get(cell, cell).wanting(*cell.wanted)
    return list(merged.values())
