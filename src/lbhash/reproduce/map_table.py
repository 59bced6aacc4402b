"""The paper's main table: mAP of the host methods and of their guided forms."""

from __future__ import annotations

from lbhash.reproduce import paper
from lbhash.reproduce.host_guided import Measure, compare, pair_cells
from lbhash.reproduce.results.result import Result
from lbhash.reproduce.runs.config import Cell
from lbhash.reproduce.runs.settings import Settings

MEASURE = Measure("mAP", lambda final: final["report"]["map"], paper.MAP)

TEXT = """Mean average precision in expectation over a random order of codes at equal distance, at the rank of the
data's protocol."""


def cells(settings: Settings) -> list[Cell]:
    """The trainings."""
    return pair_cells(settings, settings.all_sources())


def run(settings: Settings) -> Result:
    """The mean lifts, and a table for each set of data."""
    return compare(settings, settings.all_sources(), MEASURE, TEXT)
