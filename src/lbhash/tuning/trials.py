"""The trials of a search, and its result."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lbhash.evaluation.diagnostics import Diagnostic
from lbhash.evaluation.held_out import By, Score, bounded_ratio
from lbhash.hasher import Hasher

State = Literal["complete", "pruned", "failed"]


@dataclass(frozen=True)
class Trial:
    """One training of a search: its number from 0, the settings that were tried, and what came of them."""

    number: int
    params: dict[str, Any]
    state: State
    """"pruned" is a trial that was ended early, as its value was below the median of the trials before."""
    score: Score | None
    """The score of the validation rows' codes at the end; None if the trial failed."""
    epochs: int
    seconds: float
    """Seconds of training, with the evaluation of each epoch if trials are pruned."""
    why: str = ""
    """The line of the error, if the trial failed."""

    def value(self, by: By) -> float | None:
        """Return the value of the criterion; None if the trial failed, or was pruned before its mAP was computed."""
        if self.score is None or (by == "map" and self.score.map is None):
            return None
        return self.score.by(by)

    def as_dict(self) -> dict[str, Any]:
        """Return the trial as JSON holds it; a ratio that is not finite is None."""
        fields = asdict(self)
        if self.score is None:
            return fields | {"warnings": []}
        warnings = fields["score"].pop("diagnostics")
        for name in ("ratio", "strict_ratio"):
            value = getattr(self.score, name)
            fields["score"][name] = value if math.isfinite(value) else None
        return fields | {"warnings": warnings}

    def row(self, by: By) -> dict[str, Any]:
        """Return the trial as a flat row of a table."""
        row: dict[str, Any] = {"number": self.number, "state": self.state, "value": self.value(by)}
        for name in ("ratio", "strict_ratio", "inter", "intra", "inter_min", "intra_max", "map", "distinct"):
            row[name] = getattr(self.score, name, None)
        row |= {"epochs": self.epochs, "train_seconds": self.seconds}
        row |= {name: getattr(self.score, name, None) for name in ("ratio_seconds", "map_seconds")}
        lines = [found.line for found in self.score.diagnostics] if self.score else []
        return row | {"warnings": "; ".join(lines), "why": self.why} | self.params


@dataclass(frozen=True)
class Tuning:
    """The result of a search: the criterion ``by``, the percentiles of D_intra and D_inter, and the trials."""

    by: By
    percentile: float
    inter_percentile: float
    hasher: Hasher
    """A hasher with the best settings; ``tune`` fits it on the whole training split, ``search`` does not."""
    trials: tuple[Trial, ...]
    held_out: int
    """The number of validation rows."""
    diagnostics: tuple[Diagnostic, ...]
    """Why the ratio of these validation rows may mislead, whatever their codes."""

    @property
    def best(self) -> Trial:
        """The trial that ``best_trial`` chooses."""
        return best_trial(self.trials, self.by)

    @property
    def best_params(self) -> dict[str, Any]:
        """The settings of the best trial."""
        return dict(self.best.params)

    def table(self) -> list[dict[str, Any]]:
        """Return a flat row for each trial, for a CSV file or a data frame."""
        return [trial.row(self.by) for trial in self.trials]

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON holds it, without the hasher."""
        plain = {name: getattr(self, name) for name in ("by", "percentile", "inter_percentile", "held_out")}
        warnings = [vars(found) for found in self.diagnostics]
        return plain | {"best_params": self.best_params, "best": self.best.as_dict(), "warnings": warnings}


def best_trial(trials: tuple[Trial, ...] | list[Trial], by: By) -> Trial:
    """Return the complete trial with the largest value; of equal ones, the one with the larger paper ratio.

    Ratios are often equal: if most codes lie on their centers, D_intra at its percentile is a bit or less.
    """

    def key(trial: Trial) -> tuple[float, float]:
        assert trial.score is not None
        strict = bounded_ratio(trial.score.inter_min, trial.score.intra_max)
        return trial.value(by) or 0.0, strict if by == "ratio" else 0.0

    complete = [trial for trial in trials if trial.state == "complete"]
    if not complete:
        why = next((trial.why for trial in reversed(trials) if trial.why), "no trial was run")
        raise ValueError(f"none of {len(trials)} trials came to its end: {why}")
    return max(complete, key=key)
