"""A progress bar for training: epochs, loss, ratio, speed and time left."""

from __future__ import annotations

import time
from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback
from rich.progress import BarColumn, Progress, TextColumn

from lbhash.utils.progress import bar_console

_SECONDS = 0.2
"""Between two looks: a GPU that is asked for its loss is waited for."""


class EpochBar(Callback):
    """A progress bar on standard error that moves with the steps; of several processes, the first one shows it.

    It shows how many epochs are done, in fractions; the mean loss of the running epoch; the last epoch's ratio and
    monitored value; rows a second; and the time left if all epochs take as long as those of this run so far.

    Args:
        title: what is trained.
        unit: what rows are, in the plural.
    """

    def __init__(self, title: str, unit: str = "rows") -> None:
        self.unit = unit
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[said]}"),
            console=bar_console(),
        )
        self._task = self._bar.add_task(f"{title:<12}", total=None, said="")

    @property
    def said(self) -> str:
        """The text behind the bar."""
        return self._bar.tasks[0].fields["said"]

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Show the bar."""
        if trainer.is_global_zero:
            self._bar.start()
        self._first, self._began = trainer.current_epoch, time.perf_counter()
        self._bar.update(self._task, total=trainer.max_epochs, completed=self._first)

    def on_train_epoch_start(self, trainer: L.Trainer, module: Any) -> None:
        """Show the metrics of the last epoch."""
        self._rows, self._epoch_began = 0, time.perf_counter()
        self._looked = self._epoch_began
        if module.epoch_metrics is not None:
            self._say(trainer, module, trainer.current_epoch, module.rows_per_second)

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_index: int) -> None:
        """Move the bar, a few times a second at most."""
        self._rows += len(batch[2])
        if time.perf_counter() - self._looked >= _SECONDS:
            self._looked = time.perf_counter()
            done = trainer.current_epoch + (batch_index + 1) / int(trainer.num_training_batches)
            speed = self._rows / (self._looked - self._epoch_began)
            self._say(trainer, module, done, speed, float(module.losses[: batch_index + 1].mean()))

    def on_train_end(self, trainer: L.Trainer, module: Any) -> None:
        """Leave the bar standing as it ended."""
        if module.epoch_metrics is not None:
            self._say(trainer, module, trainer.current_epoch, module.rows_per_second)
        self._bar.stop()

    def on_exception(self, trainer: L.Trainer, module: L.LightningModule, exception: BaseException) -> None:
        """Give the terminal back."""
        self._bar.stop()

    def _say(self, trainer: L.Trainer, module: Any, done: float, speed: float, loss: float | None = None) -> None:
        total, spent = int(trainer.max_epochs or 0), time.perf_counter() - self._began
        done_of_all = f"{done:.{0 if loss is None else 1}f}/{total} epochs"
        clock = _clock(spent)
        if self._first < done < total:
            clock = f"{_clock(spent * (total - done) / (done - self._first))} left"
        values = {} if module.epoch_metrics is None else dict(module.epoch_metrics.values)
        if loss is not None:
            values["loss"] = loss
        shown = dict.fromkeys(("loss", "ratio", module.monitored_name))
        lines = [
            [done_of_all, f"{speed:,.0f} {self.unit} a second", clock],
            [f"{name.replace('_', ' ')} {values[name]:.3f}" for name in shown if name in values],
        ]
        self._bar.update(self._task, completed=done, said="\n".join(" · ".join(line) for line in lines))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
