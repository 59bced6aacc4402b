"""Training on rows of which some have no label: on the others alone, or with guessed labels if these are few."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lbhash.data.split import EmbeddingSplit, Split
from lbhash.losses import Objective
from lbhash.losses.base import Wrapped
from lbhash.training.class_posterior import guessed_labels
from lbhash.training.coders.sne import bits_of, first_sharpness, neighbor_loss
from lbhash.utils.labels import has_label

WEIGHT = 0.1
"""Of the neighbors' loss, chosen on held-out rows; with 1 it outweighs what the labels of a tenth of the rows say."""


ENOUGH = 0.7
"""The share of rows with a label from which on the others are left out of the training, chosen on held-out rows."""


def few_labels(rows: Split) -> bool:
    """Return whether so few rows have a label that those of the others are guessed, and not left out."""
    assert rows.labels is not None
    return float(has_label(np.asarray(rows.labels)).mean()) < ENOUGH


class WithNeighbors(Wrapped):
    """A method's loss, plus ``WEIGHT`` times that of the neighbors that rows have by their embeddings.

    Args:
        host: the method with its pull.
        rows: the training rows, in the order of ``index``.
    """

    def __init__(self, host: Objective, rows: EmbeddingSplit) -> None:
        super().__init__(host)
        self.rows, self.sharpness = rows, first_sharpness()

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        x = torch.from_numpy(self.rows.take(index.cpu().numpy())).to(logits.device)
        bits = bits_of(logits)
        return self.host_loss(logits, labels, index) + WEIGHT * neighbor_loss(bits, bits, x, self.sharpness)


def with_guesses(rows: EmbeddingSplit, classes: int) -> EmbeddingSplit:
    """Return the rows, those without a label with the class that a logistic regression of the others finds."""
    assert rows.labels is not None
    known = has_label(rows.labels)
    guessed = guessed_labels(rows.where(~known), rows.where(known), classes)
    labels = rows.labels.copy()
    labels[~known] = guessed
    return rows.with_rows(rows.rows, labels)
