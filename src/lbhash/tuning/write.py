"""What a search leaves in its folder: the trials as a table, the best as JSON, and an image."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbhash.tuning.trials import Trial, Tuning
from lbhash.utils.files import replacing, write_json, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_tuning(found: Tuning, folder: str | Path) -> list[Path]:
    """Write ``trials.csv`` and ``best.json``, and ``ratio_map.png`` where ratio and mAP of two trials are known.

    Returns:
        The files.
    """
    out = Path(folder)
    write_text(out / "trials.csv", _csv(found.table()))
    write_json(out / "best.json", found.as_dict())
    files = [out / "trials.csv", out / "best.json"]
    if len(known(found.trials)) >= 2:
        with replacing(out / "ratio_map.png") as temporary:
            ratio_map_figure(found).savefig(temporary, format="png", dpi=150)
        files.append(out / "ratio_map.png")
    return files


def known(trials: Iterable[Trial]) -> list[Trial]:
    """Those of which ratio and mAP are known."""
    return [trial for trial in trials if trial.score is not None and trial.score.map is not None]


def ratio_map_figure(found: Tuning) -> Figure:
    """Held-out ratio against held-out mAP, a point a trial; those that a caution is about are hollow."""
    from lbhash.utils.plotting import new_figure, palette

    figure, (axes,) = new_figure(6.5, 4.5)
    color, chosen = palette(2)
    for trial in known(found.trials):
        score = trial.score
        assert score is not None
        assert score.map is not None
        fill = "white" if score.cautions else color
        axes.plot(score.by("ratio"), score.map, "o", color=color, markerfacecolor=fill, markersize=6)
        axes.annotate(str(trial.number), (score.by("ratio"), score.map), (4, 4), textcoords="offset points", fontsize=7)
        if trial.number == found.best.number:
            axes.plot(score.by("ratio"), score.map, "o", color=chosen, markerfacecolor="none", markersize=12)
    axes.plot([], [], "o", color=color, label="a trial")
    axes.plot([], [], "o", color=color, markerfacecolor="white", label="a trial with a warning")
    axes.plot([], [], "o", color=chosen, markerfacecolor="none", markersize=12, label="chosen")
    inter = "min D_inter" if found.inter_percentile == 0 else f"D_inter ({found.inter_percentile:g} %)"
    intra = "max D_intra" if found.percentile == 100 else f"D_intra ({found.percentile:g} %)"
    axes.set(xlabel=f"{inter} / {intra} of the held-out rows", ylabel="mAP of the held-out rows")
    axes.legend()
    return figure


def _csv(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
