"""What a recipe sets where the user says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lbhash.losses import METHODS, method_name, recommended
from lbhash.training.arguments import TrainingArguments, arguments
from lbhash.training.schedule import Schedule

PAPER: Mapping[str, Any] = {
    "batch_size": Schedule.batch_size,
    "lr": Schedule.lr,
    "schedule": Schedule.schedule,
    "dropout": 0.5,
}
"""The paper's settings of a training, the recipe "paper"."""

LEAST_STEPS = 8
"""Steps of an epoch that "tuned" leaves: its batches were found on thousands of rows, and hundreds need smaller."""


def with_recipe(given: TrainingArguments, rows: int | None = None) -> TrainingArguments:
    """Return the settings with those of the recipe in the place of what is None.

    Args:
        given: after ``checked``.
        rows: how many rows train, if that is known; the batch of "tuned" is at most an eighth of them.

    Raises:
        ValueError: the recipe is "tuned", and the method has no settings of its own.
    """
    tuned = recommended(given.method, given.guided, given.bits) if given.recipe == "tuned" else {}
    if given.recipe == "tuned" and not tuned:
        known = ", ".join(name for name, kind in METHODS.items() if kind.recommended)
        raise ValueError(
            f"recipe is 'tuned', which knows {known}; {method_name(given.method)!r} has the recipe 'paper'"
        )
    if tuned and rows is not None:
        tuned["batch_size"] = max(2, min(tuned["batch_size"], rows // LEAST_STEPS))
    chosen, values = {**PAPER, **tuned}, dict[str, Any]()
    for name, value in chosen.items():
        own = getattr(given, name)
        if own is None:
            values[name] = value
        elif isinstance(own, Mapping):
            values[name] = {**value, **own}
    return TrainingArguments(**{one.name: getattr(given, one.name) for one in arguments()} | values)
