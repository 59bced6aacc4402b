"""Algorithm 1 as a loop over batches: one Adam trains the model and the objective, including its surrogate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lbhash.data.reading_ahead import ReadAhead
from lbhash.losses import Objective
from lbhash.losses.base import check_loss
from lbhash.training.batches import BatchReader, DistributedBatchSampler, ShuffledBatches, TrainingRows, in_order
from lbhash.training.batches import labels_of as tensor_labels
from lbhash.training.distributed import Place, gather_outputs, parallel, share_buffers, share_object
from lbhash.training.epoch_metrics import (
    CodeBuffer,
    EncodedRows,
    EpochMetrics,
    evaluate_epoch,
    monitored_name,
    numpy_labels,
)
from lbhash.training.hardware import draw_from
from lbhash.training.optimizers import Adam
from lbhash.training.schedule import Schedule
from lbhash.training.settings import Settings

_NUMBERS = {"32": None, "bf16": torch.bfloat16, "16": torch.float16}


class Watcher:
    """Observes a training in each of its processes; an error that it raises ends the training."""

    def epoch_began(self, training: Training) -> None:
        """Called before the first batch of an epoch."""

    def step_done(self, training: Training) -> None:
        """Called after each batch."""

    def epoch_ended(self, training: Training) -> None:
        """Called after an epoch, when its metrics are known and its checkpoint is written."""


class Training:
    """The state of a running training: its modules, its progress, and the current epoch's codes and losses.

    Args:
        model: any module that gives raw outputs ℓ ``[n, bits]``; its attribute ``backbone``, if any, has its own
            learning rate.
        objective: the loss, with its own parameters, such as the surrogate's.
        rows: the training rows.
        validation: rows that are encoded after every epoch; None if there are none.
        given: the checked settings.
        place: this process's number, and its device.
        epochs_before: finished epochs of the resumed run.

    Attributes:
        epoch, step: the current position in ``epochs`` and in an epoch's ``steps``; both count from 0.
        updates: steps of Adam so far.
        index: the positions of the last batch's rows in the training set.
        losses: the losses of the epoch's batches so far, then zeros.
        metrics: the metrics of the last finished epoch; None before the first.
        times: seconds for each epoch that this process ran, without validation.
    """

    index: Tensor
    losses: Tensor

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        rows: TrainingRows,
        validation: TrainingRows | None,
        given: Settings,
        place: Place,
        epochs_before: int = 0,
    ) -> None:
        self.model, self.objective, self.place = model, objective, place
        self.schedule, self.monitor = Schedule.of(given), given.monitor
        self.module = TrainingStep(model, objective, given, place).to(place.device)
        self.network = parallel(self.module, place)  # the same, with gradients averaged over processes
        self.adam = Adam(self._groups(), lr=self.schedule.lr, fused=True)  # fused takes a third of the time on a CPU
        self.scaler = torch.amp.GradScaler(place.device.type, enabled=given.precision == "16")

        size, pin = self.schedule.batch_size * place.world, place.device.type == "cuda"
        self.batches = DistributedBatchSampler(ShuffledBatches(len(rows), size, given.seed), place.rank, place.world)
        self.loader = ReadAhead(BatchReader(rows), self.batches, given.workers, keep=True, pin=pin)
        self.labels = numpy_labels(tensor_labels(rows))
        self.validation: ReadAhead | None = None
        if validation is not None:
            shards = DistributedBatchSampler(in_order(len(validation), size), place.rank, place.world)
            self.validation = ReadAhead(BatchReader(validation), shards, given.workers, pin=pin)
            self.validation_labels = numpy_labels(tensor_labels(validation))

        self.epochs, self.steps = self.schedule.epochs, len(self.batches)
        self.epoch, self.step = epochs_before, 0
        self.updates = epochs_before * self.steps
        self.metrics: EpochMetrics | None = None
        self.times: list[float] = []

    def run_epoch(self, epoch: int, watchers: Sequence[Watcher] = ()) -> None:
        """Train on each training row once."""
        self._begin(epoch)
        for watcher in watchers:
            watcher.epoch_began(self)
        started = time.perf_counter()
        for step, batch in enumerate(self.loader):
            x, labels, index = map(self._moved, batch)
            self._set_rates(step)
            self.adam.zero_grad()
            loss, logits = self.network(x, labels, index, epoch, step)
            self._see(step, index, loss, logits)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.adam)
            self.scaler.update()
            self.updates += 1
            for watcher in watchers:
                watcher.step_done(self)
        self._check_finite(self.losses.cpu())
        self.times.append(time.perf_counter() - started)

    def evaluate(self) -> EpochMetrics:
        """Evaluate the epoch in the first process, and return its metrics in all processes."""
        training = EncodedRows(self.seen.take(), self.labels, self.seen.bits)
        share_buffers(self.model, self.place)
        validation = self._encode_validation()
        metrics = EpochMetrics({}, None)
        if self.place.first:
            metrics = evaluate_epoch(self.monitor, self.mean_loss, training, validation)
        self.metrics = share_object(metrics, self.place)
        return self.metrics

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a resumed run needs."""
        return {
            "weights": self.module.state_dict(),
            "adam": self.adam.state_dict(),
            "scaler": self.scaler.state_dict(),
        }

    def load_state_dict(self, held: dict[str, Any]) -> None:
        """Load the state from a checkpoint."""
        self.module.load_state_dict(held["weights"])
        self.adam.load_state_dict(held["adam"])
        self.scaler.load_state_dict(held["scaler"])

    def logged(self) -> dict[str, float]:
        """Return the logged values of the epoch.

        These are ``loss``; ``inter``, ``intra`` and ``ratio`` of the training codes, each from its own step; the
        metrics of the validation rows (``evaluate_epoch``); ``lr`` of the last step, and ``backbone_lr`` if there is
        one.
        """
        assert self.metrics is not None
        rates = zip(("lr", "backbone_lr"), (group["lr"] for group in self.adam.param_groups), strict=False)
        return self.metrics.values | dict(rates) | {"epoch": self.epoch}

    def close(self) -> None:
        """End the reading processes, which would stay alive after an error."""
        del self.loader

    @property
    def rows_per_second(self) -> float:
        """The speed of the last epoch, without validation."""
        return len(self.labels) / self.times[-1]

    @property
    def mean_loss(self) -> float:
        """The mean loss of the epoch's rows so far."""
        sizes = self.sizes.double()
        return float(self.losses.cpu().double() @ sizes / sizes.sum())

    @property
    def monitored_name(self) -> str | None:
        """The log's name for the monitored value; None if nothing is monitored."""
        return None if self.monitor is None else monitored_name(self.monitor, self.validation is not None)

    def _begin(self, epoch: int) -> None:
        """Begin an epoch, and reset the codes and losses of the previous one."""
        self.epoch = epoch
        self.module.train()
        self.objective.begin_epoch(epoch)
        self.batches.set_epoch(epoch)
        self.seen = CodeBuffer(len(self.labels))
        self.losses = torch.zeros(self.steps, device=self.place.device)
        self.sizes = torch.zeros(self.steps, dtype=torch.int64)

    def _moved(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.place.device, non_blocking=self.place.device.type == "cuda")

    def _set_rates(self, step: int) -> None:
        place = (self.epoch, step, self.steps)
        rates = (self.schedule.rate(*place), self.schedule.backbone_rate(*place))
        for group, rate in zip(self.adam.param_groups, rates, strict=False):
            group["lr"] = rate

    def _see(self, step: int, index: Tensor, loss: Tensor, logits: Tensor) -> None:
        """Remember the codes and the loss of a batch."""
        if loss.device.type == "cpu":  # on a GPU this would wait; there, losses are checked after the epoch
            self._check_finite(loss)
        self.step, self.index = step, index
        self.seen.add(logits, index)
        self.losses[step], self.sizes[step] = loss.detach(), len(index)

    def _check_finite(self, losses: Tensor) -> None:
        wrong = losses[~torch.isfinite(losses)]
        if len(wrong):
            raise ValueError(f"the loss is {wrong[0].item()} in epoch {self.epoch}; a smaller lr may help")

    def _groups(self) -> list[dict[str, Any]]:
        """Return the trained parameters, with a trained backbone's in a group of their own."""
        backbone = getattr(self.model, "backbone", None)
        tuned = {id(one) for one in backbone.parameters()} if isinstance(backbone, nn.Module) else set()
        learned = [one for one in self.module.parameters() if one.requires_grad]
        groups = [{"params": [one for one in learned if id(one) not in tuned]}]
        if len(groups[0]["params"]) < len(learned):
            groups.append({"params": [one for one in learned if id(one) in tuned]})
        return groups

    @torch.no_grad()
    def _encode_validation(self) -> EncodedRows | None:
        """Return the validation rows with their codes, or None if there are none."""
        if self.validation is None:
            return None
        seen = CodeBuffer(len(self.validation_labels))
        self.model.eval()
        for x, _, index in self.validation:
            logits = gather_outputs(self.module.encode(self._moved(x)), len(index), self.place)
            seen.add(logits, self._moved(index))
        self.model.train()
        return EncodedRows(seen.take(), self.validation_labels, seen.bits)


