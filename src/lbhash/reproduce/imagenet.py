"""The paper's table for all 1,000 classes of ImageNet."""

from __future__ import annotations

from lbhash.reproduce import paper
from lbhash.reproduce.host_guided import Measure, compare, pair_cells
from lbhash.reproduce.results.result import Result
from lbhash.reproduce.runs.config import Cell
from lbhash.reproduce.runs.settings import Settings
from lbhash.reproduce.runs.sources import Source, UnsuitableData

CLASSES = 1000
MEASURE = Measure("mAP", lambda final: final["report"]["map"], paper.MAP)

TEXT = """The full protocol: all 1,000 classes, some 1.2 million rows to train, 45,000 of the validation set as base and
5,000 of it, 5 a class, as queries; mAP@1,000 of data with the name imagenet."""


def thousand_classes(settings: Settings) -> list[Source]:
    """The sets of data with 1,000 classes; ``UnsuitableData`` where there is none."""
    sources = [source for source in settings.all_sources() if source.classes() == CLASSES]
    if not sources:
        given = ", ".join(f"{source.name} has {source.classes():,}" for source in settings.all_sources())
        raise UnsuitableData(
            f"imagenet needs data of {CLASSES:,} classes, and {given}; give embeddings of ILSVRC 2012 with in_train, "
            "in_base and in_query columns as --data imagenet=FILE"
        )
    return sources


def cells(settings: Settings) -> list[Cell]:
    """The trainings."""
    return pair_cells(settings, thousand_classes(settings))


def run(settings: Settings) -> Result:
    """The mean lifts, and a table for each set of data."""
    return compare(settings, thousand_classes(settings), MEASURE, TEXT)
