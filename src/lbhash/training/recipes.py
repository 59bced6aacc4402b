"""What a recipe sets where the user says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lbhash.losses import PAPER, find_method, method_name, recommended
from lbhash.training.arguments import TrainingArguments

LEAST_STEPS = 8
"""Steps of an epoch that "tuned" leaves: its batches were found on thousands of rows, and hundreds need smaller."""


def with_recipe(given: TrainingArguments, rows: int | None = None, *, images: bool = False) -> TrainingArguments:
    """Return the settings with those of the recipe in the place of what is None.

    Args:
        given: after ``checked``.
        rows: how many rows train, if that is known; the batch of "tuned" is at most an eighth of them, and a little
            larger for a method that weighs pairs, where few rows would be left for the last one.
        images: whether a backbone learns, for which no settings were searched: the recipe is "paper" then, if none is
            given.

    Raises:
        ValueError: the recipe is "tuned", and the method has no settings of its own.
    """
    assert given.pull is not None
    own = recommended(given.method, given.pull, given.bits)
    recipe = given.recipe or ("tuned" if own and not images else "paper")
    tuned = own if recipe == "tuned" else {}
    if recipe == "tuned" and not tuned:
        name = method_name(given.method)
        raise ValueError(f"recipe is 'tuned', for which method {name!r} has no settings; it must be 'paper'")
    found = dict(tuned or PAPER)
    if tuned and rows is not None:
        found["batch_size"] = max(2, min(found["batch_size"], rows // LEAST_STEPS))
        if getattr(find_method(given.method), "weighs_pairs", False):
            found["batch_size"] = _without_rest(found["batch_size"], rows)
    values: dict[str, Any] = {"recipe": recipe}
    for name, value in found.items():
        said = getattr(given, name)
        if said is None:
            values[name] = value
        elif isinstance(said, Mapping):
            values[name] = {**value, **said}
    return replace(given, **values)


def _without_rest(batch: int, rows: int) -> int:
    """Return a batch size with which the last batch of an epoch is no small rest: the rest goes to the others."""
    return batch if not 0 < rows % batch < batch / 8 else -(-rows // (rows // batch))