class TrainingStep(nn.Module):
    """The forward pass of a step of Algorithm 1, in one module with all trained parameters.

    Args:
        model: gives raw outputs ℓ ``[n, bits]``.
        objective: the loss, always computed in float32.
        given: the settings; only seed and precision are used.
        place: this process's number, and its device.
    """

    def __init__(self, model: nn.Module, objective: Objective, given: Settings, place: Place) -> None:
        super().__init__()
        self.model, self.objective = model, objective
        self.seed, self.numbers, self.place = given.seed, _NUMBERS[given.precision], place
        if place.several:  # PyTorch warns if it finds no unused parameter
            self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, labels: Tensor, index: Tensor, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        """Return the loss of a batch, a scalar, and the raw outputs of its rows, ``[n, bits]``.

        Args:
            x: the model's input for this process's rows.
            labels: the labels of all processes' rows.
            index: the positions of all processes' rows in the training set.
            epoch: counted from 0.
            step: the batch's number in the epoch, counted from 0.
        """
        # Random numbers depend only on seed, epoch and step, so a resumed run repeats the killed one. The model samples
        # first, so a host and its guided form get the same dropout. The objective samples the same numbers in all
        # processes; the model does not.
        draws = (self.seed, epoch, step)
        draw_from(*draws, *([1 + self.place.rank] if self.place.several else []))
        logits = gather_outputs(self.encode(x), len(index), self.place)
        if self.place.several:
            draw_from(*draws)
        loss = self.objective(logits, labels, index)
        return check_loss(loss, self.objective, logits), logits.detach()

    def encode(self, x: Tensor) -> Tensor:
        """Return the raw outputs of this process's rows, in float32."""
        with torch.autocast(x.device.type, self.numbers, enabled=self.numbers is not None):
            logits: Tensor = self.model(x)
        return logits.float()
