"""A progress bar for training: epochs, loss, ratio, speed and time left."""

from __future__ import annotations

import time
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn

from lbhash.training.loop import Training, Watcher
from lbhash.utils.progress import bar_console

_SECONDS = 0.2
"""Seconds between two updates; reading the loss waits for the GPU."""


class EpochBar(Watcher):
    """A progress bar on standard error that moves with each step; with several processes, only the first shows it.

    It shows the finished epochs (with fractions), the mean loss of the current epoch, the last epoch's ratio and
    monitored value, rows per second, and the estimated time left. Use it as a context manager: it restores the terminal
    at the end.

    Args:
        title: the name of the trained method.
        unit: the plural noun for rows.
    """

    def __init__(self, title: str, unit: str = "rows") -> None:
        self.unit = unit
        self._first: int | None = None
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[said]}"),
            console=bar_console(),
        )
        self._task = self._bar.add_task(f"{title:<12}", total=None, said="")

    def __enter__(self) -> EpochBar:
        return self

    def __exit__(self, *error: Any) -> None:
        if self._bar.live.is_started:
            self._bar.stop()

    def epoch_began(self, training: Training) -> None:
        """Show the bar when the first epoch begins."""
        self._rows, self._epoch_began = 0, time.perf_counter()
        self._looked = self._epoch_began
        if self._first is None:
            self._first, self._began = training.epoch, self._epoch_began
            if training.place.first:
                self._bar.start()
            self._bar.update(self._task, total=training.epochs, completed=training.epoch)

    def step_done(self, training: Training) -> None:
        """Move the bar, at most a few times per second."""
        self._rows += len(training.index)
        if time.perf_counter() - self._looked >= _SECONDS:
            self._looked = time.perf_counter()
            done = training.epoch + (training.step + 1) / training.steps
            speed = self._rows / (self._looked - self._epoch_began)
            self._say(training, done, speed, float(training.losses[: training.step + 1].mean()))

    def epoch_ended(self, training: Training) -> None:
        """Show the metrics of the epoch."""
        self._say(training, training.epoch + 1, training.rows_per_second)

    def _say(self, training: Training, done: float, speed: float, loss: float | None = None) -> None:
        assert self._first is not None
        total, spent = training.epochs, time.perf_counter() - self._began
        done_of_all = f"{done:.{0 if loss is None else 1}f}/{total} epochs"
        clock = _clock(spent)
        if self._first < done < total:
            clock = f"{_clock(spent * (total - done) / (done - self._first))} left"
        values = {} if training.metrics is None else dict(training.metrics.values)
        if loss is not None:
            values["loss"] = loss
        shown = dict.fromkeys(("loss", "ratio", training.monitored_name))
        lines = [
            [done_of_all, f"{speed:,.0f} {self.unit} a second", clock],
            [f"{name.replace('_', ' ')} {values[name]:.3f}" for name in shown if name in values],
        ]
        self._bar.update(self._task, completed=done, said="\n".join(" · ".join(line) for line in lines))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
