"""Choose defaults: the method, its head and pull, and the settings of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lbhash.losses.registry import METHODS, PAPER, find_method, method_name, names_surrogate, recommended, uses_centers
from lbhash.training.coders import CODERS, coder_of
from lbhash.training.settings import LABEL_FREE, METHOD, PULL_MARKS, Pull, Settings
from lbhash.utils.validation import did_you_mean

LEAST_STEPS = 8
"""The fewest steps per epoch with "tuned": batch sizes tuned on thousands of rows are too large for hundreds."""


def method_for(method: Any, *, has_labels: bool, images: bool = False) -> Any:
    """Return the method that fits rows with or without labels: the named one or, if None, the default.

    Raises:
        ValueError: the method needs labels and there are none, or the method does not exist.
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
            if ":" in str(method):  # a user's class that cannot be found
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
    """Fill in method, head and pull, and replace settings that are None by the recipe's.

    Args:
        given: settings after ``checked``.
        rows: the number of training rows, if known. The batch size of "tuned" is at most an eighth of it; for a method
            that weighs pairs, it is a little larger if the last batch would be very small.
        images: whether a backbone is fine-tuned. No settings were tuned for this, so the default recipe is then
            "paper".

    Raises:
        ValueError: the recipe is "tuned", and the method has no tuned settings.
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
    """Return the pull of settings after ``checked``: the given one or, if None, the method's default.

    On fixed embeddings, the guidance does not reliably improve a loss with centers (``docs/guidance.md``).
    """
    if given.pull is not None:
        return given.pull
    method = given.method or METHOD
    asked = images or given.recipe == "paper" or given.guidance is not None or names_surrogate(method)
    return "surrogate" if asked or not uses_centers(method, "none") else "none"


def _without_rest(batch: int, rows: int) -> int:
    """Return a batch size that avoids a very small last batch: its rows are spread over the other batches."""
    return batch if not 0 < rows % batch < batch / 8 else -(-rows // (rows // batch))


def full_name(method: Any, pull: str | None) -> str:
    """Return the method with its pull: ``csq``, the paper's ``csq_d``, or ``csq+bits``; a coder has no pull."""
    return method_name(method) + ("" if coder_of(method) is not None else PULL_MARKS.get(pull, ""))
