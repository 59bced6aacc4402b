"""Pydantic's errors about a field, in the style of ``lbhash.utils.validation``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KINDS = {
    "int": "an integer",
    "float": "a number",
    "finite_number": "a finite number",
    "string": "a text",
    "bool": "true or false",
    "list": "a list",
    "dict": "an object",
    "model": "an object",
}
_LIMITS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
_LENGTHS = {"min_length": "at least", "max_length": "at most"}
_SHOWN = 64  # characters of a value


def wrong_field(error: Mapping[str, Any], name: str) -> str:
    """Return one line for an error of a ``ValidationError`` about the field ``name``.

    >>> wrong_field({"type": "greater_than_equal", "input": 0, "ctx": {"ge": 1}, "msg": ""}, "k")
    'k is 0; it must be at least 1'
    """
    kind, given, limits = error["type"], error.get("input"), error.get("ctx", {})
    if kind == "missing":
        return f"{name} is missing"
    if kind == "value_error":  # one of our own messages
        message = str(error["msg"]).removeprefix("Value error, ")
        return f"{name}: {message}" if name else message
    must = next((f"be {word} {limits[key]}" for key, word in _LIMITS.items() if key in limits), "")
    for key, word in _LENGTHS.items():
        if key in limits:
            has = f"has {limits['actual_length']} values; it " if "actual_length" in limits else ""
            return f"{name} {has}must have {word} {limits[key]:,}"
    if not must and "expected" in limits:
        must = f"be {limits['expected']}"
    stem = next((stem for stem in _KINDS if kind.startswith(stem)), "")
    must = must or f"be {_KINDS.get(stem, 'another value')}"
    shown = str(given) if limits.keys() & _LIMITS.keys() else repr(given)
    return f"{name} is {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}; it must {must}"
