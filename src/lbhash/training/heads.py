"""What a trained model gets besides its bits: the class posterior that they are joined with, or a neighborhood."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from lbhash.data.holdout import hold_out
from lbhash.data.split import EmbeddingSplit, Split
from lbhash.models.encoder import Encoder
from lbhash.models.hash_model import HashModel
from lbhash.models.neighborhood import Neighborhood
from lbhash.training.class_posterior import HELD_OUT, choose, class_posterior
from lbhash.training.coders.base import MOST_ROWS, projected
from lbhash.training.coders.wccn_itq import equalized_axes
from lbhash.training.hardware import cpu_settings
from lbhash.training.prepare import prepare
from lbhash.training.settings import Settings
from lbhash.training.trainer import train

MANY = 10_000
"""Rows from which on a sixth of the epochs are steps enough to weigh the class posterior by."""


def join(model: HashModel, settings: Settings, split: Split, classes: int, centers: npt.NDArray[np.int8]) -> None:
    """Give a trained model the class posterior of its training rows, if that helps rows held out of them.

    Settings, split and classes are those of the training, and the centers ``int8 [C, bits]`` those that it had. A
    network that has not seen the rows held out, with a sixth of the epochs, or a third of them for fewer rows than
    ``MANY``, weighs the posterior. Rows that are too few to hold any out leave the model as it is, unless the settings
    ask for the posterior.
    """
    rows = split.embedded()
    try:
        fitted, held_out = hold_out(rows, HELD_OUT, purpose="head 'joined'")
    except ValueError:
        if settings.head is not None:
            raise
        return
    seen, seen_centers = probe(settings, fitted, classes, -(-settings.epochs // (6 if len(rows) >= MANY else 3)))
    outputs = np.concatenate([seen.outputs(chunk) for chunk in held_out.chunks()])
    with cpu_settings(settings.threads):
        chosen = choose(fitted, held_out, outputs, seen_centers)
        model.metadata["posterior"] = chosen._asdict()
        if chosen.weight:
            model.posterior = class_posterior(rows, centers, chosen)


def probe(
    settings: Settings, fitted: EmbeddingSplit, classes: int, epochs: int
) -> tuple[Encoder, npt.NDArray[np.int8]]:
    """Train a network of these settings for so many epochs, and return it with its class centers.

    It tells what rows that it has not seen are worth to it, and so has neither a second model nor validation rows, and
    is the same for every ``seed``.
    """
    alone: dict[str, Any] = {
        "head": "bits",
        "unseen": 0.0,
        "start": None,
        "validation": None,
        "monitor": None,
        "patience": None,
    }
    setup = prepare(replace(settings.checked(), **alone, seed=0, epochs=epochs), fitted, classes)
    rows: Any = setup.fitted
    train(setup.model, setup.objective, rows, setup.arguments)
    return setup.model.encoder(), setup.centers


def neighborhood(model: HashModel, rows: EmbeddingSplit, classes: int, unseen: float) -> Neighborhood:
    """Return the branch of a trained model: (1 − u) ℓ / |ℓ| + u V R / |V|.

    V are the principal coordinates of the rows after within-class covariance normalization (the coder ``wccn-itq``),
    R is the rotation that brings them nearest to ℓ, so that both agree on what a bit says where they can
    (P. Schönemann, Psychometrika 1966), and |·| is the root mean square over the rows.

    Args:
        model: with the weights that training has found.
        rows: what it was trained on, with labels from 0 to ``classes`` − 1 or multi-hot.
        classes: C.
        unseen: u, from 0 to 1.
    """
    rows = rows.subsample(MOST_ROWS)
    with torch.inference_mode():
        outputs = np.concatenate([model(torch.from_numpy(chunk)).numpy() for chunk in rows.chunks()])
    mean, axes = equalized_axes(rows, classes, model.bits)
    v = projected(rows, mean, axes)
    p, _, q = np.linalg.svd(v.T @ outputs, full_matrices=False)
    branch = Neighborhood(model.dim, model.bits)
    branch.requires_grad_(False)
    branch.share.fill_((1 - unseen) / (_size(outputs) or 1.0))
    branch.mean.copy_(torch.from_numpy(mean))
    branch.linear.weight.copy_(torch.from_numpy(unseen / _size(v) * (axes @ (p @ q)).T))
    return branch


def _size(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values).mean()))
