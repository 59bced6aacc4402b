"""What codes cost in memory, and in machines that hold them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction

from lbhash.codes import check_bits, code_bytes

ID_BYTES = 8
"""Bytes of an id. An index in a folder needs none where ids are consecutive."""

USABLE = 0.75
"""Share of a machine's memory that may hold codes; the rest is for the system, the answers, and what is merged."""

_UNITS = {"": 1} | {
    f"{prefix}{unit}": base ** (power + 1)
    for base, unit in ((1000, "B"), (1024, "iB"))
    for power, prefix in enumerate("KMGT")
}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?i?B?)", re.IGNORECASE)


@dataclass(frozen=True)
class Size:
    """What a number of codes takes.

    Attributes:
        bits: h, the length of a code.
        count: number of codes.
        row: bytes of one code with its id and attributes.
        total: bytes of all, that must be in memory for a search at full speed.
        codes: bytes of the codes alone, which is what a search reads.
        shards: machines that hold it; ``None`` where no memory is given.
    """

    bits: int
    count: int
    row: int
    total: int
    codes: int
    shards: int | None


def size_of(
    bits: int,
    count: int,
    *,
    ids: int = ID_BYTES,
    attributes: int = 0,
    memory: int | None = None,
    usable: float = USABLE,
) -> Size:
    """What codes take in memory.

    Args:
        bits: h, the length of a code.
        count: number of codes.
        ids: bytes of an id, 0 for consecutive ones in a folder.
        attributes: bytes of what travels with a code.
        memory: of one machine, in bytes.
        usable: the share of it that may be used.

    Raises:
        TypeError, ValueError: a number is out of range.

    >>> size_of(64, 10**9, memory=16 * 2**30)
    Size(bits=64, count=1000000000, row=16, total=16000000000, codes=8000000000, shards=2)
    """
    width = code_bytes(check_bits(bits))
    for name, value, least in (("count", count, 1), ("ids", ids, 0), ("attributes", attributes, 0)):
        if value < least:
            raise ValueError(f"{name} is {value}; it must be at least {least}")
    if not 0 < usable <= 1:
        raise ValueError(f"usable is {usable}; it must be above 0 and at most 1")
    if memory is not None and memory < 1:
        raise ValueError(f"memory is {memory}; it must be at least 1 byte")
    row = width + ids + attributes
    shards = None if memory is None else math.ceil(row * count / (memory * Fraction(usable)))  # exact
    return Size(bits, count, row, row * count, width * count, shards)


def parse_bytes(text: str, name: str = "memory") -> int:
    """Bytes from a number with a unit, such as 16GiB, 64 GB or 1048576."""
    found = _AMOUNT.fullmatch(text.strip())
    unit = "" if found is None else _unit(found[2])
    if found is None or unit not in _UNITS:
        raise ValueError(f"{name} is {text!r}; it must be a number of bytes, or one with KB … TB or KiB … TiB")
    return round(float(found[1]) * _UNITS[unit])


def parse_count(text: str, name: str = "count") -> int:
    """A whole number as people write it, such as 1e9 or 250,000."""
    try:
        value = float(text.replace(",", "").replace("_", ""))
        if value != int(value) or value < 1:
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(f"{name} is {text!r}; it must be a whole number of at least 1, such as 1e9") from None
    return int(value)


def shown_bytes(count: int) -> str:
    """Bytes with the unit, of powers of 1024, that makes a short number."""
    amount, units = float(count), iter(("B", "KiB", "MiB", "GiB", "TiB"))
    unit = next(units)
    while amount >= 1023.95 and unit != "TiB":
        amount, unit = amount / 1024, next(units)
    return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"


def _unit(text: str) -> str:
    """KB, KiB … of however it is written; a letter alone is of powers of 1024, as ``-Xmx`` has it."""
    letter = text[:1].upper()
    if letter in ("", "B"):
        return ""
    rest = text[1:].lower()
    return letter + {"": "iB", "b": "B", "i": "iB", "ib": "iB"}[rest]
