"""Several seeds of one setting, trained as one computation, on the same rows or each on its own.

A run on embeddings is a few thousand steps of some milliseconds, of which much is overhead and short matrix products.
Here the heads of all seeds are one batched product a layer, under one Adam, while every seed keeps its own batches,
dropout and objective: each ends with the weights that ``lbhash.training.train`` gives it, up to the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from lbhash.data.split import EmbeddingSplit
from lbhash.losses import Objective
from lbhash.losses.base import check_loss
from lbhash.models.dropout import keep_mask
from lbhash.models.hash_model import HashModel
from lbhash.training.batches import ShuffledBatches, labels_of
from lbhash.training.hardware import cpu_settings, draw_from
from lbhash.training.schedule import Schedule
from lbhash.utils.validation import check_int

EpochHook = Callable[[int, Sequence[HashModel], Sequence[float]], None]
"""Called after each epoch with its number, the models as they are then, and each seed's mean loss."""


def train_together(
    models: Sequence[HashModel],
    objectives: Sequence[Objective],
    split: EmbeddingSplit | Sequence[EmbeddingSplit],
    schedule: Schedule,
    seeds: Sequence[int],
    *,
    threads: int = 1,
    after_epoch: EpochHook | None = None,
) -> None:
    """Train ``models`` in place, on a CPU and without checkpoints.

    Args:
        models: one a seed, of one shape and one dropout, with the weights that they start from.
        objectives: one a seed.
        split: the training rows, or those of each seed, equally many; all that are distinct are held in memory, as
            ``float32 [n, dim]``.
        schedule: length and learning rate.
        seeds: of batches and dropout.
        threads: of PyTorch.
        after_epoch: called after each epoch.

    Raises:
        ValueError: the models differ in shape or the splits in length, or a loss is not finite.
    """
    threads = check_int(threads, "threads", 1)
    if not len(models) == len(objectives) == len(seeds) > 0:
        raise ValueError(
            f"there are {len(models)} models, {len(objectives)} objectives and {len(seeds)} seeds; "
            "there must be one of each for every seed"
        )
    splits = splits_of_seeds(split, len(seeds))
    for objective in objectives:
        objective.train()
    distinct = {id(own): own for own in splits}
    known = {
        key: _rows(own, [model for model, of in zip(models, splits, strict=True) if of is own])
        for key, own in distinct.items()
    }
    rows_of = [known[id(own)] for own in splits]
    heads = StackedHeads(models)
    learned = [*heads.parameters(), *(p for objective in objectives for p in objective.parameters())]
    batches = [ShuffledBatches(len(splits[0]), schedule.batch_size, seed) for seed in seeds]
    with cpu_settings(threads), torch.random.fork_rng(devices=[]):
        optimizer = torch.optim.Adam(learned, lr=schedule.lr, fused=True)
        for epoch in range(schedule.epochs):
            for objective, order in zip(objectives, batches, strict=True):
                objective.begin_epoch(epoch)
                order.set_epoch(epoch)
            total = torch.zeros(len(seeds))
            for step, index in enumerate(zip(*batches, strict=True)):
                for group in optimizer.param_groups:
                    group["lr"] = schedule.rate(epoch, step, len(batches[0]))
                rows = torch.from_numpy(np.stack(index))
                losses = _losses(heads, objectives, rows_of, rows, [(seed, epoch, step) for seed in seeds])
                _check_finite(losses, seeds, epoch)
                optimizer.zero_grad()
                losses.sum().backward()
                optimizer.step()
                total += losses.detach() * rows.shape[1]
            if after_epoch is not None or epoch == schedule.epochs - 1:
                heads.copy_to(models)
            if after_epoch is not None:
                after_epoch(epoch, models, (total / len(splits[0])).tolist())
        for model, objective in zip(models, objectives, strict=True):
            model.eval()
            objective.eval().end_training()


