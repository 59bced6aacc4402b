"""Codes side by side: lengths and distances add, and there are as many words as the smallest code has.

Finding the blocks that reach the largest distance for a length is a knapsack problem, solved by dynamic programming
over the length. A sum that is slightly too long serves too: dropping a bit costs at most one of distance.

Source: MacWilliams and Sloane (1977), section 2.3 (Levenshtein's construction) and section 1.9 (puncturing).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from lbhash.centers.distance import Centers

MAX_DROPPED = 8  # how many bits too long a sum of blocks may be


class Block(NamedTuple):
    """A code of at least ``distance`` that can stand beside others; makes its words, ``int8 [n, length]`` of ±1."""

    name: str
    length: int
    distance: int
    words: Callable[[], Centers]


class Plan(NamedTuple):
    """Blocks side by side, cut or filled to ``bits``; their minimum distance is at least ``distance``."""

    bits: int
    distance: int
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        """Return the blocks' names, with the numbers of copies: "3 × a + b, 1 bit dropped"."""
        copies = Counter(block.name for block in self.blocks)
        name = " + ".join(name if count == 1 else f"{count} × {name}" for name, count in copies.items())
        dropped = sum(block.length for block in self.blocks) - self.bits
        if dropped == 0:
            return name
        bits = "bit" if abs(dropped) == 1 else "bits"
        return f"{name}, {dropped} {bits} dropped" if dropped > 0 else f"{name}, {-dropped} free {bits}"

    def words(self) -> Centers:
        """Return the words, as many as the smallest block has: ``int8 [n, bits]`` of -1 and +1."""
        made = {block.name: block.words() for block in self.blocks}
        count = min(len(words) for words in made.values())
        words = np.concatenate([made[block.name][:count] for block in self.blocks], axis=1)[:, : self.bits]
        # A free bit guarantees no extra distance; alternating signs keep it balanced.
        free = np.arange(self.bits - words.shape[1])
        signs = np.where(np.arange(count)[:, None] >> free % 16 & 1, -1, 1).astype(np.int8)
        return np.concatenate([words, signs], axis=1)


def best_plan(blocks: Iterable[Block], bits: int) -> Plan | None:
    """Return the plan with the largest distance, then the largest blocks, each used any number of times, or None."""
    longest = bits + MAX_DROPPED
    usable = sorted((block for block in blocks if block.length <= longest), key=lambda b: (b.distance, b.length))
    if not usable:
        return None
    lengths = np.array([block.length for block in usable])
    distances = np.array([block.distance for block in usable])
    best = np.zeros(longest + 1, np.int64)
    last = np.full(longest + 1, -1)  # a free bit
    for length in range(1, longest + 1):
        sums = np.where(lengths <= length, best[length - lengths] + distances, 0)
        largest = len(sums) - 1 - int(sums[::-1].argmax())
        best[length] = max(best[length - 1], sums[largest])
        if sums[largest] == best[length] > 0:
            last[length] = largest
    sure = best[bits:] - np.arange(MAX_DROPPED + 1)
    if sure.max() <= 0:
        return None
    length = bits + int(sure.argmax())
    chosen: list[Block] = []
    while length > 0:
        if last[length] >= 0:
            chosen.append(usable[last[length]])
        length -= 1 if last[length] < 0 else lengths[last[length]]
    return Plan(bits, int(sure.max()), tuple(reversed(chosen)))
