"""``train``: a model, an objective and rows in; trained weights and files out."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import lightning as L
import torch
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.utils.data import DataLoader

from lbhash.losses import Objective
from lbhash.training.arguments import Monitor, TrainingArguments
from lbhash.training.batches import (
    DistributedBatchSampler,
    ShuffledBatches,
    TrainingRows,
    batch_loader,
    in_order,
    labels_of,
)
from lbhash.training.checkpoints import AtomicCheckpoints, RunCheckpoints, checkpoint_to_resume, has_checkpoint
from lbhash.training.distributed import check_processes
from lbhash.training.hardware import cpu_settings
from lbhash.training.loggers import epoch_logger
from lbhash.training.module import HashingModule
from lbhash.training.monitor import check_map_has_rows
from lbhash.training.processor import make_trainer, quiet_lightning
from lbhash.training.schedule import Schedule


@dataclass(frozen=True)
class Trained:
    """How a training went.

    Attributes:
        epoch: whose weights model and objective have, counted from 0: the best one, or the last one if nothing is
            monitored or no epoch could be the best.
        epochs: how many were run, those before a resumed run's checkpoint among them.
        monitor: the criterion of the best epoch; None if there was none.
        value: the monitor's value in the best epoch; None if there is none.
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
    arguments: TrainingArguments | None = None,
    *,
    directory: str | Path | None = None,
    resume: bool = False,
    logger: Literal["csv", "tensorboard"] | None = None,
    callbacks: list[Callback] | None = None,
    settings: dict[str, Any] | None = None,
    validation: TrainingRows | None = None,
) -> Trained:
    """Train ``model`` in place; several processes all return, with the same weights.

    Args:
        model: any module that gives raw outputs ``[n, bits]``; the parameters of what it calls ``backbone`` learn at
            ``backbone_lr``, and those without ``requires_grad`` not at all.
        objective: the loss.
        rows: the training rows; a split of embeddings is such rows. Those with a ``standardization`` set the model's.
        arguments: the settings of training (learning rates, batches, monitor, machine); those of the model and the
            method were used by whoever made these. If None, the defaults.
        directory: where checkpoints (of the last epoch and, with a monitor, of the best) and logs go; if None, nothing
            is written. If several machines train, all of them must see it.
        resume: go on from the directory's checkpoint, if there is one. The codes are the same, bit for bit, as those
            of a run that was never interrupted.
        logger: of the values of each epoch, under ``directory``.
        callbacks: extra Lightning callbacks.
        settings: whatever else identifies the run; a checkpoint with other settings is refused.
        validation: rows that are not trained on, encoded after every epoch; the ratio of their codes is logged. The
            monitor "map" is the mAP of each of them as a query to the others.

    Raises:
        TypeError, ValueError: an argument is not as above, the checkpoint is damaged or of another run, or a loss is
            not finite.
    """
    given = (TrainingArguments() if arguments is None else arguments).checked()
    check_map_has_rows(given.monitor, validation is not None)
    devices, nodes = check_processes(given.devices, given.nodes)
    schedule, world = Schedule.of(given), devices * nodes
    folder, labels = None if directory is None else Path(directory), labels_of(rows)
    identity = _identity(given, schedule, world, settings or {}, rows, validation, with_rows=folder is not None)
    checkpoint, epochs_before = checkpoint_to_resume(folder, identity) if resume else (None, 0)
    statistics, set_statistics = getattr(rows, "standardization", None), getattr(model, "set_standardization", None)
    if statistics is not None and set_statistics is not None:
        set_statistics(*statistics())
    keeper = RunCheckpoints(folder, identity, given.monitor, given.patience)
    with quiet_lightning(), cpu_settings(given.threads), _random_state():
        trainer = make_trainer(
            given.device,
            devices,
            nodes,
            given.precision,
            max_epochs=schedule.epochs,
            accumulate_grad_batches=given.accumulate,
            callbacks=[*(callbacks or []), _Threads(given.threads), keeper],
            plugins=[AtomicCheckpoints()],
        )
        if trainer.is_global_zero:
            trainer.logger = epoch_logger(logger, folder, epochs_before)  # only now, for it writes
        loader, validation_loader = _loaders(trainer, rows, validation, given, epochs_before)
        model.train()  # Lightning leaves a module in the mode in which it came
        objective.train()
        module = HashingModule(
            model,
            objective,
            schedule,
            given.seed,
            labels,
            validation_loader,
            None if validation is None else labels_of(validation),
            given.monitor,
        )
        if world > 1:  # PyTorch looks for unused parameters, and warns where it finds none
            module.register_parameter("unused", nn.Parameter(torch.zeros(1)))
        try:
            trainer.fit(module, loader, ckpt_path=checkpoint, weights_only=True)
        except SystemExit:  # which Lightning makes of Ctrl-C, and ignores the next one
            if not trainer.interrupted:
                raise
            signal.signal(signal.SIGINT, signal.default_int_handler)
            raise KeyboardInterrupt(_interrupted(keeper, schedule.epochs)) from None
        keeper.restore_best(trainer, module)
        model.cpu().eval()
        objective.cpu().eval().end_training()
    # Trainer and module form a reference cycle, so their large objects are dropped now to free the memory.
    del module.model, module.objective
    trainer.strategy.optimizers = []
    state = keeper.state
    return Trained(
        epoch=state.epochs - 1 if state.epoch is None else state.epoch,
        epochs=state.epochs,
        monitor=given.monitor,
        value=state.value,
        stopped_early=keeper.out_of_patience and state.epochs < schedule.epochs,
        rows_per_second=len(rows) * len(module.times) / sum(module.times) if module.times else None,
    )


