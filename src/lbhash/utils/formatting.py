"""Numbers and errors as people read them."""

from __future__ import annotations

import math


def number(value: float | None, digits: int = 0) -> str:
    """A number with so many digits after the point, ∞ where it has no end; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.{digits}f}".replace("inf", "∞")


def one_line(error: BaseException) -> str:
    """Return what an error says, on one line; its type if it says nothing."""
    return " ".join(str(error).split()) or type(error).__name__