def splits_of_seeds(split: EmbeddingSplit | Sequence[EmbeddingSplit], seeds: int) -> list[EmbeddingSplit]:
    """Return each seed's split; raise ``ValueError`` unless there is one for all, or one of equal length for each."""
    if isinstance(split, EmbeddingSplit):
        return [split] * seeds
    lengths = sorted({len(own) for own in split})
    if len(split) != seeds or len(lengths) > 1:
        raise ValueError(
            f"there are {len(split)} splits of {' and '.join(map(str, lengths))} rows and {seeds} seeds; "
            "there must be one split, or one for every seed and all of equally many rows"
        )
    return list(split)


def _rows(split: EmbeddingSplit, models: Sequence[HashModel]) -> tuple[Tensor, Tensor]:
    """Give a split's statistics to its models, and return its standardized embeddings and its labels."""
    mean, deviation = split.standardization()
    for model in models:
        model.set_standardization(mean, deviation)
    inputs = (torch.from_numpy(split.take(slice(None))) - models[0].mean) / models[0].scale
    return inputs, labels_of(split)


class StackedHeads(nn.Module):
    """The heads of several models of one shape, with one batched product for each layer."""

    def __init__(self, models: Sequence[HashModel]) -> None:
        super().__init__()
        shapes = {(model.dim, model.bits, model.hidden, model.dropout.probability) for model in models}
        if len(shapes) > 1:
            raise ValueError(f"models have (dim, bits, hidden, dropout) of {sorted(shapes)}; they must be of one shape")
        self.dropout = models[0].dropout.probability
        layers = zip(*(_layers(model) for model in models), strict=True)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for layer in layers:
            self.weights.append(torch.stack([linear.weight.detach().T for linear in layer]))
            self.biases.append(torch.stack([linear.bias.detach()[None] for linear in layer]))

    def forward(self, x: Tensor) -> Tensor:
        """Return the raw outputs ``[seeds, n, bits]`` of standardized inputs ``[seeds, n, dim]`` behind the dropout."""
        first, *others = zip(self.biases, self.weights, strict=True)
        x = torch.baddbmm(first[0], x, first[1])
        for bias, weight in others:
            x = torch.baddbmm(bias, x.relu(), weight)
        return x

    @torch.no_grad()
    def copy_to(self, models: Sequence[HashModel]) -> None:
        """Copy each head's weights to its model."""
        for seed, model in enumerate(models):
            for linear, weight, bias in zip(_layers(model), self.weights, self.biases, strict=True):
                linear.weight.copy_(weight[seed].T)
                linear.bias.copy_(bias[seed, 0])


def _layers(model: HashModel) -> list[nn.Linear]:
    return [module for module in model.head.modules() if isinstance(module, nn.Linear)]


def _losses(
    heads: StackedHeads,
    objectives: Sequence[Objective],
    rows_of: Sequence[tuple[Tensor, Tensor]],
    rows: Tensor,
    steps: Sequence[tuple[int, int, int]],
) -> Tensor:
    """Return the loss of each seed's batch, ``[seeds]``.

    As in a run of its own, every seed samples from seed, epoch and step alone: first the model's dropout, then what its
    objective samples. The generator's state is stored in between, since the heads are computed together.
    """
    x = torch.stack([inputs[index] for (inputs, _), index in zip(rows_of, rows, strict=True)])
    states = []
    for own, numbers in zip(x, steps, strict=True):
        draw_from(*numbers)
        keep = keep_mask(heads.dropout, tuple(own.shape), own)
        if keep is not None:
            own *= keep
        states.append(torch.get_rng_state())
    losses = []
    for logits, objective, (_, labels), index, state in zip(heads(x), objectives, rows_of, rows, states, strict=True):
        torch.set_rng_state(state)
        losses.append(check_loss(objective(logits, labels[index], index), objective, logits))
    return torch.stack(losses)


def _check_finite(losses: Tensor, seeds: Sequence[int], epoch: int) -> None:
    finite = torch.isfinite(losses)
    if not finite.all():
        seed = int(finite.int().argmin())
        raise ValueError(
            f"the loss of seed {seeds[seed]} is {losses[seed].item()} in epoch {epoch}; a smaller lr may help"
        )
