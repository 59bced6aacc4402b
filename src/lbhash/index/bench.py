"""A comparison of the kinds of index: recall, speed and time to build."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lbhash.codes import PackedCodes
from lbhash.index.kinds import KINDS
from lbhash.index.store import MIN_ROWS
from lbhash.utils.validation import check_int


def compare_kinds(
    codes: PackedCodes,
    bits: int,
    queries: PackedCodes,
    k: int = 10,
    *,
    rounds: int = 5,
    say: Callable[[str], None] = lambda line: None,
) -> list[dict[str, Any]]:
    """Build every kind of index from the same codes, and search all of them with the same queries in turn.

    Args:
        codes: ``uint8 [n, ceil(bits / 8)]``, as the queries.
        bits: the length of a code.
        queries: the codes to search for.
        k: neighbors of a query.
        rounds: how often all kinds are searched; the fastest round counts.
        say: is called with a line for every kind that is built.

    Returns:
        A row for each kind: ``recall``, the share of its neighbors that are no farther than the k-th of the exact
        search (so that any choice among equally distant codes is right); ``milliseconds`` for a query; ``speed``, as a
        multiple of the exact kind's; ``build_seconds``; and ``options``.
    """
    if len(codes) < MIN_ROWS:
        raise ValueError(f"the index has {len(codes)} codes; with fewer than {MIN_ROWS:,} every kind scans all of them")
    if not len(queries):
        raise ValueError("queries has no code; at least one is needed")
    check_int(k, "k", 1, len(codes), "the size of the index")
    indexes = {name: kind(bits) for name, kind in KINDS.items()}
    rows: dict[str, dict[str, Any]] = {}
    for name, index in indexes.items():
        say(f"building {name} of {len(codes):,} codes")
        started = time.perf_counter()
        index.add(codes)
        rows[name] = {"kind": name, "build_seconds": time.perf_counter() - started, "options": dict(index.options)}
    farthest = indexes["flat"].search(queries, k).distances[:, -1:]
    times: dict[str, list[float]] = {name: [] for name in indexes}
    for _ in range(rounds):
        for name, index in indexes.items():
            started = time.perf_counter()
            found = index.search(queries, k)
            times[name].append(time.perf_counter() - started)
            rows[name]["recall"] = float(np.mean(found.distances <= farthest))
    for name, row in rows.items():
        row["milliseconds"] = 1e3 * min(times[name]) / len(queries)
        row["speed"] = min(times["flat"]) / min(times[name])
    return list(rows.values())
