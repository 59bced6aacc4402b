"""The approximate kinds beside the exact one: what they find of it, and how much sooner."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from lbhash.codes import PackedCodes
from lbhash.index.kinds import KINDS
from lbhash.index.local import LocalIndex
from lbhash.index.structure import MIN_ROWS


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
    """Build every kind from the same codes, and ask all of them the same queries in turns.

    Args:
        codes: ``uint8 [n, ceil(bits / 8)]``.
        bits: h.
        queries: as ``codes``.
        k: neighbors a query.
        rounds: of which the quickest counts.
        options: of the kinds, by their names.
        say: told what is being built.

    Returns:
        A row a kind: ``recall``, the share of the neighbors it returns that are no farther than the k-th of the exact
        search (so that any choice among tied codes is right); ``milliseconds`` a query; ``speed``, as a multiple of
        the exact kind's; ``build_seconds``.

    Raises:
        TypeError, ValueError: k is none, or there are so few codes that every kind would scan them.
    """
    if len(codes) < MIN_ROWS:
        raise ValueError(f"the index has {len(codes)} codes; of fewer than {MIN_ROWS:,} every kind scans all")
    if not len(queries):
        raise ValueError("queries has no code; at least one is needed")
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
        raise TypeError(f"k is {k!r}; it must be an integer from 1 to the size of the index ({len(codes)})")
    if not 1 <= k <= len(codes):
        raise ValueError(f"k is {k}; it must be from 1 to the size of the index ({len(codes)})")
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
