"""Codes side by side: lengths and distances add, and there are as many words as the smallest code has.

For a number of classes every construction offers blocks, codes with words enough. Which of them, side by side, reach
the largest distance for a length is a knapsack, solved by dynamic programming over the length. A sum that is a little
too long serves too: dropping a bit costs at most one of distance.

Source: MacWilliams and Sloane (1977), section 2.3 (Levenshtein's construction) and section 1.9 (puncturing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from lbhash.centers.distance import Centers

MAX_DROPPED = 8
"""How many bits a sum of blocks may be too long."""


class Block(NamedTuple):
    """A code that can stand beside others.

    Attributes:
        name: as a reader of the literature knows it.
        length: of its words.
        distance: a lower bound of its minimum distance, by theory.
        words: makes its words, ``int8 [n, length]`` of -1 and +1.
    """

    name: str
    length: int
    distance: int
    words: Callable[[], Centers]


class Plan(NamedTuple):
    """Blocks side by side, cut or filled to ``bits``; ``distance`` is sure."""

    bits: int
    distance: int
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        """The blocks' names, with the numbers of copies."""
        counts: dict[str, int] = {}
        for block in self.blocks:
            counts[block.name] = counts.get(block.name, 0) + 1
        name = " + ".join(name if count == 1 else f"{count} × {name}" for name, count in counts.items())
        dropped = sum(block.length for block in self.blocks) - self.bits
        if dropped == 0:
            return name
        bits = "bit" if abs(dropped) == 1 else "bits"
        return f"{name}, {dropped} {bits} dropped" if dropped > 0 else f"{name}, {-dropped} free {bits}"

    def words(self) -> Centers:
        """The words, as many as the smallest block has: ``int8 [n, bits]`` of -1 and +1."""
        made = {block.name: block.words() for block in self.blocks}
        count = min(len(words) for words in made.values())
        words = np.concatenate([made[block.name][:count] for block in self.blocks], axis=1)[:, : self.bits]
        # A free bit adds no distance that is sure; alternating signs keep it balanced.
        free = np.arange(self.bits - words.shape[1])
        signs = np.where(np.arange(count)[:, None] >> free % 16 & 1, -1, 1).astype(np.int8)
        return np.concatenate([words, signs], axis=1)


def best_plan(blocks: Iterable[Block], bits: int) -> Plan | None:
    """The largest distance that the blocks reach side by side; of equal plans the one that adds most in a block."""
    longest = bits + MAX_DROPPED
    best = np.zeros(longest + 1, np.int64)
    last: list[Block | None] = [None] * (longest + 1)
    for block in sorted((b for b in blocks if b.length <= longest), key=lambda b: (b.distance, b.length)):
        # Blocks one by one, each in any number of copies; on a tie the later, larger block stands.
        for length in range(block.length, longest + 1):
            if best[length - block.length] + block.distance >= max(1, best[length]):
                best[length], last[length] = best[length - block.length] + block.distance, block
        # Free bits.
        for length in range(1, longest + 1):
            if best[length - 1] > best[length]:
                best[length], last[length] = best[length - 1], None
    sure = best[bits:] - np.arange(MAX_DROPPED + 1)
    length = bits + int(sure.argmax())
    if sure.max() <= 0:
        return None
    chosen = []
    while length > 0:
        found = last[length]
        if found is not None:
            chosen.append(found)
        length -= 1 if found is None else found.length
    return Plan(bits, int(sure.max()), tuple(reversed(chosen))) if chosen else None
