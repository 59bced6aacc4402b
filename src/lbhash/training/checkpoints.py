"""Checkpoints that survive a kill: the last epoch to resume from, and the best one to keep."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lbhash.training.epoch_metrics import Monitor, is_better
from lbhash.training.loop import Training
from lbhash.utils.checksums import add_checksum, check_file
from lbhash.utils.files import replacing
from lbhash.utils.validation import refusing

LAST, BEST = "last.ckpt", "best.ckpt"
_SETTINGS = "lbhash_settings"


@dataclass(frozen=True)
class MonitorState:
    """The state of a monitored run, stored in its checkpoint.

    Attributes:
        epochs: number of finished epochs.
        epoch: the best epoch, counted from 0; None before the first.
        value: the monitor's value in the best epoch.
        waited: epochs since the best one.
    """

    epochs: int = 0
    epoch: int | None = None
    value: float | None = None
    waited: int = 0


class RunCheckpoints:
    """Stores the best epoch's weights and the last epoch's state, and tells when a run stops improving.

    The best weights are written before the state that refers to them; after a kill in between, the resumed run computes
    the same epoch again. Without a folder, the best weights are kept in memory.

    Args:
        folder: the run's folder; if None, no file is written.
        settings: the run's settings, stored in its checkpoints so that a run with other settings cannot resume.
        monitor: the criterion of the best epoch; if None, the last epoch's weights stay.
        patience: epochs without a better value after which the run ends; if None, it never ends early.
        state: the state of the resumed run.
    """

    def __init__(
        self,
        folder: Path | None,
        settings: dict[str, Any],
        monitor: Monitor | None,
        patience: int | None,
        state: MonitorState = MonitorState(),
    ) -> None:
        self.folder = None if folder is None else folder / "checkpoints"
        self.settings, self.monitor, self.patience, self.state = settings, monitor, patience, state
        self._weights: dict[str, Tensor] = {}

    @property
    def out_of_patience(self) -> bool:
        """Whether none of the last ``patience`` epochs was better than the best one."""
        return self.patience is not None and self.state.waited >= self.patience

    def remove_unfinished(self) -> None:
        """Remove unfinished files of a run that was killed while writing."""
        if self.folder is not None:
            for unfinished in self.folder.glob(f".*{Path(LAST).suffix}"):
                unfinished.unlink()

    def keep(self, training: Training) -> None:
        """Compare the epoch with the best one; the first process writes the checkpoints."""
        state, metrics = replace(self.state, epochs=training.epoch + 1), training.metrics
        if self.monitor is not None:
            assert metrics is not None
            if is_better(self.monitor, metrics.monitored, state.value):
                state = replace(state, epoch=training.epoch, value=metrics.monitored, waited=0)
                self._keep_best(training, state)
            else:
                state = replace(state, waited=state.waited + 1)
        self.state = state
        if self.folder is not None and training.place.first:
            held = {"epoch": training.epoch, "state": asdict(state), _SETTINGS: self.settings}
            write_checkpoint(self.folder / LAST, held | training.state_dict())

    def restore_best(self, training: Training) -> None:
        """Load the best epoch's weights, unless the best one is the last."""
        state = self.state
        if state.epoch is None or state.epoch == state.epochs - 1:
            return
        if self.folder is not None:
            if training.place.several:
                dist.barrier()  # wait for the first process to write them
            held = load_checkpoint(self.folder / BEST, "weights")
            if held["epoch"] != state.epoch or held[_SETTINGS] != self.settings:
                raise ValueError(
                    f"{BEST} in {str(self.folder.parent)!r} is not of epoch {state.epoch}, the best one of this run; "
                    "start again without resume"
                )
            self._weights = held["weights"]
        training.module.load_state_dict(self._weights)
        self._weights = {}

    def _keep_best(self, training: Training, state: MonitorState) -> None:
        weights = training.module.state_dict()
        if self.folder is None:
            self._weights = {name: tensor.detach().cpu().clone() for name, tensor in weights.items()}
        elif training.place.first:
            best = {"epoch": state.epoch, "value": state.value, "monitor": self.monitor, _SETTINGS: self.settings}
            write_checkpoint(self.folder / BEST, {**best, "weights": weights})


def has_checkpoint(directory: str | Path) -> bool:
    """Return whether a folder holds a checkpoint to resume from."""
    return _last(Path(directory)).is_file()


def checkpoint_to_resume(folder: Path | None, settings: dict[str, Any]) -> dict[str, Any] | None:
    """Return the content of a run's checkpoint; None if there is no checkpoint.

    Raises:
        ValueError: it is damaged, or from a run with other settings.
    """
    if folder is None:
        raise ValueError("resume needs a directory that holds the checkpoint")
    if not has_checkpoint(folder):
        return None
    held = load_checkpoint(_last(folder), "state")
    known = held[_SETTINGS]
    for key in settings:
        if known.get(key) != settings[key]:
            raise ValueError(
                f"{key} is {settings[key]!r}, and the checkpoint in {str(folder)!r} was made with {known.get(key)!r}; "
                "resume with the same settings"
            )
    return held


def write_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint with its checksum, atomically."""
    with replacing(path, RuntimeError) as temporary:  # PyTorch raises it for file errors
        with temporary.open("wb") as opened:
            torch.save(content, opened)
        add_checksum(temporary)


def load_checkpoint(path: Path, needed: str = _SETTINGS) -> dict[str, Any]:
    """Return a checkpoint's content, never unpickled; ``ValueError`` if unreadable, damaged or without ``needed``."""
    said = f"the checkpoint in {str(path.parent.parent)!r} is damaged or none of lbhash; start again without resume"
    with refusing(said, Exception):  # a damaged file makes PyTorch raise almost anything
        check_file(path, own=True)
        held = torch.load(path, weights_only=True, map_location="cpu")
        if not {needed, _SETTINGS} <= held.keys():
            raise ValueError(f"it has no {needed}; is it another file of that folder?")
        return held


def _last(folder: Path) -> Path:
    return folder / "checkpoints" / LAST
