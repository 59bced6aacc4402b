"""A comparison of the kinds of index: recall, speed and time to build."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lbhash.codes import PackedCodes
from lbhash.index.kinds import KINDS
from lbhash.index.local import LocalIndex
from lbhash.index.store import MIN_ROWS
from lbhash.utils.validation import check_int


def compare_kinds(
    codes: PackedCodes,
    bits: int,
    queries: PackedCodes,
    k: int = 10,
    *,
    rounds: int = 5,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Build every kind of index from the same codes, and search all of them with the same queries in turn.

    Args:
        codes: ``uint8 [n, ceil(bits / 8)]``.
        bits: h, the length of a code.
        queries: ``uint8 [q, ceil(bits / 8)]``.
        k: neighbors of a query.
        rounds: how often all kinds are searched; the fastest round counts.
        options: options by the name of the kind.
        say: is called with a line for every kind that is built.

    Returns:
        A row for each kind: ``recall``, the share of its neighbors that are no farther than the k-th of the exact
        search (so that any choice among equally distant codes is right); ``milliseconds`` for a query; ``speed``, as a
        multiple of the exact kind's; ``build_seconds``.

    Raises:
        TypeError, ValueError: k is out of range, or there are so few codes that every kind would scan them.
    """
    if len(codes) < MIN_ROWS:
        raise ValueError(f"the index has {len(codes)} codes; with fewer than {MIN_ROWS:,} every kind scans all of them")
    if not len(queries):
        raise ValueError("queries has no code; at least one is needed")
    check_int(k, "k", 1, len(codes), "the size of the index")
    built: dict[str, tuple[LocalIndex, float]] = {}
    for name, kind in KINDS.items():
        say(f"building {name} of {len(codes):,} codes")
        started = time.perf_counter()
        index = kind(bits, options=(options or {}).get(name))
        index.add(codes)
        built[name] = index, time.perf_counter() - started
    exact = built["flat"][0].search(queries, k)
    times: dict[str, list[float]] = {name: [] for name in built}
    recalls: dict[str, float] = {}
    for _ in range(rounds):
        for name, (index, _) in built.items():
            started = time.perf_counter()
            found = index.search(queries, k)
            times[name].append(time.perf_counter() - started)
            recalls[name] = float(np.mean(found.distances <= exact.distances[:, -1:]))
    return [
        {
            "kind": name,
            "recall": recalls[name],
            "milliseconds": 1e3 * min(times[name]) / len(queries),
            "speed": min(times["flat"]) / min(times[name]),
            "build_seconds": seconds,
            "options": dict(index.options),
        }
        for name, (index, seconds) in built.items()
    ]
