"""The paper's table of recognition: the share of queries whose class is recognized."""

from __future__ import annotations

from lbhash.reproduce.host_guided import RECOGNITION, compare, pair_configs
from lbhash.reproduce.results import Result
from lbhash.reproduce.runs import Settings
from lbhash.reproduce.runs.runner import RunConfig


def configs(settings: Settings) -> list[RunConfig]:
    """Return the runs, which are those of ``map``."""
    return pair_configs(settings, settings.single_label(RECOGNITION))


def run(settings: Settings) -> Result:
    """Return the mean lifts, and a table for each set of data."""
    return compare(settings, settings.single_label(RECOGNITION), RECOGNITION, RECOGNITION)
