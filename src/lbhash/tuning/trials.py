"""Trials of a search, and what came of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lbhash.evaluation.diagnostics import Caution
from lbhash.evaluation.held_out import By, Score, bounded_ratio

if TYPE_CHECKING:
    from lbhash.hasher import Hasher

State = Literal["complete", "pruned", "failed"]


@dataclass(frozen=True)
class Trial:
    """One training of a search.

    Attributes:
        number: counts from 0.
        params: the settings that were tried.
        state: "complete"; "pruned", ended early as its value was below the median of the trials before; or "failed".
        score: of the held-out rows' codes, where it ended; ``None`` if it failed.
        epochs: that were trained.
        seconds: of the training, with the value of every epoch where trials are pruned.
        why: the line of the error, if it failed.
    """

    number: int
    params: dict[str, Any]
    state: State
    score: Score | None
    epochs: int
    seconds: float
    why: str = ""

    def value(self, by: By) -> float | None:
        """What the criterion gives it; ``None`` if it failed, or was pruned before its mAP was computed."""
        if self.score is None or (by == "map" and self.score.map is None):
            return None
        return self.score.by(by)

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it; a ratio that is not finite is ``None``."""
        held = vars(self) | {"params": dict(self.params)}
        if self.score is None:
            return held | {"warnings": []}
        score = self.score.as_dict()
        warnings = score.pop("cautions")
        ratios = {name: getattr(self.score, name) for name in ("ratio", "strict_ratio")}
        finite = {name: value if math.isfinite(value) else None for name, value in ratios.items()}
        return held | {"score": finite | score, "warnings": warnings}


@dataclass(frozen=True)
class Tuning:
    """What a search found.

    Attributes:
        by: "ratio" or "map", the criterion.
        percentile: of D_intra in the ratio.
        inter_percentile: of D_inter in the ratio.
        hasher: with the best settings; fitted on the whole training part by ``tune``, not fitted by ``search``.
        trials: in their order.
        held_out: how many rows judged them.
        cautions: why the ratio of these held-out rows may mislead, whatever their codes.
    """

    by: By
    percentile: float
    inter_percentile: float
    hasher: Hasher
    trials: tuple[Trial, ...]
    held_out: int
    cautions: tuple[Caution, ...]

    @property
    def best(self) -> Trial:
        """The complete trial with the largest value; of equal ratios that with the paper's, then the first."""
        return best_trial(self.trials, self.by)

    @property
    def best_params(self) -> dict[str, Any]:
        """The settings of the best trial."""
        return dict(self.best.params)

    def table(self) -> list[dict[str, Any]]:
        """A flat row a trial, for a CSV file or a data frame."""
        return [_row(trial, self.by) for trial in self.trials]

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it, without the hasher."""
        return {
            "by": self.by,
            "percentile": self.percentile,
            "inter_percentile": self.inter_percentile,
            "held_out": self.held_out,
            "best_params": self.best_params,
            "best": self.best.as_dict(),
            "warnings": [vars(caution) for caution in self.cautions],
        }


def best_trial(trials: tuple[Trial, ...] | list[Trial], by: By) -> Trial:
    """The complete trial with the largest value; of equal ratios that with the largest of the paper's, then the first.

    Where most codes lie on their centers, D_intra at its percentile is a bit or less in many trials, and their ratios
    are equal.

    Raises:
        ValueError: no trial is complete.
    """
    complete = [trial for trial in trials if trial.state == "complete"]
    if not complete:
        why = next((trial.why for trial in reversed(trials) if trial.why), "none was run")
        raise ValueError(f"none of {len(trials)} trials came to its end: {why}")
    return max(complete, key=lambda trial: (trial.value(by) or 0.0, _strict(trial) if by == "ratio" else 0.0))


def _strict(trial: Trial) -> float:
    """The ratio as the paper has it, and finite."""
    return 0.0 if trial.score is None else bounded_ratio(trial.score.inter_min, trial.score.intra_max)


def _row(trial: Trial, by: By) -> dict[str, Any]:
    score = trial.score
    row: dict[str, Any] = {"number": trial.number, "state": trial.state, "value": trial.value(by)}
    for name in ("ratio", "strict_ratio", "inter", "intra", "inter_min", "intra_max", "map", "distinct"):
        row[name] = getattr(score, name) if score else None
    row |= {"epochs": trial.epochs, "train_seconds": trial.seconds}
    for name in ("ratio_seconds", "map_seconds"):
        row[name] = getattr(score, name) if score else None
    lines = [caution.line for caution in score.cautions] if score else []
    return row | {"warnings": "; ".join(lines), "why": trial.why} | trial.params
