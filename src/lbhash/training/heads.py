"""Add a second branch to a trained model: a class posterior that is joined with its bits, or a neighborhood."""

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
"""With this many rows, a sixth of the epochs is enough training to weigh the class posterior."""


def join(model: HashModel, settings: Settings, split: Split, classes: int, centers: npt.NDArray[np.int8]) -> None:
    """Join a trained model with the class posterior of its training rows, if this improves held-out rows.

    Settings, split, classes and centers (``int8 [C, bits]``) are those of the training. A second network, trained
    without the held-out rows for a sixth of the epochs (a third if there are fewer than ``MANY`` rows), is used to
    weigh the posterior. If there are too few rows to hold any out, the model stays unchanged; if the settings ask for
    the posterior, this is an error.
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
    """Train a network with these settings for ``epochs`` epochs, and return it with its class centers.

    It only measures performance on held-out rows, so it has no second branch and no validation rows, and is the same
    for every ``seed``.
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
    """Return the neighborhood branch of a trained model: (1 − u) ℓ / |ℓ| + u V R / |V|.

    V are the principal coordinates of the rows after within-class covariance normalization (the coder ``wccn-itq``), R
    is the rotation that brings V closest to ℓ, so both agree on each bit as far as possible (P. Schönemann,
    Psychometrika 1966), and |·| is the root mean square over the rows.

    Args:
        model: the trained model.
        rows: its training rows, with labels from 0 to ``classes`` − 1 or multi-hot.
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
