"""Numbers and errors as people read them."""

from __future__ import annotations

import math


def number(value: float | None, digits: int = 0) -> str:
    """Return a number with so many digits after the point; ∞ if it is infinite, a dash if it is None or NaN."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.{digits}f}".replace("inf", "∞")


def one_line(error: BaseException) -> str:
    """Return the message of an error without its line breaks; the error's type if there is no message."""
    return " ".join(str(error).split()) or type(error).__name__
