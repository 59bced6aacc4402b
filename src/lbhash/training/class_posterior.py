"""Fit the class posterior of embeddings (a logistic regression), and choose its weight beside a model's bits.

The regression has a squared penalty; its inputs are the directions of embeddings from their mean. Held-out rows choose
the penalty by their cross-entropy, and the weight λ and the dither's strength s by the mAP of their codes, each row a
query to the others. The smallest λ within ``MARGIN`` of the best mAP is taken: the network that is used later was
trained on all rows, so it is better than the one in this comparison. Then all rows are fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from lbhash.codes import pack_outputs
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.held_out import leave_one_out_map
from lbhash.losses.classes import class_loss
from lbhash.models.posterior import TURNS, ClassPosterior
from lbhash.training.batches import labels_of
from lbhash.training.optimizers import LBFGS

HELD_OUT = 0.2
"""Share of each class's rows that is held out to choose penalty, λ and s."""

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
"""The tried values of scikit-learn's C; the last one before the held-out rows' cross-entropy rises is taken."""

WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 64.0)
"""The tried values of λ; 0 leaves the bits unchanged, and 64 almost ignores them."""

DITHERS = (0.0, 0.3, 0.6, 0.9)
"""The tried values of s."""

MARGIN = 0.005
"""The smallest λ whose mAP is at most this much below the highest is taken."""

GUESSING = 30.0
"""C of the logistic regression that guesses missing labels; one of ``STRENGTHS``."""

STEPS, MOST_AXES = 15, 512  # steps of L-BFGS from the previous fit, and principal components
MOST_ROWS, _MOST_CHOSEN_BY = 100_000, 20_000  # rows to fit, and rows to choose by

Floats = npt.NDArray[np.float32]


class Joined(NamedTuple):
    """How a class posterior is joined: scikit-learn's C, λ and s, and the held-out rows' mAP with them."""

    strength: float
    weight: float
    dither: float
    map: float


def choose(
    fitted: EmbeddingSplit, held_out: EmbeddingSplit, outputs: Floats | None, centers: npt.NDArray[np.int8]
) -> Joined:
    """Return the settings that are best for the held-out rows.

    Args:
        fitted: rows with labels.
        held_out: other rows of the same classes.
        outputs: ℓ of the held-out rows ``[m, bits]`` by a model trained on the fitted ones; if None, there are no bits
            to join and λ is 1.
        centers: ``int8 [C, bits]`` of ±1.
    """
    held_out = held_out.subsample(_MOST_CHOSEN_BY)
    x, y = _rows(held_out)
    losses: list[tuple[float, float, ClassPosterior]] = []
    for strength, model in _fits(fitted.subsample(_MOST_CHOSEN_BY), centers, STRENGTHS):
        with torch.inference_mode():
            losses.append((float(class_loss(model.scores(x), y)), strength, model))
        if len(losses) > 1 and losses[-1][0] > losses[-2][0]:
            break
    _, strength, model = min(losses, key=lambda one: one[0])
    assert held_out.labels is not None
    bits = None if outputs is None else np.tanh(outputs)
    tried = []
    for weight, dither in product([1.0] if bits is None else WEIGHTS, DITHERS):
        if not weight and dither:
            continue
        with torch.inference_mode():
            joined = weighted(model, centers, weight, dither)(x).numpy() + (0 if bits is None else bits)
        found = leave_one_out_map(pack_outputs(joined), held_out.labels, centers.shape[1])
        tried.append(Joined(strength, weight, dither, found))
    highest = max(one.map for one in tried)
    weight = min(one.weight for one in tried if one.map >= highest - MARGIN)
    return max((one for one in tried if one.weight == weight), key=lambda one: one.map)


def class_posterior(rows: EmbeddingSplit, centers: npt.NDArray[np.int8], joined: Joined) -> ClassPosterior:
    """Fit the class posterior to all labeled rows, with the settings that ``choose`` found."""
    *_, (_, model) = _fits(rows, centers, [one for one in STRENGTHS if one <= joined.strength])
    return weighted(model, centers, joined.weight, joined.dither)


