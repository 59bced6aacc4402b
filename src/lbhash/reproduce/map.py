"""The paper's main table: mAP of the host methods and of their guided forms."""

from __future__ import annotations

from lbhash.reproduce.host_guided import compare
from lbhash.reproduce.host_guided import pair_configs as configs
from lbhash.reproduce.results import Result
from lbhash.reproduce.runs import Settings

__all__ = ["configs", "run"]


def run(settings: Settings) -> Result:
    """Return the mean lifts, and a table for each set of data."""
    return compare(settings, settings.all_sources(), "map")
