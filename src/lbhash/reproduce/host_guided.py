"""Host methods compared with their guided forms: the table, the lift, and the paper's figures beside ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from lbhash.reproduce import paper
from lbhash.reproduce.results import Interval, Record, Result, lift_counts, plots
from lbhash.reproduce.runs import METHODS, Settings, Source
from lbhash.reproduce.runs.runner import BITS, RunConfig, completed, grid, pairs, with_setting
from lbhash.reproduce.texts import text

GROUPS = {"pairwise methods": METHODS[:4], "GreedyHash and CSQ": METHODS[4:], "all methods": METHODS}
"""The methods that learn from pairs of rows, and those that have a target for each row."""

RECOGNITION, MAP = "recognition", "map"
NAMES = {MAP: "mAP", RECOGNITION: "Recognition accuracy"}
"""The metrics by which hosts are compared."""

Pair = tuple[RunConfig, Record, Sequence[float]]
"""A host's run, its row of the table, and its lift in points, a value a seed."""


def pair_configs(settings: Settings, sources: Iterable[Source] | None = None) -> list[RunConfig]:
    """Return the runs: every method, plain and guided, on every set of data."""
    return grid(settings, BITS, pairs(settings), sources=sources)


def compare(settings: Settings, sources: Sequence[Source], name: str, metric: str = MAP) -> Result:
    """Return the mean lifts, and a table of all cells for each set of data; ``name`` is the experiment's."""
    reported = paper.RECOGNITION if metric == RECOGNITION else paper.MAP
    found = list(completed(settings, pair_configs(settings, sources)).items())
    by_source: dict[Source, list[Pair]] = {source: [] for source in sources}
    for (config, host_runs), (_, guided_runs) in zip(found[::2], found[1::2], strict=True):
        host, guided = (
            100 * np.array([run[metric] if metric == RECOGNITION else run["report"][metric] for run in runs])
            for runs in (host_runs, guided_runs)
        )
        of_paper = reported.get(config.source.column or "", {}).get(config.method, {}).get(config.bits)
        before, after = of_paper or (None, None)
        record: Record = {"bits": config.bits, "method": config.title}
        record |= {"host": Interval.of(host), "host, paper": before}
        record |= {"guided": Interval.of(guided), "guided, paper": after}
        record |= {"lift": Interval.of(guided - host), "lift, paper": of_paper and of_paper[1] - of_paper[0]}
        by_source[config.source].append((config, record, guided - host))
    records = {source: [record for _, record, _ in own] for source, own in by_source.items()}
    return Result.of(
        f"{NAMES[metric]}: what guidance adds, in points",
        lift_records(by_source),
        with_setting(text(name, "host-guided-lift"), settings, sources),
        lambda: plots.panel_figure(
            [record | {"data": source.name} for source, own in records.items() for record in own],
            plots.draw_points, "method", "lift", "bits", panels=["data"], xlabel="lift in points",
        ),
        {source.name: pair_table(NAMES[metric], source, own) for source, own in records.items()},
    )  # fmt: skip


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
    about = text("host-guided", measure=metric)
    cells = plots.long_records(records, ["bits", "method", "lift", "lift, paper"], "recipe", metric)
    return Result.of(
        f"{metric} on {source.name}",
        records,
        about,
        lambda: plots.panel_figure(
            cells, plots.draw_points, "method", metric, "recipe", panels=["bits"], xlabel=f"{metric}, %"
        ),
    )
