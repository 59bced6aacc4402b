"""Checks of single arguments, each with one line that names the argument, what it was and what it may be."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Real
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def check_int(value: Any, name: str, least: int = 0, most: int | None = None, of: str = "") -> int:
    """Return an integer as an ``int``.

    Args:
        value: what was given; NumPy's integers are taken, Booleans are not.
        name: of the argument, for the message.
        least: the smallest that it may be.
        most: the largest that it may be; if None, there is no limit.
        of: what ``most`` is, for the message, such as "the size of the base".

    Raises:
        TypeError: it is not an integer.
        ValueError: it is out of range.

    >>> check_int(12, "k", 1, 10, "the size of the base")
    Traceback (most recent call last):
    ValueError: k is 12; it must be from 1 to the size of the base (10)
    """
    limits = f"at least {least}" if most is None else f"from {least} to {f'{of} ({most})' if of else most}"
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} is {value!r}; it must be an integer{' of' * (most is None)} {limits}")
    if value < least or (most is not None and value > most):
        raise ValueError(f"{name} is {value}; it must be {limits}")
    return int(value)


def check_float(
    value: Any,
    name: str,
    least: float | None = None,
    most: float | None = None,
    *,
    above: float | None = None,
    below: float | None = None,
) -> float:
    """Return a finite number as a ``float``.

    Args:
        value: what was given; Booleans are not taken.
        name: of the argument, for the message.
        least: the smallest that it may be.
        most: the largest that it may be.
        above: it must be larger than this.
        below: it must be smaller than this.

    Raises:
        TypeError: it is not a number.
        ValueError: it is out of range, infinite or NaN.

    >>> check_float(0, "lr", above=0)
    Traceback (most recent call last):
    ValueError: lr is 0; it must be above 0 and finite
    """
    if least is not None and most is not None:
        limits = f"from {least:g} to {most:g}"
    else:
        words = {"at least": least, "above": above, "at most": most, "below": below}
        parts = [f"{word} {limit:g}" for word, limit in words.items() if limit is not None]
        if len(parts) < 2:
            parts.append("finite")
        limits = " and ".join(parts)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} is {value!r}; it must be a number, {limits}")
    number = float(value)
    inside = (least is None or number >= least) and (most is None or number <= most)
    inside = inside and (above is None or number > above) and (below is None or number < below)
    if not inside or not math.isfinite(number):
        raise ValueError(f"{name} is {value}; it must be {limits}")
    return number


def check_choice(value: T, name: str, choices: Collection[T]) -> T:
    """Return a value that is one of ``choices``, or raise ``ValueError`` with a line that lists them.

    >>> check_choice("cosin", "schedule", ["step", "cosine"])
    Traceback (most recent call last):
    ValueError: schedule is 'cosin'; it must be one of step, cosine
    """
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; it must be one of {', '.join(map(str, choices))}")
    return value
