"""Loggers of the values of each epoch."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from lbhash.training.loop import Training
from lbhash.utils.files import check_replaceable, make_folder, replacing
from lbhash.utils.formatting import one_line
from lbhash.utils.system import check_packages


def epoch_log(kind: str | None, folder: Path | None, epochs_before: int) -> CSVLog | TensorBoardLog | None:
    """Return a log of epochs that writes under ``folder`` at once, or None if ``kind`` or ``folder`` is None.

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
        return TensorBoardLog(folder / "logs")
    raise ValueError(f"logger is {kind!r}; it must be csv or tensorboard")


class CSVLog:
    """A CSV file with a line for each epoch, which is whole after every epoch."""

    def __init__(self, file: Path, epochs_before: int) -> None:
        self.file, self._lines = file, list[dict[str, Any]]()
        check_replaceable(file)
        if epochs_before and file.is_file():
            try:
                with file.open(newline="", encoding="utf-8") as lines:
                    self._lines = [row for row in csv.DictReader(lines) if int(row["epoch"]) < epochs_before]
            except (ValueError, KeyError, TypeError, csv.Error) as error:
                line = f"{str(file)!r} is damaged ({one_line(error)}); remove it"
                raise ValueError(f"{line}, and the resumed run begins another") from None

    def add(self, training: Training) -> None:
        """Add a line, without the speed: a resumed run has the log of one that was never interrupted."""
        self._lines.append({**training.logged(), "step": training.updates - 1})
        names = sorted({name for line in self._lines for name in line})
        with replacing(self.file) as temporary, temporary.open("w", newline="", encoding="utf-8") as opened:
            writer = csv.DictWriter(opened, names)
            writer.writeheader()
            writer.writerows(self._lines)


class TensorBoardLog:
    """TensorBoard's event files, which have the speed, too."""

    def __init__(self, folder: Path) -> None:
        check_packages("logger 'tensorboard'", "tensorboard", "tensorboard")
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(folder)

    def add(self, training: Training) -> None:
        """Add a point to each curve."""
        for name, value in (training.logged() | {"rows_per_second": training.rows_per_second}).items():
            self._writer.add_scalar(name, value, training.updates - 1)
        self._writer.flush()
