"""The paper's table for all 1,000 classes of ImageNet."""

from __future__ import annotations

from lbhash.reproduce.host_guided import compare, pair_configs
from lbhash.reproduce.results import Result
from lbhash.reproduce.runs import Settings, Source, UnsuitableData
from lbhash.reproduce.runs.runner import RunConfig

CLASSES = 1000


def thousand_classes(settings: Settings) -> list[Source]:
    """Return the sets of data with 1,000 classes; raise ``UnsuitableData`` if there is none."""
    sources = [source for source in settings.all_sources() if source.classes() == CLASSES]
    if not sources:
        given = ", ".join(f"{source.name} has {source.classes():,}" for source in settings.all_sources())
        raise UnsuitableData(
            f"imagenet needs data of {CLASSES:,} classes, and {given}; give embeddings of ILSVRC 2012 with in_train, "
            "in_base and in_query columns as --data imagenet=FILE"
        )
    return sources


def configs(settings: Settings) -> list[RunConfig]:
    """Return the runs."""
    return pair_configs(settings, thousand_classes(settings))


def run(settings: Settings) -> Result:
    """Return the mean lifts, and a table for each set of data."""
    return compare(settings, thousand_classes(settings), "imagenet")