def _interrupted(keeper: RunCheckpoints, epochs: int) -> str:
    """Return the line that says how far an interrupted run came, and how it goes on."""
    kept = keeper.folder is not None and has_checkpoint(keeper.folder.parent)
    then = "the same command with --resume goes on" if kept else "nothing was kept to go on from"
    return f"interrupted after epoch {keeper.state.epochs} of {epochs}; {then}"


def _identity(
    given: TrainingArguments,
    schedule: Schedule,
    world: int,
    settings: dict[str, Any],
    rows: TrainingRows,
    validation: TrainingRows | None,
    *,
    with_rows: bool,
) -> dict[str, Any]:
    """Return what a checkpoint must agree with to be resumed; the rows are only read if one is written."""
    identity = {
        **asdict(schedule),
        **{name: getattr(given, name) for name in ("seed", "precision", "accumulate", "monitor", "patience")},
        "processes": world,
        **settings,
        "rows": len(rows),
        "validation rows": 0 if validation is None else len(validation),
    }
    if with_rows:
        identity["fingerprint of the rows"] = rows.fingerprint()
        identity["fingerprint of the validation rows"] = None if validation is None else validation.fingerprint()
    return identity


def _loaders(
    trainer: L.Trainer,
    rows: TrainingRows,
    validation: TrainingRows | None,
    given: TrainingArguments,
    epochs_before: int,
) -> tuple[DataLoader, DataLoader | None]:
    """Return what reads this process's share of the training batches, and of the validation rows in their order."""
    world, rank = trainer.world_size, trainer.global_rank
    size, pin = Schedule.of(given).batch_size * world, isinstance(trainer.accelerator, CUDAAccelerator)
    shards = DistributedBatchSampler(ShuffledBatches(len(rows), size, given.seed), rank, world, epochs_before)
    loader = batch_loader(rows, shards, workers=given.workers, persistent=True, pin=pin)
    if validation is None:
        return loader, None
    shards = DistributedBatchSampler(in_order(len(validation), size), rank, world)
    return loader, batch_loader(validation, shards, workers=given.workers, persistent=False, pin=pin)


class _Threads(Callback):
    """Sets the number of threads again, since Lightning changes it when it starts processes."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def on_fit_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        torch.set_num_threads(self.threads)


@contextmanager
def _random_state() -> Iterator[None]:
    """Restore PyTorch's random state when the block ends; a GPU that nobody has used has none."""
    used = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=used):
        yield
