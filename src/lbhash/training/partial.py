"""Train on partly labeled rows: on the labeled rows only, or, if few are labeled, also with guessed labels."""

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
"""Weight of the neighbors' loss, chosen on held-out rows. With 1, it outweighs the labels if a tenth of the rows has
one."""


ENOUGH = 0.7
"""From this share of labeled rows on, unlabeled rows are left out of the training; chosen on held-out rows."""


def few_labels(rows: Split) -> bool:
    """Return whether so few rows are labeled that the other labels are guessed."""
    assert rows.labels is not None
    return float(has_label(np.asarray(rows.labels)).mean()) < ENOUGH


class WithNeighbors(Wrapped):
    """A method's loss, plus ``WEIGHT`` times the loss of the embeddings' neighbors (``neighbor_loss``).

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
    """Return the rows with missing labels guessed by a logistic regression on the labeled rows."""
    assert rows.labels is not None
    known = has_label(rows.labels)
    guessed = guessed_labels(rows.where(~known), rows.where(known), classes)
    labels = rows.labels.copy()
    labels[~known] = guessed
    return rows.with_rows(rows.rows, labels)
