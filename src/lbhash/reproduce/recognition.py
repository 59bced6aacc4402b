"""The paper's table of recognition: what share of the queries is given its class."""

from __future__ import annotations

from lbhash.reproduce import paper
from lbhash.reproduce.host_guided import Measure, compare, pair_cells
from lbhash.reproduce.results.result import Result
from lbhash.reproduce.runs.config import Cell
from lbhash.reproduce.runs.grid import single_label
from lbhash.reproduce.runs.settings import Settings

MEASURE = Measure("Recognition accuracy", lambda final: final["recognition"], paper.RECOGNITION)

TEXT = """The share of the queries whose class is recognized from their code: by the method's own classifier where it
has one (GreedyHash, DSDH), else by a vote of the 100 nearest codes of the base. Data with several labels a row have no
such figure and are left out."""


def cells(settings: Settings) -> list[Cell]:
    """The trainings, which are those of ``map``."""
    return pair_cells(settings, single_label(settings, "recognition"))


def run(settings: Settings) -> Result:
    """The mean lifts, and a table for each set of data."""
    return compare(settings, single_label(settings, "recognition"), MEASURE, TEXT)
