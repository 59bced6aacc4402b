"""Options of an approximate kind, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def check_options(
    given: Mapping[str, Any] | None, known: Mapping[str, tuple[int | None, int]], kind: str
) -> dict[str, Any]:
    """Options with the defaults of those that are not given.

    Args:
        given: values by name.
        known: default and least value by name; a default of ``None`` follows from the number of codes.
        kind: of the index, for messages.

    Raises:
        TypeError: a value is not an integer.
        ValueError: there is no such option, or its value is too small.
    """
    options: dict[str, Any] = {name: default for name, (default, _) in known.items()}
    for name, value in (given or {}).items():
        if name not in known:
            listed = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"options has {name!r}, which an index of kind {kind} does not have; {listed}")
        least = known[name][1]
        if value is None and known[name][0] is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise TypeError(f"option {name} is {value!r}; it must be an integer of at least {least}")
        if not least <= value < 2**31:
            raise ValueError(f"option {name} is {value}; it must be at least {least} and below 2^31")
        options[name] = int(value)
    return options
