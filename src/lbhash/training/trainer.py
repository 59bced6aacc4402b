"""``train``: train a model and an objective on rows, and write checkpoints and a log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lbhash.losses import Objective
from lbhash.training.batches import TrainingRows, labels_of
from lbhash.training.checkpoints import MonitorState, RunCheckpoints, checkpoint_to_resume, has_checkpoint
from lbhash.training.distributed import from_torchrun, processes, whole_batch_norms
from lbhash.training.epoch_log import EpochLog
from lbhash.training.epoch_metrics import check_map_has_rows
from lbhash.training.hardware import check_precision, cpu_settings, quiet_pytorch, training_device
from lbhash.training.loop import Training, Watcher
from lbhash.training.schedule import Schedule
from lbhash.training.settings import Monitor, Settings


@dataclass(frozen=True)
class Trained:
    """A summary of a training.

    Attributes:
        epoch: the epoch of the final weights, counted from 0: the best one, or the last one if nothing is monitored or
            no epoch could be the best.
        epochs: number of finished epochs, including those before a resumed run's checkpoint.
        monitor: the criterion of the best epoch; None if there was none.
        value: the monitor's value in the best epoch; None if there is no best epoch.
        stopped_early: whether patience ended the training.
        rows_per_second: speed of training without validation; None if a resumed run had no epoch left.
    """

    epoch: int
    epochs: int
    monitor: Monitor | None
    value: float | None
    stopped_early: bool
    rows_per_second: float | None


def train(
    model: nn.Module,
    objective: Objective,
    rows: TrainingRows,
    arguments: Settings | None = None,
    *,
    directory: str | Path | None = None,
    resume: bool = False,
    watchers: Sequence[Watcher] = (),
    settings: dict[str, Any] | None = None,
    validation: TrainingRows | None = None,
) -> Trained:
    """Train ``model`` in place; with several processes, all return with the same weights.

    Args:
        model: any module that gives raw outputs ``[n, bits]``. The parameters of its attribute ``backbone``, if any,
            are trained at ``backbone_lr``; parameters without ``requires_grad`` are not trained.
        objective: the loss.
        rows: the training rows, such as a split of embeddings. If they have a ``standardization``, it is set in the
            model.
        arguments: the settings of training (learning rates, batches, monitor, machine); those of the model and the
            method are not used here. If None, the defaults.
        directory: folder for checkpoints (of the last epoch and, with a monitor, of the best) and a log of the epochs;
            if None, nothing is written. If several machines train, all must see it.
        resume: continue from the directory's checkpoint, if there is one. The codes equal those of an uninterrupted
            run, bit for bit.
        watchers: observers, called in every process.
        settings: other values that identify the run; a checkpoint with other values is refused.
        validation: held-out rows, encoded after every epoch; the ratio of their codes is logged. For the monitor "map",
            each of them is a query to the others.

    Raises:
        TypeError, ValueError: an argument is not as above, the checkpoint is damaged or from another run, or a loss is
            not finite.
    """
    given = (Settings() if arguments is None else arguments).checked()
    check_map_has_rows(given.monitor, validation is not None)
    labels_of(rows)  # raises if there are none
    schedule, world = Schedule.of(given), from_torchrun("WORLD_SIZE", 1)
    device = training_device(given.device, from_torchrun("LOCAL_WORLD_SIZE", 1), from_torchrun("LOCAL_RANK", 0))
    check_precision(given.precision, device, given.device)
    folder = None if directory is None else Path(directory)
    identity = _identity(given, schedule, world, settings or {}, rows, validation, with_rows=folder is not None)
    held = checkpoint_to_resume(folder, identity) if resume else None
    state = MonitorState() if held is None else MonitorState(**held["state"])
    statistics, set_statistics = getattr(rows, "standardization", None), getattr(model, "set_standardization", None)
    if statistics is not None and set_statistics is not None:
        set_statistics(*statistics())
    keeper = RunCheckpoints(folder, identity, given.monitor, given.patience, state)
    with (
        quiet_pytorch(),
        cpu_settings(given.threads),
        _random_state(),
        processes(device) as place,
        whole_batch_norms(model, place),
    ):
        log = EpochLog(folder, state.epochs) if folder is not None and place.first else None  # now: it writes
        training = Training(model, objective, rows, validation, given, place, state.epochs)
        if held is not None:
            training.load_state_dict(held)
        _run(training, keeper, log, watchers)
        model.cpu().eval()
        objective.cpu().eval().end_training()
    state = keeper.state
    return Trained(
        epoch=state.epochs - 1 if state.epoch is None else state.epoch,
        epochs=state.epochs,
        monitor=given.monitor,
        value=state.value,
        stopped_early=keeper.out_of_patience and state.epochs < schedule.epochs,
        rows_per_second=len(rows) * len(training.times) / sum(training.times) if training.times else None,
    )


def _run(training: Training, keeper: RunCheckpoints, log: EpochLog | None, watchers: Sequence[Watcher]) -> None:
    """Run the remaining epochs, and restore the best epoch's weights."""
    if training.place.first:
        keeper.remove_unfinished()
    try:
        for epoch in range(keeper.state.epochs, training.epochs):
            if keeper.out_of_patience:
                break
            training.run_epoch(epoch, watchers)
            training.evaluate()
            if log is not None:  # before the checkpoint, so a kill in between loses no line
                log.add(training)
            keeper.keep(training)
            for watcher in watchers:
                watcher.epoch_ended(training)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_interrupted(keeper, training.epochs)) from None
    finally:
        training.close()
    keeper.restore_best(training)


def _interrupted(keeper: RunCheckpoints, epochs: int) -> str:
    """Return a line about how far an interrupted run came, and how to continue it."""
    kept = keeper.folder is not None and has_checkpoint(keeper.folder.parent)
    then = "the same command with --resume goes on" if kept else "nothing was kept to go on from"
    return f"interrupted after epoch {keeper.state.epochs} of {epochs}; {then}"


def _identity(
    given: Settings,
    schedule: Schedule,
    world: int,
    settings: dict[str, Any],
    rows: TrainingRows,
    validation: TrainingRows | None,
    *,
    with_rows: bool,
) -> dict[str, Any]:
    """Return the values that a checkpoint must match to be resumed; rows are read only if checkpoints are written."""
    identity = {
        **{name: getattr(given, name) for name in ("seed", "precision", "monitor", "patience")},
        "processes": world,
        **settings,
        "rows": len(rows),
        "validation rows": 0 if validation is None else len(validation),
        **asdict(schedule),  # after the rows, of which a batch has at most all
    }
    if with_rows:
        identity["fingerprint of the rows"] = rows.fingerprint()
        identity["fingerprint of the validation rows"] = None if validation is None else validation.fingerprint()
    return identity


@contextmanager
def _random_state() -> Iterator[None]:
    """Restore PyTorch's random state when the block ends; an unused GPU has none."""
    used = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=used):
        yield
