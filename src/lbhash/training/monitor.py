"""What an epoch is worth: the value by which the best one is kept and training is stopped early.

Validation rows are judged as ``lbhash.tuning`` judges held-out rows. Their ratio is at percentiles in the place of the
extremes, and with a D_intra below one bit taken as one bit, so that it is finite. Their mAP is of each of them as a
query to the others. Of codes that have collapsed (fewer of them differ than there are classes) the ratio is 0, and
their epoch is never the best one, whatever the criterion says of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lbhash.codes import PackedCodes
from lbhash.evaluation.bound import bound
from lbhash.utils.labels import Labels, check_count

Monitor = Literal["ratio", "map", "loss"]
MONITORS: tuple[str, ...] = get_args(Monitor)

VALIDATION_SHARE = 0.1
"""Of the training rows, where a monitor needs validation rows and nothing says how many."""


@dataclass(frozen=True)
class Coded:
    """Codes of some rows, ``uint8 [n, bytes]``, with their labels, ``int64 [n]`` or multi-hot, and their length."""

    codes: PackedCodes
    labels: Labels
    bits: int

    @property
    def classes(self) -> int:
        """C, the number of classes."""
        return int(self.labels.max()) + 1 if self.labels.ndim == 1 else self.labels.shape[1]


@dataclass(frozen=True)
class Verdict:
    """What is said of an epoch.

    Attributes:
        values: what is logged, by name.
        monitored: the monitor's value; ``None`` where nothing is monitored, or the epoch cannot be the best one.
    """

    values: dict[str, float]
    monitored: float | None


def check_monitor(monitor: Any, patience: Any) -> tuple[Monitor | None, int | None]:
    """Return what is monitored, the ratio where there is only a patience, and the patience.

    Raises:
        TypeError: ``patience`` is not an integer.
        ValueError: ``monitor`` is none of ``MONITORS``, or ``patience`` is below 1.
    """
    if patience is not None:
        patience = check_count(patience, "patience")
        monitor = "ratio" if monitor is None else monitor
    if monitor is not None and monitor not in MONITORS:
        raise ValueError(f"monitor is {monitor!r}; it must be one of {', '.join(MONITORS)}")
    return monitor, patience


def check_validation(validation: Any, monitor: Monitor | None) -> float:
    """Return the share of the training rows that are for validation; where it is not given, what the monitor needs.

    Raises:
        TypeError: ``validation`` is not a number.
        ValueError: it is out of range, or 0 and the monitor is "map".
    """
    if validation is None:
        return VALIDATION_SHARE if monitor in ("ratio", "map") else 0.0
    if isinstance(validation, bool) or not isinstance(validation, (int, float, np.number)):
        raise TypeError(f"validation is {validation!r}; it must be a share of the training rows, from 0 to below 1")
    if not 0 <= validation < 1:
        raise ValueError(f"validation is {validation}; it must be at least 0 and below 1")
    check_map_has_rows(monitor, bool(validation))
    return float(validation)


def check_map_has_rows(monitor: Monitor | None, validation: bool) -> None:
    """Raise ``ValueError`` where a mAP is monitored and there are no validation rows to be its queries."""
    if monitor == "map" and not validation:
        raise ValueError("monitor is 'map', and there are no validation rows; give some, or take the ratio")


def judge(monitor: Monitor | None, loss: float, training: Coded, validation: Coded | None) -> Verdict:
    """What is said of an epoch with this mean loss.

    Args:
        monitor: what decides; with "ratio" and no validation rows it is that of the training codes.
        loss: of the epoch's batches.
        training: the codes that the epoch's rows had when they were seen.
        validation: the codes of the validation rows after the epoch.
    """
    found = bound(training.codes, training.labels, bits=training.bits)
    values = {"loss": loss, "inter": float(found.inter), "intra": float(found.intra), "ratio": float(found.ratio)}
    collapsed = False
    judged = training if validation is None and monitor == "ratio" else validation
    if judged is not None:
        from lbhash.evaluation.held_out import score_codes  # a search trains, so that its package imports this one

        name = "training" if validation is None else "validation"
        score = score_codes(judged.codes, judged.labels, judged.classes, judged.bits, with_map=monitor == "map")
        collapsed = any(diagnostic.kind in ("equal", "collapsed") for diagnostic in score.diagnostics)
        values |= {f"{name}_inter": score.inter, f"{name}_intra": score.intra}
        values[f"{name}_ratio"] = 0.0 if collapsed else score.by("ratio")
        if monitor == "map":
            values[f"{name}_map"] = score.by("map")
    monitored = None
    if monitor is not None:
        monitored = values[monitored_name(monitor, validation is not None)]
        if collapsed or not math.isfinite(monitored) or (monitor != "loss" and monitored == 0):
            monitored = None
    return Verdict(values, monitored)


def monitored_name(monitor: Monitor, validation: bool) -> str:
    """The name under which the monitored value is logged."""
    if monitor == "loss":
        return "loss"
    return f"{'validation' if validation else 'training'}_{monitor}"


def is_better(monitor: Monitor, value: float | None, best: float | None) -> bool:
    """Whether ``value`` is better than the best so far; an equal one is not."""
    if value is None or best is None:
        return value is not None
    return value < best if monitor == "loss" else value > best


def numpy_labels(labels: Tensor) -> npt.NDArray[np.int64]:
    """Labels as codes are judged with."""
    return labels.numpy().astype(np.int64)


class SeenCodes:
    """The codes that the rows of an epoch had when they were seen, packed where they were computed."""

    def __init__(self, rows: int) -> None:
        self.rows, self.bits = rows, 0

    def add(self, logits: Tensor, index: Tensor) -> None:
        """Take the codes of raw outputs ``[n, bits]`` of the rows ``int64 [n]``."""
        codes = packed(logits.detach())
        if not self.bits:
            self.bits = logits.shape[1]
            self._codes = codes.new_zeros(self.rows, codes.shape[1])
        self._codes[index] = codes

    def take(self) -> PackedCodes:
        """The codes of all rows in their order, ``uint8 [rows, bytes]``."""
        return self._codes.cpu().numpy()


def packed(logits: Tensor) -> Tensor:
    """The packed codes of raw outputs, as ``lbhash.codes.pack`` gives them, on the outputs' own device."""
    ones = (logits >= 0).to(torch.uint8)
    ones = torch.nn.functional.pad(ones, (0, -ones.shape[1] % 8)).view(len(ones), -1, 8)
    places = torch.arange(8, dtype=torch.uint8, device=ones.device)
    return (ones << places).sum(-1, dtype=torch.uint8)
