"""Algorithm 1 as a Lightning module."""

from __future__ import annotations

import time
from collections.abc import Iterable

import lightning as L
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor, nn
from torch.utils.data import DataLoader

from lbhash.losses import Objective
from lbhash.losses.base import check_loss
from lbhash.training.distributed import gather_outputs, share_buffers
from lbhash.training.hardware import draw_from
from lbhash.training.monitor import (
    CodeBuffer,
    EncodedRows,
    EpochMetrics,
    Monitor,
    evaluate_epoch,
    monitored_name,
    numpy_labels,
)
from lbhash.training.processor import full_precision
from lbhash.training.schedule import Schedule


class HashingModule(L.LightningModule):
    """Algorithm 1: one Adam learns the model and the objective's own parameters, among them the surrogate's.

    Logs each epoch: ``loss``; ``inter``, ``intra`` and ``ratio`` of the codes that the rows had when they were seen;
    the metrics of the validation rows (``monitor.evaluate_epoch``); ``lr``, and ``backbone_lr`` if there is one.
    TensorBoard gets ``rows_per_second`` too; the CSV does not, so that a resumed run has the log of one that was never
    interrupted.

    Args:
        model: any module that gives raw outputs ℓ ``[n, bits]``; what it calls ``backbone`` learns at its own rate.
        objective: the loss. It computes in float32 whatever the model does.
        schedule: the learning rates.
        seed: of the dropout and of what the objective samples.
        labels: of the training rows.
        validation: reads the validation rows, in their order; None if there are none.
        validation_labels: their labels.
        monitor: the criterion of the best epoch.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        schedule: Schedule,
        seed: int,
        labels: Tensor,
        validation: DataLoader | None = None,
        validation_labels: Tensor | None = None,
        monitor: Monitor | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.objective = objective
        self.schedule = schedule
        self.seed = seed
        self.labels = numpy_labels(labels)
        self.validation = validation
        self.validation_labels = None if validation_labels is None else numpy_labels(validation_labels)
        self.monitor = monitor
        self.epoch_metrics: EpochMetrics | None = None
        """The metrics of the last epoch."""
        self.rows_per_second = 0.0
        """The speed of the last epoch, without its validation."""
        self.times: list[float] = []
        """Seconds of each epoch that this process has run, without its validation."""

    def on_fit_start(self) -> None:
        """Train towards the same centers in all processes: each has computed its own, on whatever machine it is."""
        if self.trainer.world_size > 1:
            share_buffers(self.objective)

    def on_train_epoch_start(self) -> None:
        """Set the learning rates, and forget the codes and losses of the epoch before."""
        self._set_rates(0)
        self.objective.begin_epoch(self.current_epoch)
        self.seen = CodeBuffer(len(self.labels))
        self.losses = torch.zeros(self._steps, device=self.device)
        self.sizes = torch.zeros(self._steps, dtype=torch.int64)
        self._started = time.perf_counter()

    def training_step(self, batch: tuple[Tensor, Tensor, Tensor], batch_index: int) -> Tensor:
        """Return the loss of a batch.

        Args:
            batch: what the model takes of this process's rows, and labels and positions in the training set of the rows
                of all processes.
            batch_index: its number in the epoch.
        """
        self._set_rates(batch_index)
        several = self.trainer.world_size > 1
        # From seed, epoch and step alone, so that a resumed run repeats the killed one. The model samples first, so
        # that a host and its guided form see the same dropout of their inputs. An objective samples the same in all
        # processes, a model does not.
        draws = (self.seed, self.current_epoch, batch_index)
        draw_from(*draws, *([1 + self.global_rank] if several else []))
        x, labels, index = batch
        logits = self.model(x).float()
        if several:
            logits = gather_outputs(logits, len(index))
            draw_from(*draws)
        with full_precision(self.trainer, logits.device):
            loss = self.objective(logits, labels, index)
        check_loss(loss, self.objective, logits)
        if loss.device.type == "cpu":  # a GPU would be waited for: there the epoch's end looks at all losses
            self._check_finite(loss)
        self.seen.add(logits, index)
        self.losses[batch_index], self.sizes[batch_index] = loss.detach(), len(index)
        return loss

    def on_train_epoch_end(self) -> None:
        """Evaluate the epoch in the first process, tell all processes, and log the values."""
        self._check_finite(self.losses.cpu())
        training = EncodedRows(self.seen.take(), self.labels, self.seen.bits)
        self.times.append(time.perf_counter() - self._started)
        self.rows_per_second = len(self.labels) / self.times[-1]
        if self.trainer.world_size > 1:
            share_buffers(self.model)
        validation = self._encode_validation()
        metrics = EpochMetrics({}, None)
        if self.trainer.is_global_zero:
            metrics = evaluate_epoch(self.monitor, self.mean_loss, training, validation)
        self.epoch_metrics = metrics = self.trainer.strategy.broadcast(metrics)
        rates = zip(("lr", "backbone_lr"), self._rates(self._steps - 1), strict=True)
        values = metrics.values | dict(list(rates)[: 1 + self._tunes_backbone])
        # Not by Lightning's log, which writes after the checkpoint: a run killed in between would lack the line.
        for logger in self.loggers:
            speed = {"rows_per_second": self.rows_per_second} if isinstance(logger, TensorBoardLogger) else {}
            logger.log_metrics({**values, **speed, "epoch": self.current_epoch}, self.trainer.global_step - 1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam, fused: on a CPU it takes a third of the time of the plain one."""
        tuned = {id(parameter) for parameter in self._backbone_parameters()}
        learned = [parameter for parameter in self.parameters() if parameter.requires_grad]
        groups = [{"params": [parameter for parameter in learned if id(parameter) not in tuned]}]
        if self._tunes_backbone:
            groups.append({"params": [parameter for parameter in learned if id(parameter) in tuned]})
        return torch.optim.Adam(groups, lr=self.schedule.lr, fused=True)

    @property
    def mean_loss(self) -> float:
        """The mean loss of the epoch's rows so far."""
        sizes = self.sizes.double()
        return float(self.losses.cpu().double() @ sizes / sizes.sum())

    @property
    def monitored_name(self) -> str | None:
        """The name under which the monitored value is logged; None if nothing is monitored."""
        return None if self.monitor is None else monitored_name(self.monitor, self.validation is not None)

    @property
    def _steps(self) -> int:
        return int(self.trainer.num_training_batches)

    @property
    def _tunes_backbone(self) -> bool:
        return any(parameter.requires_grad for parameter in self._backbone_parameters())

    def _backbone_parameters(self) -> Iterable[nn.Parameter]:
        backbone = getattr(self.model, "backbone", None)
        return backbone.parameters() if isinstance(backbone, nn.Module) else ()

    def _rates(self, step: int) -> tuple[float, float]:
        place = (self.current_epoch, step, self._steps)
        return self.schedule.rate(*place), self.schedule.backbone_rate(*place)

    def _set_rates(self, step: int) -> None:
        groups = self.trainer.optimizers[0].param_groups
        for group, rate in zip(groups, self._rates(step), strict=False):
            group["lr"] = rate

    def _check_finite(self, losses: Tensor) -> None:
        wrong = losses[~torch.isfinite(losses)]
        if len(wrong):
            raise ValueError(f"the loss is {wrong[0].item()} in epoch {self.current_epoch}; a smaller lr may help")

    @torch.no_grad()
    def _encode_validation(self) -> EncodedRows | None:
        """Return the validation rows with their codes, or None if there are none."""
        if self.validation is None or self.validation_labels is None:
            return None
        seen = CodeBuffer(len(self.validation_labels))
        self.model.eval()
        for x, _, index in self.validation:
            with self.trainer.precision_plugin.val_step_context():
                logits = self.model(x.to(self.device, non_blocking=True)).float()
            if self.trainer.world_size > 1:
                logits = gather_outputs(logits, len(index))
            seen.add(logits, index.to(self.device))
        self.model.train()
        return EncodedRows(seen.take(), self.validation_labels, seen.bits)
