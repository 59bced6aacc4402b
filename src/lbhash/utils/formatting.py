"""Format numbers, names, values and errors for people."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

_SHOWN = 20  # names


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with ``digits`` digits after the point; ∞ if it is infinite, a dash if it is None or NaN.

    >>> number(-1e-9, 2), number(float("inf")), number(None)
    ('0.00', '∞', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    return f"{round(value, digits) + 0.0:.{digits}f}".replace("inf", "∞")  # + 0.0: no minus before zero


def one_line(error: BaseException) -> str:
    """Return the message of an error without its line breaks; the error's type if there is no message."""
    return " ".join(str(error).split()) or type(error).__name__


def some_names(names: Iterable[str]) -> str:
    """Return column names for a message: at most twenty, with those that end in a digit last.

    A file may have one column per dimension of an embedding.

    >>> some_names(["e0", "price"])
    'price, e0'
    """
    ordered = sorted(names, key=lambda name: name[-1:].isdigit())
    return ", ".join([*ordered[:_SHOWN], *(["…"] if len(ordered) > _SHOWN else [])])


def is_unicode(text: str) -> bool:
    """Return whether a text can be stored; half of a surrogate pair, which JSON and file names may hold, cannot.

    >>> is_unicode("ä"), is_unicode("\\ud800")
    (True, False)
    """
    return text == text.encode(errors="replace").decode()


def shown(value: Any) -> str:
    """Return a value for a message: as Python shows it, in one line of at most a hundred characters.

    >>> shown("x"), shown(range(3))
    ("'x'", 'range(0, 3)')
    """
    shape = getattr(value, "shape", ())
    if shape:
        return f"of type {type(value).__name__}, {list(shape)}"
    line = " ".join(repr(value).split())
    return line if len(line) <= 100 else f"{line[:99]}…"
