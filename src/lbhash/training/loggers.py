"""Loggers of the values of each epoch."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger

from lbhash.utils.files import check_replaceable, make_folder
from lbhash.utils.formatting import one_line


def epoch_logger(kind: str | None, folder: Path | None, epochs_before: int) -> Logger | None:
    """Return a logger that writes under ``folder`` at once, or None if ``kind`` or ``folder`` is None.

    Args:
        kind: "csv" or "tensorboard".
        folder: of the run.
        epochs_before: epochs of a resumed run, whose lines in its log stay.
    """
    if kind is None or folder is None:
        return None
    make_folder(folder)
    if kind == "csv":
        return _csv_logger(folder, epochs_before)
    if kind == "tensorboard":
        try:
            return TensorBoardLogger(folder, name="logs", version="")
        except ModuleNotFoundError:
            raise ValueError("logger is 'tensorboard', which is not installed: pip install tensorboard") from None
    raise ValueError(f"logger is {kind!r}; it must be csv or tensorboard")


def _csv_logger(folder: Path, epochs_before: int) -> CSVLogger:
    """Return a CSV log that is on disk after every epoch."""
    log = folder / "logs" / "metrics.csv"
    check_replaceable(log)
    kept: list[dict[str, Any]] = []
    if epochs_before and log.is_file():
        try:
            with log.open(newline="", encoding="utf-8") as lines:
                kept = [row for row in csv.DictReader(lines) if int(row["epoch"]) < epochs_before]
        except (ValueError, KeyError, TypeError, csv.Error) as error:
            line = f"{str(log)!r} is damaged ({one_line(error)}); remove it"
            raise ValueError(f"{line}, and the resumed run begins another") from None
    logger = CSVLogger(folder, name="logs", version="", flush_logs_every_n_steps=1)
    logger.experiment.metrics.extend(kept)  # the writer begins a file of its own and deletes the one that it finds
    return logger
