"""The paper's tables of mAP and of recognition: host methods and their guided forms, and what guidance adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.reproduce import paper
from lbhash.reproduce.results import Record, Result, lift_counts, panels
from lbhash.reproduce.runs import METHODS, Settings, Source, UnsuitableData
from lbhash.reproduce.runs.trained import BITS, RunConfig, completed, grid, pairs, with_setting
from lbhash.reproduce.texts import text
from lbhash.trials.intervals import Interval

GROUPS = {"pairwise methods": METHODS[:4], "GreedyHash and CSQ": METHODS[4:], "all methods": METHODS}
"""The methods that learn from pairs of rows, and those that have a target for each row."""

RECOGNITION, IMAGENET = "recognition", "imagenet"
CLASSES = 1000

Pair = tuple[RunConfig, Record, npt.NDArray[np.float64]]
"""A host's run, its row of the table, and its lift in points, one value per seed."""


def suitable(settings: Settings, name: str) -> Sequence[Source]:
    """Return the data sets that a table can use; raise ``UnsuitableData`` if there is none."""
    if name == RECOGNITION:
        return settings.single_label(name)
    given = settings.all_sources()
    sources = [source for source in given if name != IMAGENET or source.classes() == CLASSES]
    if not sources:
        known = ", ".join(f"{source.name} has {source.classes():,}" for source in given)
        raise UnsuitableData(
            f"imagenet needs data of {CLASSES:,} classes, and {known}; give embeddings of ILSVRC 2012 with in_train, "
            "in_base and in_query columns as --data imagenet=FILE"
        )
    return sources


def run(settings: Settings, name: str) -> Result:
    """Return the mean lifts, and a table of all cells for each set of data; ``name`` is the experiment's."""
    metric, reported, keys = "mAP", paper.MAP, ["report", "map"]
    if name == RECOGNITION:
        metric, reported, keys = "Recognition accuracy", paper.RECOGNITION, [RECOGNITION]
    sources = suitable(settings, name)
    done = completed(settings, grid(settings, BITS, pairs(settings), sources=sources))
    by_source: dict[Source, list[Pair]] = {source: [] for source in sources}
    for pair in zip(done[::2], done[1::2], strict=True):
        host, guided = (100 * one.values(*keys) for one in pair)
        config = pair[0].config
        of_paper = reported.get(config.source.column or "", {}).get(config.method, {}).get(config.bits)
        before, after = of_paper or (None, None)
        record: Record = {"bits": config.bits, "method": config.title}
        record |= {"host": Interval.of(host), "host, paper": before}
        record |= {"guided": Interval.of(guided), "guided, paper": after}
        record |= {"lift": Interval.of(guided - host), "lift, paper": of_paper and of_paper[1] - of_paper[0]}
        by_source[config.source].append((config, record, guided - host))
    records = {source: [record for _, record, _ in own] for source, own in by_source.items()}
    drawn = [record | {"data": source.name} for source, own in records.items() for record in own]
    return Result.of(
        f"{metric}: what guidance adds, in points",
        lift_records(by_source),
        with_setting(text(name, "host-guided-lift"), settings, sources),
        panels.points(drawn, ["lift"], "method", "bits", xlabel="lift in points"),
        {source.name: pair_table(metric, source, own) for source, own in records.items()},
    )


def lift_records(by_source: Mapping[Source, Sequence[Pair]]) -> list[Record]:
    """Return the mean lift of each group of methods on each set of data."""
    records = []
    for source, of_source in by_source.items():
        for group, methods in GROUPS.items():
            own = [(record, lift) for config, record, lift in of_source if config.method in methods]
            if not own:
                continue
            known: list[Any] = [record["lift, paper"] for record, _ in own if record["lift, paper"] is not None]
            record: Record = {"data": source.name, "methods": group, "cells": len(own)}
            record["lift"] = Interval.of(np.mean([lift for _, lift in own], axis=0))
            record["lift, paper"] = float(np.mean(known)) if len(known) == len(own) else None
            records.append(record | lift_counts([Interval.of(lift) for _, lift in own]))
    return records


def pair_table(metric: str, source: Source, records: list[Record]) -> Result:
    """Return all cells of a set of data, with the paper's figures if it has such data."""
    cells = [
        {name: record[name] for name in ("bits", "method")}
        | {"recipe": recipe, metric: record[recipe], f"{metric}, paper": record[f"{recipe}, paper"]}
        for record in records
        for recipe in ("host", "guided")
    ]
    figure = panels.points(cells, [metric], "method", "recipe", by=["bits"], xlabel=f"{metric}, %")
    return Result.of(f"{metric} on {source.name}", records, text("host-guided", measure=metric), figure)
