"""The paper's guidance with arranged centers beside the same without, judged by the data's own queries."""

from __future__ import annotations

from lbhash.reproduce.guidance import compared, trainings
from lbhash.reproduce.results.result import Result
from lbhash.reproduce.runs.config import Cell
from lbhash.reproduce.runs.settings import Settings


def cells(settings: Settings) -> list[Cell]:
    """The trainings."""
    return trainings(settings, settings.all_sources())


def run(settings: Settings) -> Result:
    """As ``lbhash.reproduce.guidance``, with the whole training split to train on."""
    return compared(settings, settings.all_sources(), "Guidance on the queries", "on the data's own queries")
