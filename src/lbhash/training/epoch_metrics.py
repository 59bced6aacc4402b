"""Metrics of an epoch, among them the value that chooses the best epoch and stops training early.

The ratio of validation rows uses percentiles instead of extremes, and counts a D_intra below one bit as one bit. For
the mAP, each validation row is a query to the others. If codes have collapsed (fewer distinct codes than classes), the
ratio is 0 and the epoch is never the best.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lbhash.codes import PackedCodes
from lbhash.evaluation.lower_bound import bound
from lbhash.training.settings import Monitor
from lbhash.utils.labels import Numbers

VALIDATION_SHARE = 0.1
"""Default share of the training rows for validation, if the monitor needs it."""


@dataclass(frozen=True)
class EncodedRows:
    """Codes of some rows, ``uint8 [n, bytes]``, with their labels, ``int64 [n]`` or multi-hot, and their length."""

    codes: PackedCodes
    labels: Numbers
    bits: int

    @property
    def classes(self) -> int:
        """C, the number of classes."""
        return int(self.labels.max()) + 1 if self.labels.ndim == 1 else self.labels.shape[1]


@dataclass(frozen=True)
class EpochMetrics:
    """The metrics of an epoch.

    Attributes:
        values: the logged values by name.
        monitored: the monitor's value; None if nothing is monitored, or if the epoch cannot be the best one.
    """

    values: dict[str, float]
    monitored: float | None


def check_validation(validation: float | None, monitor: Monitor | None) -> float:
    """Return the share of training rows for validation; if None, the share that the monitor needs.

    Raises:
        ValueError: the share is 0 and the monitor is "map".
    """
    if validation is None:
        return VALIDATION_SHARE if monitor in ("ratio", "map") else 0.0
    check_map_has_rows(monitor, bool(validation))
    return validation


def check_map_has_rows(monitor: Monitor | None, validation: bool) -> None:
    """Raise ``ValueError`` if the monitor is the mAP, which needs validation rows, and there are none."""
    if monitor == "map" and not validation:
        raise ValueError("monitor is 'map', and there are no validation rows; give some, or take the ratio")


def evaluate_epoch(
    monitor: Monitor | None, loss: float, training: EncodedRows, validation: EncodedRows | None
) -> EpochMetrics:
    """Return the metrics of an epoch.

    Args:
        monitor: the criterion; without validation rows, "ratio" uses the training codes.
        loss: the mean loss of the epoch's batches.
        training: the training rows' codes, each from its step in the epoch.
        validation: the codes of the validation rows after the epoch.
    """
    found = bound(training.codes, training.labels, bits=training.bits)
    values = {"loss": loss, "inter": float(found.inter), "intra": float(found.intra), "ratio": float(found.ratio)}
    collapsed = False
    shown = training if validation is None and monitor == "ratio" else validation
    if shown is not None:
        from lbhash.evaluation.held_out import score_codes  # avoids a circular import

        name = "training" if validation is None else "validation"
        score = score_codes(shown.codes, shown.labels, shown.classes, shown.bits, with_map=monitor == "map")
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
    return EpochMetrics(values, monitored)


def monitored_name(monitor: Monitor, validation: bool) -> str:
    """Return the log's name for the monitored value."""
    if monitor == "loss":
        return "loss"
    return f"{'validation' if validation else 'training'}_{monitor}"


def is_better(monitor: Monitor, value: float | None, best: float | None) -> bool:
    """Return whether ``value`` is better than the best so far; an equal one is not."""
    if value is None or best is None:
        return value is not None
    return value < best if monitor == "loss" else value > best


def numpy_labels(labels: Tensor) -> npt.NDArray[np.int64]:
    """Return labels as ``int64`` for the evaluation."""
    return labels.numpy().astype(np.int64)


class CodeBuffer:
    """Collects the codes of an epoch's rows, each from its own step, on the device that computed them."""

    def __init__(self, rows: int) -> None:
        self.rows, self.bits = rows, 0

    def add(self, logits: Tensor, index: Tensor) -> None:
        """Store the codes of raw outputs ``[n, bits]`` of the rows ``int64 [n]``."""
        codes = packed(logits.detach())
        if not self.bits:
            self.bits = logits.shape[1]
            self._codes = codes.new_zeros(self.rows, codes.shape[1])
        self._codes[index] = codes

    def take(self) -> PackedCodes:
        """Return the codes of all rows in row order, ``uint8 [rows, bytes]``."""
        return self._codes.cpu().numpy()


def packed(logits: Tensor) -> Tensor:
    """Return the packed codes of raw outputs on the outputs' device; the result equals ``lbhash.codes.pack``."""
    ones = (logits >= 0).to(torch.uint8)
    ones = torch.nn.functional.pad(ones, (0, -ones.shape[1] % 8)).view(len(ones), -1, 8)
    places = torch.arange(7, -1, -1, dtype=torch.uint8, device=ones.device)
    return (ones << places).sum(-1, dtype=torch.uint8)
