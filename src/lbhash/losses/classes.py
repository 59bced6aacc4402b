"""Classes: a row's target, and its nearness to each class, for the methods of classes and centers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from lbhash.losses.base import Task


def one_hot(labels: Tensor, classes: int) -> Tensor:
    """Return Y, ``float [n, C]``, of integer or multi-hot labels."""
    return F.one_hot(labels, classes).float() if labels.ndim == 1 else labels.float()


def cosines(u: Tensor, vectors: Tensor) -> Tensor:
    """Return cos(u_i, v_k), ``[n, m]``; a row of zeros, whose direction is none, has 0."""
    return F.normalize(u, dim=1, eps=1e-3) @ F.normalize(vectors, dim=1, eps=1e-3).T


def cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    """Return the mean of −Σ_k (y_k / |y|) log softmax_k of the rows with a label; ``y`` are multi-hot ``[n, C]``."""
    count = y.sum(dim=1)
    each = -(y * scores.log_softmax(dim=1)).sum(dim=1) / count.clamp(min=1)
    return each.sum() / (count > 0).sum().clamp(min=1)


def class_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy by scores ``[n, C]``; with several labels a row, summed over the classes."""
    if labels.ndim == 1:
        return F.cross_entropy(scores, labels)
    return F.binary_cross_entropy_with_logits(scores, labels.to(scores.dtype), reduction="sum") / len(labels)


def tie_break(task: Task) -> Tensor:
    """Return a random code, ``float [bits]`` of ±1, that decides bits where +1 and −1 are equally frequent."""
    return 2.0 * torch.randint(0, 2, (task.bits,), generator=task.generator()) - 1


def majority(labels: Tensor, centers: Tensor, tie_break: Tensor) -> Tensor:
    """Return each row's target, ``float [n, bits]`` of ±1: the center of its label, or the majority of its labels'.

    The target of a row without a label has no meaning.
    """
    if labels.ndim == 1:
        return centers[labels]
    votes = labels.to(centers.dtype) @ centers
    return torch.where(votes == 0, tie_break, votes.sign())


def center_cross_entropy(logits: Tensor, labels: Tensor, centers: Tensor, tie_break: Tensor) -> Tensor:
    """Return mean_ik BCE((tanh ℓ_ik + 1)/2, (c_ik + 1)/2), where c_i is row i's ``majority``; of rows with a label."""
    ones = (majority(labels, centers, tie_break) + 1) / 2
    # (tanh ℓ + 1)/2 is the logistic function of 2ℓ, which gives the cross-entropy without rounding to log 0.
    if labels.ndim == 1:
        return F.binary_cross_entropy_with_logits(2 * logits, ones)
    each = F.binary_cross_entropy_with_logits(2 * logits, ones, reduction="none").mean(dim=1)
    return labeled_mean(each, labels)


def labeled_mean(values: Tensor, labels: Tensor) -> Tensor:
    """Return the mean of ``values`` ``[n]`` over the rows that have a label; 0 if none has."""
    if labels.ndim == 1:
        return values.mean()
    labeled = labels.any(dim=1)
    return (values * labeled).sum() / labeled.sum().clamp(min=1)
