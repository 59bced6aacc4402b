"""Loggers of the values of each epoch."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only

from lbhash.utils.files import check_replaceable, make_folder, replacing
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
        return CSVLog(folder / "logs" / "metrics.csv", epochs_before)
    if kind == "tensorboard":
        try:
            return TensorBoardLogger(folder, name="logs", version="")
        except ModuleNotFoundError:
            raise ValueError("logger is 'tensorboard', which is not installed: pip install tensorboard") from None
    raise ValueError(f"logger is {kind!r}; it must be csv or tensorboard")


class CSVLog(Logger):
    """A CSV file with a line for each epoch, which is whole after every epoch."""

    name, version = "logs", ""

    def __init__(self, file: Path, epochs_before: int) -> None:
        super().__init__()
        self.file, self._lines = file, list[dict[str, Any]]()
        check_replaceable(file)
        if epochs_before and file.is_file():
            try:
                with file.open(newline="", encoding="utf-8") as lines:
                    self._lines = [row for row in csv.DictReader(lines) if int(row["epoch"]) < epochs_before]
            except (ValueError, KeyError, TypeError, csv.Error) as error:
                line = f"{str(file)!r} is damaged ({one_line(error)}); remove it"
                raise ValueError(f"{line}, and the resumed run begins another") from None

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Add a line."""
        self._lines.append({**metrics, "step": step})
        names = sorted({name for line in self._lines for name in line})
        with replacing(self.file) as temporary, temporary.open("w", newline="", encoding="utf-8") as opened:
            writer = csv.DictWriter(opened, names)
            writer.writeheader()
            writer.writerows(self._lines)

    def log_hyperparams(self, *given: Any, **more: Any) -> None:
        """Do nothing: the model has its settings."""
