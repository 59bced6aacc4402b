"""A progress bar for training: epochs, loss, ratio and time left."""

from __future__ import annotations

from typing import Any

import lightning as L
from lightning.pytorch.callbacks import Callback
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class EpochBar(Callback):
    """One line on standard error that moves with the steps."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.steps = 0
        self._said = ""
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("epochs {task.fields[said]}"),
            TimeElapsedColumn(),
            TextColumn("·"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Show the bar."""
        self._bar.start()
        self._task = self._bar.add_task(
            f"{self.title:<12}", total=trainer.max_epochs, completed=trainer.current_epoch, said=""
        )

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, batch_index: int
    ) -> None:
        """Move it every few steps."""
        if batch_index % 16 == 0:
            done = trainer.current_epoch + batch_index / max(1, int(trainer.num_training_batches))
            self._bar.update(self._task, completed=int(done))

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Say the epoch's loss and ratio."""
        values = trainer.callback_metrics
        said = "".join(f" {name} {values[name]:.3f}" for name in ("loss", "ratio") if name in values)
        self._bar.update(self._task, completed=trainer.current_epoch + 1, said=said)

    def on_train_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Leave the full bar standing."""
        self._bar.stop()

    def on_exception(self, trainer: L.Trainer, module: L.LightningModule, exception: BaseException) -> None:
        """Give the terminal back."""
        self._bar.stop()
