"""The paper's guidance with arranged centers compared with the same without, on the data's own queries."""

from __future__ import annotations

from lbhash.reproduce.guidance import compared, trainings
from lbhash.reproduce.results import Result
from lbhash.reproduce.runs import RunConfig, Settings


def configs(settings: Settings) -> list[RunConfig]:
    """Return the runs."""
    return trainings(settings, settings.all_sources())


def run(settings: Settings) -> Result:
    """Return what ``lbhash.reproduce.guidance`` does, with the whole training split to train on."""
    return compared(settings, settings.all_sources(), "Guidance on the queries", "on the data's own queries")
