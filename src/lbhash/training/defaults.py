"""What is taken where the user says nothing: the method, its head and pull, and what a recipe sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lbhash.losses.registry import METHODS, PAPER, find_method, method_name, names_surrogate, recommended, uses_centers
from lbhash.training.coders import CODERS, coder_of
from lbhash.training.settings import LABEL_FREE, METHOD, PULL_MARKS, Pull, Settings
from lbhash.utils.validation import did_you_mean

LEAST_STEPS = 8
"""Steps of an epoch that "tuned" leaves: its batches were found on thousands of rows, and hundreds need smaller."""


def method_for(method: Any, *, has_labels: bool, images: bool = False) -> Any:
    """Return the method that fits rows with or without labels: the one that is named or, if None, the default.

    Raises:
        ValueError: the method needs labels and there are none, or there is no such method.
    """
    if method is None:
        if not has_labels and not images:
            return LABEL_FREE
        method = METHOD
    coder = coder_of(method)
    if coder is None:
        try:
            find_method(method)
        except ValueError as error:
            if ":" in str(method):  # a class of the user's own, which is not there
                raise
            hint = did_you_mean(str(method), [*METHODS, *CODERS])
            raise ValueError(f"{error}, or of the coders: {', '.join(CODERS)}{hint}") from None
    if has_labels or (coder is not None and not coder.needs_labels):
        return method if coder is None else method.lower()
    free = ", ".join(
        name for name, kind in CODERS.items() if not kind.needs_labels and (kind.takes_images or not images)
    )
    frozen = ", or embed the images first (on the command line, --freeze)" if images else ""
    raise ValueError(
        f"method is {method_name(method)!r}, which learns from labels, and there are none; give a label for each row, "
        f"or name one that needs none ({free}){frozen}"
    )


def completed(given: Settings, rows: int | None = None, *, images: bool = False) -> Settings:
    """Return the settings with a method, head and pull, and with those of the recipe in the place of what is None.

    Args:
        given: after ``checked``.
        rows: how many rows train, if that is known; the batch of "tuned" is at most an eighth of them, and a little
            larger for a method that weighs pairs, where few rows would be left for the last one.
        images: whether a backbone learns, for which no settings were searched: the recipe is "paper" then, if none is
            given.

    Raises:
        ValueError: the recipe is "tuned", and the method has no settings of its own.
    """
    head = given.head
    if head is None:
        plain = given.method is not None or given.recipe == "paper" or images or given.unseen
        head = "bits" if plain else "joined"
    pull = pull_of(given, images=images)
    given = replace(given, method=given.method or METHOD, head=head, pull=pull)
    own = recommended(given.method, pull, given.bits)
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


def pull_of(given: Settings, *, images: bool = False) -> Pull:
    """Return the pull of settings after ``checked``: theirs or, if they have none, what suits the method.

    A loss that has centers gains nothing for certain by the guidance on fixed embeddings (``docs/guidance.md``).
    """
    if given.pull is not None:
        return given.pull
    method = given.method or METHOD
    asked = images or given.recipe == "paper" or given.guidance is not None or names_surrogate(method)
    return "surrogate" if asked or not uses_centers(method, "none") else "none"


def _without_rest(batch: int, rows: int) -> int:
    """Return a batch size with which the last batch of an epoch is no small rest: the rest goes to the others."""
    return batch if not 0 < rows % batch < batch / 8 else -(-rows // (rows // batch))


def full_name(method: Any, pull: str | None) -> str:
    """Return the method with its pull: ``csq``, the paper's ``csq_d``, or ``csq+bits``; a coder is never pulled."""
    return method_name(method) + ("" if coder_of(method) is not None else PULL_MARKS.get(pull, ""))
