"""Filters, against a loop over Python's own values: columns of all types, with the smallest and largest of each."""

from __future__ import annotations

import datetime as dt
import math
import operator
import random
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from tests.faults.attack import Run, attack

ROWS = 12
ZONE = dt.UTC
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.1, math.inf, -math.inf, math.nan]
TEXTS = [
    "",
    "a",
    "ab",
    "A",
    "a, b",
    "a and b",
    "it's",
    'say "so"',
    "é",
    "a\nb",
    "%",
    "a_b",
    "null",
    "\U0001f600",
    "or (b",
    "a\\b",
]


def whole(bits: int, signed: bool) -> list[int]:
    """Return integers of so many bits, with the least and the largest."""
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [low, low + 1, 0, 1, 2, high - 1, high]


MOMENTS = [dt.datetime.min, dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 12, 30), dt.datetime(9999, 12, 31)]
DAYS = [moment.date() for moment in MOMENTS]
TYPES: list[tuple[pa.DataType, list[Any]]] = [
    *(
        (getattr(pa, f"{kind}{bits}")(), whole(bits, kind == "int"))
        for kind in ("int", "uint")
        for bits in (8, 16, 32, 64)
    ),
    (pa.float16(), np.array([*FLOATS, 65504, 6e-8], np.float16).tolist()),
    (pa.float32(), np.array([*FLOATS, 3.4028234663852886e38, 1e-45], np.float32).tolist()),
    (pa.float64(), [*FLOATS, 1.7976931348623157e308, 5e-324]),
    (pa.bool_(), [True, False]),
    (pa.string(), TEXTS),
    (pa.large_string(), TEXTS),
    (pa.string_view(), TEXTS),
    (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    (pa.dictionary(pa.int8(), pa.float64()), FLOATS),
    (pa.binary(), [b"", b"a", b"\xff\0"]),
    (pa.binary(2), [b"ab", b"\0\xff"]),
    (pa.decimal128(10, 2), [Decimal("0.00"), Decimal("-1.50"), Decimal("99999999.99")]),
    (pa.date32(), DAYS),
    (pa.date64(), DAYS),
    (pa.time32("s"), [dt.time(0), dt.time(23, 59, 59)]),
    (pa.time64("us"), [dt.time(0), dt.time(23, 59, 59, 999999)]),
    (pa.timestamp("s"), MOMENTS),
    (pa.timestamp("us"), [*MOMENTS, dt.datetime.max]),
    (pa.timestamp("us", "UTC"), [moment.replace(tzinfo=ZONE) for moment in MOMENTS]),
    (pa.duration("us"), [dt.timedelta(0), dt.timedelta(-1), dt.timedelta(days=3, microseconds=1)]),
    (pa.null(), [None]),
    (pa.struct([("x", pa.int64())]), [{"x": 1}, {"x": None}]),
]
TYPES += [
    (make(kind), values)
    for kind, values in TYPES
    for make in (pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2))
    if kind not in (pa.string_view(), pa.null())
]
ODD = [None, 2, 1, 0, True, False, 2**64 - 1, -(2**63), 2**70, 3.5, 1e300, "x", b"a", math.nan, dt.date(1970, 1, 1)]
SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def equal(one: Any, other: Any) -> bool:
    """Return whether two values are the same to a filter."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return one == other or (one != one and other != other)


def like(value: str, pattern: str) -> bool:
    """Return whether a text has the form of a pattern."""
    signs = {"%": ".*", "_": "."}
    return re.fullmatch("".join(signs.get(sign, re.escape(sign)) for sign in pattern), value, re.DOTALL) is not None


def passes(cell: Any, how: str, wanted: list[Any]) -> bool:
    """Return whether a cell fulfills a condition."""
    if how == "is null":
        return cell is None
    if cell is None:
        return False
    if how == "is not null":
        return True
    cells = [one for one in (cell if isinstance(cell, list) else [cell]) if one is not None]
    if how.startswith("not "):
        return not any(passes(one, how[4:], wanted) for one in cells)
    if how == "in":
        return any(equal(one, value) for one in cells for value in wanted)
    if how == "like":
        return any(like(one, wanted[0]) for one in cells)
    return any(SIGNS[how](one, wanted[0]) for one in cells)


def said(value: Any) -> str:
    """Return a value as a filter in text says it."""
    text = value.decode() if isinstance(value, bytes) else str(value)
    return text if isinstance(value, (int, float, Decimal)) else "'" + text.replace("'", "''") + "'"


def condition(rng: random.Random, name: str, pool: list[Any]) -> tuple[str, str, list[Any]]:
    """Return a condition as a text, and what it means."""
    how = rng.choice(["in", "not in", "is null", "is not null", "like", "not like", *SIGNS])
    pool = [one for one in pool if not isinstance(one, bytes) or one.isascii()]  # else no text says it
    wanted = [rng.choice(pool) for _ in range(rng.choice([1, 1, 2, 3]))]
    if how.endswith("null"):
        return f"{name} {how}", how, []
    if how.endswith("in"):
        if len(wanted) == 1 and rng.random() < 0.5:
            return f"{name} {'=' if how == 'in' else rng.choice(['!=', '<>'])} {said(wanted[0])}", how, wanted
        return f"{name} {how} ({', '.join(map(said, wanted))})", how, wanted
    if how.endswith("like"):
        pattern = "".join(rng.choice(["%", "_", "a", "b", ".", "é", "\\"]) for _ in range(rng.randrange(4)))
        return f"{name} {how} {said(pattern)}", how, [pattern]
    return f"{name} {how} {said(wanted[0])}", how, wanted[:1]


def tried(rng: random.Random) -> tuple[str, str]:
    """Make an index and a filter, and return how the filter ended and what it was."""
    from lbhash.index import Index

    kinds = [rng.choice(TYPES) for _ in range(3)]
    columns = {}
    for name, (kind, values) in zip("abc", kinds, strict=True):
        pool = [*values, None]
        width = kind.list_size if pa.types.is_fixed_size_list(kind) else None
        lists = width is not None or pa.types.is_list(kind) or pa.types.is_large_list(kind)
        rows = [
            rng.choice([None, [rng.choice(pool) for _ in range(width or rng.randrange(3))]])
            if lists
            else rng.choice(pool)
            for _ in range(ROWS)
        ]
        columns[name] = pa.array(rows, kind)
    index, half = Index(8), rng.randrange(1, ROWS)
    table = pa.table(columns)
    for part in (table[:half], table[half:]):
        index.add(np.zeros((len(part), 1), np.uint8), None, part)
    index.remove([gone := rng.randrange(ROWS)])
    cells = {name: column.to_pylist() for name, column in columns.items()}
    if rng.random() < 0.4:  # a mapping, maybe with values of other types
        where: Any = {}
        meant = []
        for name in rng.sample("abc", rng.choice([1, 1, 2])):
            pool = kinds["abc".index(name)][1] if rng.random() < 0.6 else ODD
            wanted = [rng.choice(pool) for _ in range(rng.randrange(1, 4))]
            where[name] = wanted if len(wanted) > 1 else wanted[0]
            meant.append((name, "in", wanted))
        expected = [row for row in range(ROWS) if all(passes(cells[n][row], how, w) for n, how, w in meant)]
    else:
        groups = []
        for _ in range(rng.choice([1, 1, 2, 3])):
            names = [rng.choice("abc") for _ in range(rng.choice([1, 1, 2]))]
            groups.append([(name, *condition(rng, name, kinds["abc".index(name)][1])) for name in names])
        outer, inner = rng.choice([(" or ", " and "), (" and ", " or ")])
        where = outer.join(f"({inner.join(text for _, text, _, _ in group)})" for group in groups)
        join, meet = (any, all) if outer == " or " else (all, any)
        try:
            expected = [
                row
                for row in range(ROWS)
                if join(meet([passes(cells[n][row], how, w) for n, _, how, w in group]) for group in groups)
            ]
        except TypeError:  # Python cannot compare these either
            expected = None
    what = f"{where!r} of {table.schema.to_string()!r}"
    try:
        found = index.search(np.zeros((1, 1), np.uint8), ROWS, where=where).ids[0].tolist()
    except ValueError as error:
        line = str(error)
        return ("refused" if line.startswith("where ") and "\n" not in line else "crashed"), f"{what}: {line}"
    if expected is None:
        return "wrong", f"{what}: answered, and Python cannot compare them"
    expected = [row for row in expected if row != gone]
    return ("survived" if found == expected else "wrong"), f"{what}: {found} and not {expected} of {cells}"


@attack("filters", "random filters over columns of all types, with nulls, −0.0, NaN and extremes")
def filters(run: Run) -> None:
    for rng in run.faults():
        try:
            run.count(*tried(rng))
        except Exception as error:
            run.count("crashed", repr(error))
