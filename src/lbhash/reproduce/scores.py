"""Estimates of several truths held against them, a value a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lbhash.reproduce.distributions import Joint, divergence
from lbhash.reproduce.interval import Interval


def kl(truths: Sequence[Joint], estimates: Sequence[Joint]) -> Interval:
    """KL(truth ‖ estimate) over the seeds."""
    return Interval.of(divergence(truth, estimate) for truth, estimate in zip(truths, estimates, strict=True))


def kl_back(truths: Sequence[Joint], estimates: Sequence[Joint]) -> Interval:
    """KL(estimate ‖ truth) over the seeds, which is finite where every true probability is above 0."""
    return Interval.of(divergence(estimate, truth) for truth, estimate in zip(truths, estimates, strict=True))


def by_name(
    score: Callable[[Sequence[Joint], Sequence[Joint]], Interval],
    truths: Sequence[Joint],
    found: Sequence[Mapping[str, Joint]],
) -> dict[str, Interval]:
    """``kl`` or ``kl_back`` of each estimate, of which ``found`` has those of each truth by name."""
    return {name: score(truths, [of_truth[name] for of_truth in found]) for name in found[0]}