def guessed_labels(rows: EmbeddingSplit, labeled: EmbeddingSplit, classes: int) -> npt.NDArray[np.int64]:
    """Return the class of each row by a logistic regression on the labeled rows, ``int64 [n]``.

    Its C is ``GUESSING``: with one or two rows per class, none can be held out to choose C.
    """
    strengths = [one for one in STRENGTHS if one <= GUESSING]
    *_, (_, model) = _fits(labeled, np.ones((classes, 1), np.int8), strengths)
    return predicted(model, rows)


def predicted(model: ClassPosterior, rows: EmbeddingSplit) -> npt.NDArray[np.int64]:
    """Return the class with the highest score for each row, ``int64 [n]``."""
    with torch.inference_mode():
        found = [model.scores(torch.from_numpy(chunk)).argmax(dim=1).numpy() for chunk in rows.chunks()]
    return np.concatenate(found)


def weighted(model: ClassPosterior, centers: npt.NDArray[np.int8], weight: float, dither: float) -> ClassPosterior:
    """Set a posterior's weight λ and dither strength s in place, and return it."""
    model.centers.copy_(weight * torch.from_numpy(centers).float())
    model.strength.fill_(weight * dither)
    return model


def _fits(
    split: EmbeddingSplit, centers: npt.NDArray[np.int8], strengths: Sequence[float]
) -> Iterator[tuple[float, ClassPosterior]]:
    """Yield a posterior for each C, starting each fit from the previous one; the random numbers are always the same."""
    x, y = _rows(split.subsample(MOST_ROWS))
    mean = x.mean(dim=0)
    z = F.normalize(x - mean, dim=1)
    shift = z.mean(dim=0)
    z -= shift
    scale = float(z.square().sum(dim=1).mean().sqrt()) or 1.0  # makes C independent of the embeddings' scale
    z /= scale
    # In the covariance's axes, each scaled by the loss's curvature, a few steps are enough.
    values, axes = torch.linalg.eigh(z.T @ z / len(z))
    values, axes = values[-MOST_AXES:].clamp(min=0), axes[:, -MOST_AXES:]
    z = z @ axes
    classes, bits = centers.shape
    rng = np.random.default_rng(0)
    directions = (rng.normal(size=(bits, split.dim)) * TURNS / scale).astype(np.float32)
    phases = rng.random(bits, np.float32)
    weight, bias = torch.zeros(classes, len(values)), torch.zeros(classes)
    for strength in strengths:
        penalty = 1 / (strength * len(z))
        root = (values + classes * penalty).rsqrt()
        learned, bias = _minimize(z * root, y, weight / root, bias, penalty / 2 * root.square())
        weight = learned * root
        model = ClassPosterior(split.dim, bits, classes, several=y.ndim == 2).eval()
        whole = weight @ axes.T / scale
        with torch.no_grad():
            model.linear.weight.copy_(whole)
            model.linear.bias.copy_(bias - whole @ shift)
            model.mean.copy_(mean)
            model.directions.copy_(torch.from_numpy(directions))
            model.phases.copy_(torch.from_numpy(phases))
        yield strength, model


def _minimize(z: Tensor, y: Tensor, weight: Tensor, bias: Tensor, penalty: Tensor) -> tuple[Tensor, Tensor]:
    """Return weights and biases that minimize the mean cross-entropy plus each column's squared penalty."""
    learned = [weight.clone().requires_grad_(), bias.clone().requires_grad_()]
    optimizer = LBFGS(
        learned, max_iter=STEPS, tolerance_grad=1e-6, tolerance_change=1e-6, line_search_fn="strong_wolfe"
    )

    def closure() -> float:
        optimizer.zero_grad()
        loss = class_loss(F.linear(z, *learned), y) + (penalty * learned[0].square()).sum()
        loss.backward()
        return float(loss.detach())

    with torch.enable_grad():
        optimizer.step(closure)
    return learned[0].detach(), learned[1].detach()


def _rows(split: EmbeddingSplit) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(split.take(slice(None))), labels_of(split)
