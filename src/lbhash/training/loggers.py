"""The log of a training's epochs."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger


def epoch_logger(kind: str | None, folder: Path | None, epochs_before: int) -> Logger | None:
    """A logger under ``folder``; ``None`` where nothing is asked for. It writes at once.

    Args:
        kind: "csv" or "tensorboard".
        folder: of the run.
        epochs_before: how many epochs of the log that is there are kept, those of the run that is resumed.
    """
    if kind is None or folder is None:
        return None
    if kind == "csv":
        return _csv_logger(folder, epochs_before)
    if kind == "tensorboard":
        try:
            return TensorBoardLogger(folder, name="logs", version="")
        except ModuleNotFoundError:
            raise ValueError("logger is 'tensorboard', which is not installed: pip install tensorboard") from None
    raise ValueError(f"logger is {kind!r}; it must be csv or tensorboard")


def _csv_logger(folder: Path, epochs_before: int) -> CSVLogger:
    """A log that is on disk after every epoch."""
    logger = CSVLogger(folder, name="logs", version="", flush_logs_every_n_steps=1)
    log = folder / "logs" / "metrics.csv"
    kept: list[dict[str, Any]] = []
    if epochs_before and log.is_file():
        with log.open(newline="", encoding="utf-8") as lines:
            kept = [row for row in csv.DictReader(lines) if int(row["epoch"]) < epochs_before]
    logger.experiment.metrics.extend(kept)  # the writer begins a file of its own and deletes the one that it finds
    return logger
