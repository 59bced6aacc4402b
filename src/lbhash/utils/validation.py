"""Checks of single arguments; each error is one line with the argument, its value and the allowed values."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Hashable, Iterable, Iterator, Sized
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any, TypeVar

from lbhash.utils.formatting import one_line, shown
from lbhash.utils.memory import lacks_threads

T = TypeVar("T")
Limit = float | None


def check_int(value: Any, name: str, least: int = 0, most: int | None = None, of: str = "") -> int:
    """Return an integer as an ``int``; NumPy's integers are taken, Booleans are not.

    ``of`` explains ``most`` in the message; without ``most`` it is 2^63 - 1. Raises ``TypeError`` or, if the integer is
    out of range, ``ValueError``.

    >>> check_int(12, "k", 1, 10, "the size of the base")
    Traceback (most recent call last):
    ValueError: k is 12; it must be from 1 to the size of the base (10)
    """
    limits = f"at least {least}" if most is None else f"from {least} to {f'{of} ({most})' if of else most}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} is {shown(value)}; it must be an integer{' of' * (most is None)} {limits}")
    number = int(value)
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name} is {value}; it must be {limits}")
    if number >= 2**63:
        raise ValueError(f"{name} is {value}; it must be {limits} and below 2^63")
    return number


def check_ints(values: Any, name: str, least: int = 0, most: int | None = None, of: str = "") -> list[int]:
    """Return a list of integers, each checked by ``check_int``; raises ``TypeError`` if it is not a list."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {shown(values)}; it must be a list of integers")
    return [check_int(value, name, least, most, of) for value in values]


def check_float(
    value: Any, name: str, least: Limit = None, most: Limit = None, *, above: Limit = None, below: Limit = None
) -> float:
    """Return a finite number as a ``float`` if it is from ``least`` to ``most``, ``above`` and ``below`` these limits.

    Raises ``TypeError`` for a Boolean or no number, and ``ValueError`` if it is out of range.

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
        raise TypeError(f"{name} is {shown(value)}; it must be a number, {limits}")
    number = float(value)
    checks = ((least, operator.ge), (most, operator.le), (above, operator.gt), (below, operator.lt))
    if not math.isfinite(number) or not all(limit is None or holds(number, limit) for limit, holds in checks):
        raise ValueError(f"{name} is {value}; it must be {limits}")
    return number


def check_choice(value: T, name: str, choices: Collection[T]) -> T:
    """Return the choice that equals a value, in any case; otherwise ``ValueError`` lists all choices.

    >>> check_choice("Cosine", "schedule", ["step", "cosine"])
    'cosine'
    >>> check_choice("cosin", "schedule", ["step", "cosine"])
    Traceback (most recent call last):
    ValueError: schedule is 'cosin'; it must be one of step, cosine; did you mean cosine?
    """
    for choice in choices if isinstance(value, Hashable) else ():  # comparing an array gives no single answer
        if choice == value or (isinstance(choice, str) and isinstance(value, str) and choice.lower() == value.lower()):
            return choice
    known = list(map(str, choices))
    raise ValueError(f"{name} is {shown(value)}; it must be one of {', '.join(known)}{did_you_mean(str(value), known)}")


def check_type(value: T, name: str, kind: type[Any] | tuple[type[Any], ...], what: str) -> T:
    """Return a value of type ``kind``; otherwise ``TypeError`` says ``what`` it must be.

    >>> check_type(5, "options", dict, "a dict of names and numbers")
    Traceback (most recent call last):
    TypeError: options is 5; it must be a dict of names and numbers
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {shown(value)}; it must be {what}")
    return value


def check_filled(values: Sized, name: str, of: str = "row") -> None:
    """Raise ``ValueError`` if there are no values; ``of`` names one of them."""
    if not len(values):
        raise ValueError(f"{name} is empty; it must have at least one {of}")


def check_same_rows(values: Sized, name: str, others: Sized, of: str) -> None:
    """Raise ``ValueError`` unless values and others have the same number of rows.

    >>> check_same_rows([1, 2], "y", [1, 2, 3], "X")
    Traceback (most recent call last):
    ValueError: y has 2 rows and X has 3; they must be equal, one for each
    """
    if len(values) != len(others):
        raise ValueError(f"{name} has {len(values)} rows and {of} has {len(others)}; they must be equal, one for each")


@contextmanager
def refusing(said: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn a library's ``errors`` in the block into a ``ValueError``: ``said``, and the library's message.

    >>> with refusing("where is 'x'; it must be a number", ValueError):
    ...     int("x")
    Traceback (most recent call last):
    ValueError: where is 'x'; it must be a number: invalid literal for int() with base 10: 'x'
    """
    try:
        yield
    except errors as error:
        if lacks_threads(error):
            raise
        raise ValueError(f"{said}: {one_line(error)}") from None


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return a hint for the end of a message: the known word most like ``word``; "" if none is similar."""
    near = get_close_matches(word.lower(), known, 1)
    return f"; did you mean {near[0]}?" if near else ""
