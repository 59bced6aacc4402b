"""Checkpoints that survive a kill: the last epoch to resume from, and the best one to keep."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Checkpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch import Tensor

from lbhash.training.module import HashingModule
from lbhash.training.monitor import Monitor, is_better
from lbhash.utils.checksums import add_checksum, check_file
from lbhash.utils.files import replacing
from lbhash.utils.formatting import one_line

LAST, BEST = "last.ckpt", "best.ckpt"
_SETTINGS = "lbhash_settings"


class AtomicCheckpoints(TorchCheckpointIO):
    """Lightning's checkpoints, written beside their place and renamed: a kill leaves the old one or the new one."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint, whole or not at all."""
        write_checkpoint(Path(path), checkpoint)


@dataclass(frozen=True)
class MonitorState:
    """The state of a monitored run, which its checkpoint stores.

    Attributes:
        epochs: how many were run.
        epoch: the best one, counted from 0; None before there is one.
        value: of the monitor, in the best epoch.
        waited: epochs since the best one.
    """

    epochs: int = 0
    epoch: int | None = None
    value: float | None = None
    waited: int = 0


class RunCheckpoints(Checkpoint):
    """Stores the best epoch's weights and the last one's state, and ends a run that gets no better.

    The best weights are written before the state that tells of them, so that after a kill in between the resumed run
    comes to the same epoch again. Without a folder they are kept in memory.

    Args:
        folder: of the run; if None, no file is written.
        settings: of the run, stored in its checkpoints so that another run does not resume from them.
        monitor: the criterion of the best epoch; if None, the last epoch's weights stay.
        patience: epochs without a better value after which the run ends; if None, it never ends early.
    """

    def __init__(
        self, folder: Path | None, settings: dict[str, Any], monitor: Monitor | None, patience: int | None
    ) -> None:
        self.folder = None if folder is None else folder / "checkpoints"
        self.settings, self.monitor, self.patience = settings, monitor, patience
        self.state = MonitorState()
        self._weights: dict[str, Tensor] = {}

    @property
    def out_of_patience(self) -> bool:
        """Whether the last ``patience`` epochs were no better than the best one."""
        return self.patience is not None and self.state.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return asdict(self.state)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state of a checkpoint."""
        self.state = MonitorState(**state_dict)

    def on_save_checkpoint(self, trainer: L.Trainer, module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Store the settings of the run in its checkpoint."""
        checkpoint[_SETTINGS] = self.settings

    def on_fit_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Stop at once if the run that is resumed had ended early, and remove what a killed one left unfinished."""
        trainer.should_stop = self.out_of_patience
        if self.folder is not None and trainer.is_global_zero:
            for unfinished in self.folder.glob(f".*{Path(LAST).suffix}"):  # of a run that was killed while it wrote
                unfinished.unlink()

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Compare the epoch with the best one and write the checkpoints; Lightning calls it after the module's hook."""
        assert isinstance(module, HashingModule)
        state = replace(self.state, epochs=trainer.current_epoch + 1)
        if self.monitor is not None:
            assert module.epoch_metrics is not None
            value = module.epoch_metrics.monitored
            if is_better(self.monitor, value, state.value):
                state = replace(state, epoch=trainer.current_epoch, value=value, waited=0)
                self._keep(trainer, module, state)
            else:
                state = replace(state, waited=state.waited + 1)
        self.state = state
        trainer.should_stop = trainer.should_stop or self.out_of_patience
        if self.folder is not None:
            trainer.save_checkpoint(self.folder / LAST)

    def restore_best(self, trainer: L.Trainer, module: HashingModule) -> None:
        """Load the best epoch's weights into the module, unless the best one is the last."""
        state = self.state
        if state.epoch is None or state.epoch == state.epochs - 1:
            return
        if self.folder is not None:
            trainer.strategy.barrier()  # until the first process has written them
            held = load_checkpoint(self.folder / BEST)
            if held["epoch"] != state.epoch or held[_SETTINGS] != self.settings:
                raise ValueError(
                    f"{BEST} in {str(self.folder.parent)!r} is not of epoch {state.epoch}, the best one of this run; "
                    "start anew without resume"
                )
            self._weights = held["state_dict"]
        module.load_state_dict(self._weights)
        self._weights = {}

    def _keep(self, trainer: L.Trainer, module: HashingModule, state: MonitorState) -> None:
        if self.folder is None:
            weights = module.state_dict()
            self._weights = {name: tensor.detach().cpu().clone() for name, tensor in weights.items()}
        elif trainer.is_global_zero:
            best = {"epoch": state.epoch, "value": state.value, "monitor": self.monitor, _SETTINGS: self.settings}
            write_checkpoint(self.folder / BEST, {**best, "state_dict": module.state_dict()})


def has_checkpoint(directory: str | Path) -> bool:
    """Return whether a folder holds a checkpoint to resume from."""
    return _last(Path(directory)).is_file()


def checkpoint_to_resume(folder: Path | None, settings: dict[str, Any]) -> tuple[Path | None, int]:
    """Return the checkpoint of a run and how many epochs it has behind it; None and 0 if there is none.

    Raises:
        ValueError: it is damaged, or one of a run with other settings.
    """
    if folder is None:
        raise ValueError("resume needs a directory that holds the checkpoint")
    if not has_checkpoint(folder):
        return None, 0
    held = load_checkpoint(_last(folder))
    known = held[_SETTINGS]
    for key in settings:
        if known.get(key) != settings[key]:
            raise ValueError(
                f"{key} is {settings[key]!r}, and the checkpoint in {str(folder)!r} was made with {known.get(key)!r}; "
                "resume with the same settings"
            )
    return _last(folder), held["epoch"] + 1


def write_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint with its checksum, whole or not at all."""
    with replacing(path, RuntimeError) as temporary:  # PyTorch's for any error of the file
        with temporary.open("wb") as opened:
            torch.save(content, opened)
        add_checksum(temporary)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Return what a checkpoint holds, never unpickled; ``ValueError`` if it cannot be read or its checksum is wrong."""
    try:
        check_file(path, own=True)
        held = torch.load(path, weights_only=True, map_location="cpu")
        _ = held[_SETTINGS]
    except Exception as error:  # a damaged file makes PyTorch raise almost anything
        line = one_line(error)[:100]
        raise ValueError(
            f"the checkpoint in {str(path.parent.parent)!r} is damaged or none of lbhash ({line}); start anew without "
            "resume"
        ) from None
    return held


def _last(folder: Path) -> Path:
    return folder / "checkpoints" / LAST
