"""Joint distributions of bits, and estimates of one from samples.

A distribution of r bits is ``float64 [2**r]`` by outcome Σ_k 1{b_k > 0}·2^(k-1), and sums to 1. Counts are ``int64
[2**r]``, how often each outcome was seen among n samples.

The error of the plain frequencies c / n. With counts of expectation n p_b and variance n p_b (1 − p_b), and to second
order in c_b / n − p_b, both KL(p ‖ c/n) and KL(c/n ‖ p) are ½ Σ_b (c_b / n − p_b)² / p_b, whose expectation is ½ Σ_b (1
− p_b) / n = (2^r − 1) / (2n): 0.0128 for 8 bits and 10,000 samples. KL(p ‖ c/n) is infinite as soon as one outcome was
never seen, so strictly its expectation is too; KL(c/n ‖ p) is always finite.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Joint = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def random_joint(bits: int, rng: np.random.Generator) -> Joint:
    """Return a softmax of standard normal numbers."""
    weights = np.exp(rng.normal(size=2**bits))
    return weights / weights.sum()


def bits_of(outcomes: npt.NDArray[np.int64], bits: int) -> npt.NDArray[np.int64]:
    """Return the bits of outcomes, ``int64 [n, bits]`` of 0 and 1."""
    return outcomes[:, None] >> np.arange(bits) & 1


def divergence(truth: Joint, estimate: Joint) -> float:
    """Return KL(truth ‖ estimate) in nats; infinite if the estimate excludes an outcome that can happen."""
    from scipy.special import rel_entr

    return float(rel_entr(truth, estimate).sum())


def marginals(joint: Joint) -> Joint:
    """Return each bit's probability of +1, ``float64 [..., bits]``, from joint probabilities ``[..., 2**bits]``."""
    outcomes = joint.shape[-1]
    return joint @ bits_of(np.arange(outcomes), outcomes.bit_length() - 1)


def independent_bits(joint: Joint) -> Joint:
    """Return the product of the marginals, as if the bits were independent."""
    return product_of_marginals(marginals(joint))


def product_of_marginals(marginals: npt.NDArray[np.floating]) -> Joint:
    """Return the joint probabilities ``[..., 2**bits]`` of independent bits with these probabilities of +1."""
    ones, given = bits_of(np.arange(2 ** marginals.shape[-1]), marginals.shape[-1]), marginals[..., None, :]
    return np.where(ones, given, 1 - given).prod(axis=-1)


def independent_blocks(joint: Joint, first: int) -> Joint:
    """Return the product of the marginals of two blocks, the ``first`` bits and the others.

    It is the nearest of all products q₁ ⊗ q₂, because KL(p ‖ q₁ ⊗ q₂) = KL(p ‖ p₁ ⊗ p₂) + KL(p₁ ‖ q₁) + KL(p₂ ‖ q₂).
    """
    blocks = joint.reshape(-1, 2**first)  # the first bits are the low ones of the index
    return np.outer(blocks.sum(axis=1), blocks.sum(axis=0)).ravel()


def dirichlet(counts: Counts) -> Joint:
    """Return (c + α) / (n + 2^r α), the posterior mean under a symmetric Dirichlet prior.

    α makes the counts most probable, so it follows from the samples alone:
    log P(c | α) = log Γ(2^r α) − log Γ(n + 2^r α) + Σ_b [log Γ(c_b + α) − log Γ(α)] + a constant.
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import gammaln

    outcomes, total = len(counts), counts.sum()
    values, times = np.unique(counts, return_counts=True)

    def surprise(log_alpha: float) -> float:
        alpha = math.exp(log_alpha)
        seen = (times * (gammaln(values + alpha) - gammaln(alpha))).sum()
        return float(gammaln(total + outcomes * alpha) - gammaln(outcomes * alpha) - seen)

    alpha = math.exp(minimize_scalar(surprise, bounds=(-8, 8), method="bounded").x)
    return (counts + alpha) / (total + outcomes * alpha)


def knowing_the_prior(counts: Counts) -> Joint:
    """Return the posterior mean under the prior of ``random_joint``, a softmax of standard normal numbers.

    The posterior mean has the least expected KL(truth ‖ estimate) of all estimates: over many truths, no method can
    stay below it from the samples alone. It is computed outcome by outcome: the weight e^z, z ~ N(0, 1), is seen
    through c ~ Poisson(λ e^z) with λ = n / (2^r √e). This is an approximation, because a softmax ties the outcomes by
    its sum; the sum varies little with 256 outcomes or more.
    """
    values, where = np.unique(counts, return_inverse=True)
    z = np.linspace(-8, 8, 4001)
    rate = counts.sum() / (len(counts) * math.sqrt(math.e)) * np.exp(z)
    log_weight = values[:, None] * np.log(rate) - rate - z**2 / 2
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    mean = (weight * np.exp(z)).sum(axis=1) / weight.sum(axis=1)
    estimate = mean[where.reshape(-1)]
    return estimate / estimate.sum()
