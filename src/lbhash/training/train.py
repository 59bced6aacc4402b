"""``train``: a model, an objective and rows in; trained weights and files out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import lightning as L
import numpy as np
import torch
from lightning.pytorch.accelerators import CUDAAccelerator
from lightning.pytorch.callbacks import Callback
from torch import nn

from lbhash.data.dataset import EmbeddingSplit
from lbhash.losses import Objective
from lbhash.training.batches import ShuffledBatches, TrainingRows, Turns, as_rows, batch_loader, in_order
from lbhash.training.checkpoints import AtomicCheckpoints, RunCheckpoints, checkpoint_to_resume
from lbhash.training.distributed import check_processes
from lbhash.training.hardware import Precision, check_precision, cpu_settings, make_trainer, quiet_lightning
from lbhash.training.loggers import epoch_logger
from lbhash.training.module import HashingModule
from lbhash.training.monitor import Monitor, check_map_has_rows, check_monitor
from lbhash.training.schedule import Schedule
from lbhash.utils.validation import check_int


@dataclass(frozen=True)
class Trained:
    """How a training went.

    Attributes:
        epoch: whose weights model and objective have, counted from 0: the best one, or the last one where nothing is
            monitored or no epoch could be the best.
        epochs: how many were run, those before a resumed run's checkpoint among them.
        monitor: what epochs were judged by.
        value: the monitor's, in the best epoch; ``None`` where there is none.
        stopped_early: whether patience ended it.
        rows_per_second: that were trained on, validation not counted; ``None`` where a resumed run had no epoch left.
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
    rows: EmbeddingSplit | TrainingRows,
    schedule: Schedule,
    *,
    seed: int = 0,
    directory: str | Path | None = None,
    resume: bool = False,
    logger: Literal["csv", "tensorboard"] | None = None,
    device: str = "auto",
    threads: int = 1,
    callbacks: list[Callback] | None = None,
    settings: dict[str, Any] | None = None,
    validation: EmbeddingSplit | TrainingRows | None = None,
    monitor: Monitor | None = None,
    patience: int | None = None,
    precision: Precision = "32",
    accumulate: int = 1,
    devices: int = 1,
    nodes: int = 1,
    workers: int = 0,
) -> Trained:
    """Train ``model`` in place.

    Args:
        model: any module that gives raw outputs ``[n, bits]``; the parameters of what it calls ``backbone`` learn at
            ``schedule.backbone_lr``, and those without ``requires_grad`` not at all.
        objective: the loss.
        rows: the training rows. A split of embeddings sets the model's standardization first.
        schedule: length and learning rates.
        seed: of batches and dropout; the model's own weights are drawn by who made it.
        directory: where checkpoints (of the last epoch and, with a monitor, of the best) and logs go; neither is
            written without. Where several machines train, all of them must see it.
        resume: go on from the directory's checkpoint, if there is one. The codes are the same, bit for bit, as those
            of a run that was never interrupted.
        logger: of the values of each epoch, under ``directory``.
        device: Lightning's accelerator: auto, cpu, gpu …
        threads: of PyTorch on a CPU while it trains. A step on embeddings is so short that two threads gain little on
            an idle machine, and lose tenfold on a busy one, where they wait for each other at every operation.
        callbacks: further Lightning callbacks, a progress bar for instance.
        settings: whatever else identifies the run; a checkpoint with other settings is refused.
        validation: rows that are not trained on, encoded after every epoch; the ratio of their codes is logged.
        monitor: judge every epoch, and end with the weights of the best: by "ratio", D_inter / D_intra of the
            validation rows or, without any, of the training rows' codes; by "map", the mAP of each validation row as a
            query to the others; or by the training "loss".
        patience: end after so many epochs without a better value; the ratio is monitored if nothing else is named.
        precision: "32"; or of the model "bf16" or, on a GPU, "16", by PyTorch's autocast. Objective and surrogate have
            float32 always, and so have the weights.
        accumulate: batches whose gradients are averaged for a step of Adam; where an epoch ends with fewer, the missing
            ones count as 0. Each batch has its own loss: pairs are those of one batch, so that this is not the same as
            batches of so many times the rows.
        devices: processes on each machine that train together, one a device (``lbhash.training.distributed``);
            ``schedule.batch_size`` is the rows of each. Processes that torchrun started need not be named.
        nodes: machines.
        workers: processes that read the rows ahead; the codes do not depend on how many.

    Returns:
        How it went. With several processes every one of them returns, with the same weights.

    Raises:
        TypeError, ValueError: an argument is not as above, the checkpoint is damaged or of another run, or a loss is
            not finite.
    """
    threads, accumulate = check_int(threads, "threads", 1), check_int(accumulate, "accumulate", 1)
    workers = check_workers(workers)
    precision_name, (monitor, patience) = check_precision(precision), check_monitor(monitor, patience)
    check_map_has_rows(monitor, validation is not None)
    devices, nodes = check_processes(devices, nodes)
    folder = None if directory is None else Path(directory)
    learned, held = as_rows(rows), None if validation is None else as_rows(validation)
    identity = {
        **asdict(schedule),
        "seed": seed,
        "precision": precision_name,
        "accumulate": accumulate,
        "processes": devices * nodes,
        "monitor": monitor,
        "patience": patience,
        **(settings or {}),
        "rows": len(learned),
        "validation rows": 0 if held is None else len(held),
    }
    if folder is not None:
        identity["fingerprint of the rows"] = learned.fingerprint()
        identity["fingerprint of the validation rows"] = None if held is None else held.fingerprint()
    checkpoint, epochs_before = checkpoint_to_resume(folder, identity) if resume else (None, 0)
    if isinstance(rows, EmbeddingSplit):
        model.set_standardization(*rows.standardization())  # type: ignore[operator]
    keeper = RunCheckpoints(folder, identity, monitor, patience)
    with quiet_lightning(), cpu_settings(threads), _random_state():
        trainer = make_trainer(
            device,
            devices,
            nodes,
            precision_name,
            max_epochs=schedule.epochs,
            accumulate_grad_batches=accumulate,
            callbacks=[*(callbacks or []), _Threads(threads), keeper],
            plugins=[AtomicCheckpoints()],
        )
        if trainer.is_global_zero:
            trainer.logger = epoch_logger(logger, folder, epochs_before)  # only now, for it writes
        world, rank = devices * nodes, trainer.global_rank
        pin = isinstance(trainer.accelerator, CUDAAccelerator)
        size = schedule.batch_size * world
        turns = Turns(ShuffledBatches(len(learned), size, seed), rank, world, epochs_before)
        loader = batch_loader(learned, turns, workers=workers, persistent=True, pin=pin)
        validating = None
        if held is not None:
            turns = Turns(in_order(len(held), size), rank, world)
            validating = batch_loader(held, turns, workers=workers, persistent=False, pin=pin)
        model.train()  # Lightning leaves a module in the mode in which it came
        objective.train()
        module = HashingModule(
            model,
            objective,
            schedule,
            seed,
            learned.labels,
            validating,
            None if held is None else held.labels,
            monitor,
        )
        if world > 1:  # PyTorch looks for unused parameters, and warns where it finds none
            module.register_parameter("unused", nn.Parameter(torch.zeros(1)))
        trainer.fit(module, loader, ckpt_path=checkpoint, weights_only=True)
        keeper.restore_best(trainer, module)
        model.cpu().eval()
        objective.cpu().eval().end_training()
    # A trainer and its module refer to each other, and stay until Python looks for such cycles: with nothing large.
    del module.model, module.objective
    trainer.strategy.optimizers = []
    course = keeper.course
    return Trained(
        epoch=course.epochs - 1 if course.epoch is None else course.epoch,
        epochs=course.epochs,
        monitor=monitor,
        value=course.value,
        stopped_early=keeper.out_of_patience and course.epochs < schedule.epochs,
        rows_per_second=len(learned) * len(module.times) / sum(module.times) if module.times else None,
    )


def check_workers(workers: Any) -> int:
    """Return how many processes read rows, 0 for none; raise ``TypeError`` or ``ValueError`` where it is no number."""
    if isinstance(workers, bool) or not isinstance(workers, (int, np.integer)):
        raise TypeError(f"workers is {workers!r}; it must be an integer of at least 0")
    if workers < 0:
        raise ValueError(f"workers is {workers}; it must be at least 0")
    return int(workers)


class _Threads(Callback):
    """Lightning sets a number of threads of its own where it starts processes."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def on_fit_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        torch.set_num_threads(self.threads)


@contextmanager
def _random_state() -> Iterator[None]:
    """Leave the caller's generators as they were; a GPU that nobody has used has none to leave."""
    used = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=used):
        yield
