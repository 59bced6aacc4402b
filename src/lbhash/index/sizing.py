"""The memory that codes need, and the number of machines that hold them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from lbhash.codes import check_bits, code_bytes
from lbhash.utils.validation import check_float, check_int

ID_BYTES = 8
"""Bytes of an id. An index in a folder needs none if the ids are consecutive."""

USABLE = 0.75
"""Share of a machine's memory that may hold codes; the rest is for the system, the results, and merging."""

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?)(b?)|b)?", re.IGNORECASE)


@dataclass(frozen=True)
class Size:
    """The memory that ``count`` codes of ``bits`` bits need, in bytes."""

    bits: int
    count: int
    row: int
    """Bytes of one code with its id and attributes."""
    total: int
    """Bytes of all rows, which must be in memory for a search at full speed."""
    codes: int
    """Bytes of the codes alone, which is what a search reads."""
    shards: int | None
    """The number of machines that hold all rows; None if their memory is not given."""


def size_of(
    bits: int,
    count: int,
    *,
    ids: int = ID_BYTES,
    attributes: int = 0,
    memory: int | None = None,
    usable: float = USABLE,
) -> Size:
    """Return the memory that codes need, of which each has ``ids`` bytes of an id and ``attributes`` bytes of others.

    ``memory`` is in bytes of one machine, and ``usable`` the share of it that may hold codes.

    >>> size_of(64, 10**9, memory=16 * 2**30)
    Size(bits=64, count=1000000000, row=16, total=16000000000, codes=8000000000, shards=2)
    """
    width = code_bytes(check_bits(bits))
    check_int(count, "count", 1)
    row = width + check_int(ids, "ids") + check_int(attributes, "attributes")
    check_float(usable, "usable", above=0, most=1)
    shards = None
    if memory is not None:
        shards = math.ceil(row * count / (check_int(memory, "memory", 1) * usable))
    return Size(bits, count, row, row * count, width * count, shards)


def parse_bytes(text: str) -> int:
    """Return a number of bytes from text such as 16GiB, 64 GB or 1048576; 16G is 16GiB, as for Java's ``-Xmx``."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"memory is {text!r}; it must be a number of bytes, or one with KB … TB or KiB … TiB")
    number, letter, binary, byte = found.groups()
    base = 1000 if byte and not binary else 1024
    return round(float(number) * base ** " KMGT".index((letter or " ").upper()))


def parse_count(text: str) -> int:
    """Return a whole number from text such as 1e9 or 250,000."""
    try:
        value = float(text.replace(",", "").replace("_", ""))
        if value != int(value) or value < 1:
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(f"count is {text!r}; it must be a whole number of at least 1, such as 1e9") from None
    return int(value)


def shown_bytes(count: int) -> str:
    """Return a number of bytes as a short text with its unit, from B to TiB."""
    amount, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= 1023.95 and len(units) > 1:
        amount /= 1024
        del units[0]
    return f"{amount:.0f} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"
