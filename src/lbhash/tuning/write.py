"""The files of a search: the trials as a table, the best as JSON, and a plot."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from lbhash.evaluation.held_out import Score
from lbhash.tuning.trials import Tuning
from lbhash.utils.files import replacing, write_json
from lbhash.utils.plotting import new_figure, palette

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_tuning(found: Tuning, folder: str | Path) -> list[Path]:
    """Write ``trials.csv`` and ``best.json``, and ``ratio_map.png`` if two mAP are known, and return the files."""
    out = Path(folder)
    rows = found.table()
    with replacing(out / "trials.csv") as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    write_json(out / "best.json", found.as_dict())
    files = [out / "trials.csv", out / "best.json"]
    if len(_scores_with_map(found)) >= 2:
        files.append(out / "ratio_map.png")
        with replacing(files[-1]) as temporary:
            ratio_map_figure(found).savefig(temporary, format="png", dpi=150)
    return files


def ratio_map_figure(found: Tuning) -> Figure:
    """Plot the ratio of the validation rows against their mAP, a point for each trial, hollow if it has a warning."""
    figure, (axes,) = new_figure(6.5, 4.5)
    color, chosen = palette(2)
    for number, score in _scores_with_map(found).items():
        point = score.by("ratio"), score.by("map")
        fill = "white" if score.diagnostics else color
        axes.plot(*point, "o", color=color, markerfacecolor=fill, markersize=6)
        axes.annotate(str(number), point, (4, 4), textcoords="offset points", fontsize=7)
        if number == found.best.number:
            axes.plot(*point, "o", color=chosen, markerfacecolor="none", markersize=12)
    axes.plot([], [], "o", color=color, label="a trial")
    axes.plot([], [], "o", color=color, markerfacecolor="white", label="a trial with a warning")
    axes.plot([], [], "o", color=chosen, markerfacecolor="none", markersize=12, label="chosen")
    inter = "min D_inter" if found.inter_percentile == 0 else f"D_inter ({found.inter_percentile:g} %)"
    intra = "max D_intra" if found.percentile == 100 else f"D_intra ({found.percentile:g} %)"
    axes.set(xlabel=f"{inter} / {intra} of the validation rows", ylabel="mAP of the validation rows")
    axes.legend()
    return figure


def _scores_with_map(found: Tuning) -> dict[int, Score]:
    return {trial.number: trial.score for trial in found.trials if trial.score and trial.score.map is not None}
