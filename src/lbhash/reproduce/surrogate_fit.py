"""Fit the surrogate to samples of a known distribution of bits, and estimate joint probabilities with it.

In training the surrogate sees a model's raw outputs ℓ and their codes b = bin(ℓ). A known distribution of codes says
nothing about the size of the outputs, so here b is sampled from it and ℓ = b·|z| with standard normal z. The signs then
have that distribution, and the sizes carry no information.

P(· | ℓ) is a distribution for each output. Its average over outputs, p(b) = E P(b | ℓ), is a joint probability and is
compared with the truth. The paper averages over 100 new outputs; here the average is over the training outputs, without
dropout, unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lbhash.models.surrogate import Surrogate
from lbhash.reproduce.distributions import Joint, bits_of
from lbhash.training.hardware import draw_from
from lbhash.training.schedule import Schedule

CHUNK = 8192
PAPER_SCHEDULE = Schedule(epochs=30)
"""The paper's batch and rates. The paper trains for 100 epochs; the last 70 have a rate of 1e-6 or less."""


def raw_outputs(outcomes: npt.NDArray[np.int64], bits: int, rng: np.random.Generator) -> Tensor:
    """Return ℓ = b·|z| of these outcomes, ``float32 [n, bits]``."""
    size = np.abs(rng.normal(size=(len(outcomes), bits)))
    return torch.from_numpy(((2 * bits_of(outcomes, bits) - 1) * size).astype(np.float32))


def fit_surrogate(outputs: Tensor, seed: int, schedule: Schedule) -> Surrogate:
    """Return the paper's network, fitted by Algorithm 1's L_π to outputs ``[n, bits]`` and their codes."""
    with torch.random.fork_rng(devices=[]):
        draw_from(seed)
        surrogate = Surrogate(outputs.shape[1])
        codes = surrogate.block_index(outputs)
        centers, rows = codes[:0], codes[:0, 0]  # nothing is pulled
        adam = torch.optim.Adam(surrogate.parameters(), schedule.lr, fused=True)
        for epoch in range(schedule.epochs):
            for group in adam.param_groups:
                group["lr"] = schedule.rate(epoch)
            for batch in torch.randperm(len(outputs)).split(schedule.batch_size):
                adam.zero_grad()
                fit, _ = surrogate.losses(outputs[batch], codes[batch], centers, rows)
                fit.backward()
                adam.step()
    return surrogate.eval()


def stretched(schedule: Schedule, samples: int, as_with: int) -> Schedule:
    """Return a schedule with more epochs, so that fewer samples give as many steps as ``as_with`` samples."""
    times = max(1, round(as_with / samples))
    return replace(schedule, epochs=times * schedule.epochs, decay_every=times * schedule.decay_every)


def mean_of_blocks(surrogate: Surrogate, outputs: Tensor) -> Joint:
    """Return the average of P_j(· | ℓ) over outputs, ``float64 [blocks, 2**r]``."""
    return sum(joint.sum(0) for joint in _joints(surrogate, outputs)).numpy() / len(outputs)  # type: ignore[union-attr]


def mean_with_dropout(surrogate: Surrogate, outputs: Tensor, seed: int) -> Joint:
    """Return the average of ``mean_of_blocks`` with dropout as in training, once for each output."""
    with torch.random.fork_rng(devices=[]):
        draw_from(seed)
        mean = mean_of_blocks(surrogate.train(), outputs)
        surrogate.eval()
    return mean


def mean_of_products(surrogate: Surrogate, outputs: Tensor) -> Joint:
    """Return the average over outputs of the product of two blocks, P_1(· | ℓ) ⊗ P_2(· | ℓ), ``float64 [2**(2r)]``.

    The blocks are independent given ℓ, not on average, so this average is not a product.
    """
    total = sum(joint[:, 1].T @ joint[:, 0] for joint in _joints(surrogate, outputs))
    return total.numpy().ravel() / len(outputs)  # type: ignore[union-attr]


@torch.no_grad()
def _joints(surrogate: Surrogate, outputs: Tensor) -> Iterator[Tensor]:
    """Yield P of some outputs at a time, ``float64 [up to CHUNK, blocks, 2**r]``."""
    for chunk in outputs.split(CHUNK):
        yield surrogate.joint(chunk).double()
