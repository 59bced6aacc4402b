"""A bounded search for codes that are a union of cosets of a small linear code.

Let L be a linear code of minimum distance at least d. The union of cosets x_1 + L, x_2 + L, ... has minimum distance d
where every two cosets are at least d apart, that is where each word of x_i + x_j + L has weight d or more. With the
cosets as the nodes of a graph and an edge between two that are far enough apart, such a union is a clique.

Cliques are searched for by adding a node joined to all, else exchanging one for a node joined to all but it, else
dropping one; a node that was dropped rests for a while.

Source: MacWilliams and Sloane (1977), section 2.8, for nonlinear codes as unions of cosets; Battiti and Protasi,
Reactive local search for the maximum clique problem (2001), for the search.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from lbhash.centers.constructions.linear import Generator, row_reduced, span
from lbhash.centers.distance import Centers
from lbhash.codes import as_words, unpack
from lbhash.codes.popcount import popcount

MAX_COSETS = 2048  # of more, a random choice is searched; the graph takes their square in bytes


def coset_search(generator: Generator, classes: int, distance: int, steps: int) -> Centers | None:
    """Return a union of cosets with at least ``classes`` words, ``int8 [n, bits]`` of -1 and +1, or None.

    The generator ``[r, bits]`` is that of L, whose words have an even weight of at least ``distance``, which is even.
    Only words of even weight are looked at, which is no loss: a code of odd distance is one of the next even distance
    without its parity bit. ``steps`` is how many times a node is added, exchanged or dropped.
    """
    bits = generator.shape[1]
    rng = np.random.default_rng(0)
    kernel = span(generator)
    leaders, zero = _leaders(generator, rng), kernel[:1]
    far = _far_apart(as_words(leaders), as_words(zero), as_words(kernel), distance)[:, 0]
    leaders = np.concatenate([zero, leaders[far]])[:MAX_COSETS]
    wanted = -(-classes // len(kernel))
    if len(leaders) < wanted:
        return None
    joined = _far_apart(as_words(leaders), as_words(leaders), as_words(kernel), distance)
    clique = _clique(joined, wanted, steps, int(rng.integers(2**31)))
    if len(clique) < wanted:
        return None
    return unpack((leaders[clique][:, None] ^ kernel).reshape(-1, kernel.shape[1]), bits)


def _leaders(generator: Generator, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Return words of even weight of different cosets of L, all or a random choice; 0 where L's reduced rows begin."""
    reduced = row_reduced(generator)
    free = np.setdiff1d(np.arange(generator.shape[1]), reduced.argmax(axis=1))
    if len(free) <= 16:
        values = np.arange(1, 2 ** len(free))[:, None] >> np.arange(len(free)) & 1
    else:
        values = np.unique(rng.integers(0, 2, (16 * MAX_COSETS, len(free))), axis=0)
    values = rng.permutation(values[values.sum(axis=1) % 2 == 0])
    leaders = np.zeros((len(values), generator.shape[1]), np.uint8)
    leaders[:, free] = values
    return np.packbits(leaders, axis=1, bitorder="little")


@numba.njit(cache=True)
def _far_apart(words: Any, others: Any, kernel: Any, distance: int) -> Any:
    """Return, for every pair of words, whether their cosets are at least ``distance`` apart."""
    far = np.ones((len(words), len(others)), np.bool_)
    for i in range(len(words)):
        for j in range(len(others)):
            for inner in kernel:
                weight = 0
                for word in range(words.shape[1]):
                    weight += popcount(words[i, word] ^ others[j, word] ^ inner[word])
                if weight < distance:
                    far[i, j] = False
                    break
    return far


@numba.njit(cache=True)
def _clique(joined: Any, wanted: int, steps: int, seed: int) -> Any:
    np.random.seed(seed)  # noqa: NPY002 - numba's own generator
    size = len(joined)
    inside = np.zeros(size, np.bool_)
    missing = np.zeros(size, np.int64)  # how many of the clique a node is not joined to
    rests = np.zeros(size, np.int64)
    count = 0
    for step in range(steps):
        if count >= wanted:
            break
        # Add, exchange or drop, whichever is possible first, one of the candidates at random.
        adds = exchanges = 0
        add = exchange = -1
        for node in range(size):
            if not inside[node] and rests[node] <= step:
                if missing[node] == 0:
                    adds += 1
                    if np.random.randint(adds) == 0:  # noqa: NPY002
                        add = node
                elif missing[node] == 1 and adds == 0:
                    exchanges += 1
                    if np.random.randint(exchanges) == 0:  # noqa: NPY002
                        exchange = node
        chosen = add if add >= 0 else exchange
        if chosen >= 0:
            if add < 0:
                for node in range(size):
                    if inside[node] and not joined[chosen, node]:
                        count -= _leave(joined, node, inside, missing)
                        rests[node] = step + 7 + np.random.randint(10)  # noqa: NPY002
            inside[chosen] = True
            count += 1
            for node in range(size):
                if node != chosen and not joined[chosen, node]:
                    missing[node] += 1
        else:
            nodes = np.flatnonzero(inside)
            if len(nodes) == 0:
                continue
            node = nodes[np.random.randint(len(nodes))]  # noqa: NPY002
            count -= _leave(joined, node, inside, missing)
            rests[node] = step + 7
    return np.flatnonzero(inside)


@numba.njit(cache=True)
def _leave(joined: Any, node: int, inside: Any, missing: Any) -> int:
    inside[node] = False
    for other in range(len(joined)):
        if other != node and not joined[node, other]:
            missing[other] -= 1
    return 1
