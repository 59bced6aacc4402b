"""Numbers as people read them."""

from __future__ import annotations

import math


def number(value: float | None, digits: int = 0) -> str:
    """A number with so many digits after the point, ∞ where it has no end; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.{digits}f}".replace("inf", "∞")
