"""The log of a training: one line of values per epoch."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from lbhash.training.loop import Training
from lbhash.utils.files import check_replaceable, make_folder, replacing
from lbhash.utils.validation import refusing


class EpochLog:
    """A CSV file with a line for each epoch, complete after every epoch.

    Args:
        folder: the run's folder; the file is ``logs/metrics.csv`` in it.
        epochs_before: finished epochs of a resumed run, whose lines are kept.
    """

    def __init__(self, folder: Path, epochs_before: int) -> None:
        make_folder(folder)
        self.file, self._lines = folder / "logs" / "metrics.csv", list[dict[str, Any]]()
        check_replaceable(self.file)
        if epochs_before and self.file.is_file():
            said = f"{str(self.file)!r} is damaged; remove it, and the resumed run begins another"
            errors = ValueError, KeyError, TypeError, csv.Error
            with refusing(said, *errors), self.file.open(newline="", encoding="utf-8") as lines:
                self._lines = [row for row in csv.DictReader(lines) if int(row["epoch"]) < epochs_before]

    def add(self, training: Training) -> None:
        """Add a line, without the speed, so that a resumed run has the same log as an uninterrupted one."""
        self._lines.append({**training.logged(), "step": training.updates - 1})
        names = sorted({name for line in self._lines for name in line})
        with replacing(self.file) as temporary, temporary.open("w", newline="", encoding="utf-8") as opened:
            writer = csv.DictWriter(opened, names)
            writer.writeheader()
            writer.writerows(self._lines)
