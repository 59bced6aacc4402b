"""Convert values to forms that JSON can hold; read JSON objects that name their format and version."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

_MAY_BE = "it must be a finite number, a string, None, or a list or a dict of them, which JSON can hold"


def plain(value: Any, name: str) -> Any:
    """Return a value in Python's own types: NumPy's numbers become Python's, and tuples become lists.

    Raises ``TypeError`` for a value that JSON cannot hold, ``ValueError`` for NaN and infinity, and says where it is.

    >>> plain({"alpha": np.float32(0.5), "steps": (1, 2)}, "options")
    {'alpha': 0.5, 'steps': [1, 2]}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{name} is {value}; {_MAY_BE}")
        return float(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"{name} has the key {key!r}; its keys must be strings")
        return {str(key): plain(item, f"{name}[{key!r}]") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, f"{name}[{at}]") for at, item in enumerate(value)]
    raise TypeError(f"{name} is of type {type(value).__name__}; {_MAY_BE}")


def read_versioned(content: str | bytes, form: str, version: int, source: str, advice: str) -> dict[str, Any] | None:
    """Return a JSON object whose ``format`` is ``form``; None if the content is damaged or of another format.

    Another version raises the ``ValueError`` of ``other_format``.
    """
    try:
        facts = json.loads(content)
        known, given = facts["format"] == form, int(facts["version"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    if known and given != version:
        raise other_format(source, given, version, advice)
    return facts if known else None


def other_format(source: str, given: int, version: int, advice: str) -> ValueError:
    """Return the error about another version of a format: ``advice`` for an older one, an upgrade for a newer one."""
    if given > version:
        advice = "upgrade lbhash (pip install --upgrade lbhash)"
    return ValueError(f"{source}, of format {given}; this lbhash reads format {version} alone: {advice}")


def json_value(value: Any) -> Any:
    """Return any value in a form for JSON: bytes as hexadecimal digits, NaN as None, a date or a decimal as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    return str(value)


def json_values(column: Iterable[Any]) -> list[Any]:
    """Return the values of an Arrow column in forms for JSON.

    A time beyond Python's range becomes its number and type; a text that is not UTF-8 keeps what can be read.
    """
    return [_json_scalar(scalar) for scalar in column]


def _json_scalar(scalar: Any) -> Any:
    try:
        return json_value(scalar.as_py())
    except (ArithmeticError, LookupError, ValueError):
        pass
    if isinstance(scalar, Mapping):
        return {str(name): _json_scalar(scalar[name]) for name in scalar}
    if hasattr(scalar, "as_buffer"):
        return scalar.as_buffer().to_pybytes().decode(errors="replace")
    if hasattr(scalar, "values"):  # of a list
        return json_values(scalar.values)
    held = scalar.value  # a number, or the value of a dictionary
    return _json_scalar(held) if hasattr(held, "as_py") else f"{held} ({scalar.type})"
