"""The result of a search: Optuna's trials with the scores of their codes, the best trial, and files of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped]

from lbhash.evaluation.diagnostics import Diagnostic
from lbhash.evaluation.held_out import By, Score, bounded_ratio
from lbhash.hasher import Hasher
from lbhash.utils.files import replacing, write_json, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from optuna.trial import FrozenTrial


def state_of(trial: FrozenTrial) -> str:
    """Return "complete", "fail", or "pruned" for a trial that ended early, below the median of earlier trials."""
    return trial.state.name.lower()


def score_of(trial: FrozenTrial) -> Score | None:
    """Return the score of the held-out rows' codes at a trial's end; None if the trial failed."""
    held = trial.user_attrs["score"]
    return None if held is None else Score.from_dict(held)


def as_dict(trial: FrozenTrial) -> dict[str, Any]:
    """Return a trial as JSON values; a ratio that is not finite is None."""
    attributes = {**trial.user_attrs, "score": None, "warnings": []}
    score = score_of(trial)
    if score is not None:
        figures = {**trial.user_attrs["score"], "ratio": score.ratio, "strict_ratio": score.strict_ratio}
        attributes["warnings"] = figures.pop("diagnostics")
        attributes["score"] = {
            name: None if value is None or not math.isfinite(value) else value for name, value in figures.items()
        }
    return {"number": trial.number, "params": trial.params, "state": state_of(trial), **attributes}


@dataclass(frozen=True)
class Tuning:
    """The result of a search.

    Attributes:
        by: the criterion, "ratio" or "map".
        percentile: percentile of D_intra in the ratio.
        inter_percentile: percentile of D_inter in the ratio.
        hasher: a hasher with the best settings; ``tune`` fits it on the whole training split, ``search`` does not.
        trials: Optuna's trials, with ``number``, ``params``, ``state``, ``value`` and ``user_attrs``.
        held_out: number of held-out rows.
        diagnostics: reasons why the ratio of these held-out rows may mislead, whatever their codes.
    """

    by: By
    percentile: float
    inter_percentile: float
    hasher: Hasher
    trials: tuple[FrozenTrial, ...]
    held_out: int
    diagnostics: tuple[Diagnostic, ...]

    @property
    def best(self) -> FrozenTrial:
        """The trial that ``best_trial`` chooses."""
        return best_trial(self.trials, self.by)

    @property
    def best_params(self) -> dict[str, Any]:
        """The settings of the best trial."""
        return dict(self.best.params)

    def table(self) -> pd.DataFrame:
        """Return a row for each trial."""
        figures = ("ratio", "strict_ratio", "inter", "intra", "inter_min", "intra_max", "map", "distinct")
        rows = []
        for trial in self.trials:
            score, attributes = score_of(trial), trial.user_attrs
            row = {"number": trial.number, "state": state_of(trial), "value": trial.value}
            row |= {name: getattr(score, name, None) for name in figures}
            row |= {"epochs": attributes["epochs"], "train_seconds": attributes["seconds"]}
            row |= {name: getattr(score, name, None) for name in ("ratio_seconds", "map_seconds")}
            row["warnings"] = "; ".join(found.line for found in score.diagnostics) if score else ""
            rows.append(row | {"why": attributes["why"]} | trial.params)
        return pd.DataFrame(rows, dtype=object)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON values, without the hasher."""
        plain = {name: getattr(self, name) for name in ("by", "percentile", "inter_percentile", "held_out")}
        warnings = [vars(found) for found in self.diagnostics]
        return plain | {"best_params": self.best_params, "best": as_dict(self.best), "warnings": warnings}

    def save(self, folder: str | Path) -> None:
        """Write ``trials.csv`` and ``best.json``, and ``ratio_map.png`` if at least two trials have a mAP."""
        out, table = Path(folder), self.table()
        write_text(out / "trials.csv", table.to_csv(index=False, lineterminator="\n"))
        write_json(out / "best.json", self.as_dict())
        if table["map"].notna().sum() >= 2:
            with replacing(out / "ratio_map.png") as temporary:
                self.figure().savefig(temporary, format="png", dpi=150)

    def figure(self) -> Figure:
        """Plot the ratio of the held-out rows against their mAP, a point for each trial with a mAP."""
        import seaborn as sns

        from lbhash.utils.plotting import new_figure, palette

        inter = "min D_inter" if self.inter_percentile == 0 else f"D_inter ({self.inter_percentile:g} %)"
        intra = "max D_intra" if self.percentile == 100 else f"D_intra ({self.percentile:g} %)"
        x, y = f"{inter} / {intra} of the validation rows", "mAP of the validation rows"
        table = self.table().dropna(subset=["map"])
        ratios = [bounded_ratio(*distances) for distances in zip(table["inter"], table["intra"], strict=True)]
        kinds = table["warnings"].map(lambda line: "a trial with a warning" if line else "a trial")
        shown = pd.DataFrame({x: ratios, y: table["map"].astype(float), "": kinds, "number": table["number"]})
        figure, (axes,) = new_figure(6.5, 4.5)
        sns.scatterplot(shown, x=x, y=y, hue="", style="", palette="colorblind", s=50, ax=axes)
        chosen = shown[shown["number"] == self.best.number]
        ring: dict[str, Any] = {"markerfacecolor": "none", "color": palette(3)[2], "markersize": 12}
        axes.plot(chosen[x], chosen[y], "o", **ring, label="chosen")
        for number, *point in zip(shown["number"], shown[x], shown[y], strict=True):
            axes.annotate(str(number), tuple(point), (4, 4), textcoords="offset points", fontsize=7)
        axes.legend()
        return figure


def best_trial(trials: Sequence[FrozenTrial], by: By) -> FrozenTrial:
    """Return the complete trial with the largest value; among equals, the one with the largest ratio of the paper.

    Ratios are often equal: if most codes lie on their centers, D_intra at its percentile is a bit or less.
    """

    def key(trial: FrozenTrial) -> tuple[float, float]:
        score = score_of(trial)
        assert score is not None
        return score.by(by), bounded_ratio(score.inter_min, score.intra_max) if by == "ratio" else 0.0

    complete = [trial for trial in trials if state_of(trial) == "complete"]
    if not complete:
        why = next((why for trial in reversed(trials) if (why := trial.user_attrs["why"])), "no trial was run")
        raise ValueError(f"none of {len(trials)} trials came to its end: {why}")
    return max(complete, key=key)
