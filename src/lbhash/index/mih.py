"""Multi-index hashing: Norouzi, Punjani, Fleet, "Fast Exact Search in Hamming Space with Multi-Index Hashing",
PAMI 2014."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from lbhash.codes import PackedCodes
from lbhash.index.local import LocalIndex


class MultiIndexHashing(LocalIndex):
    """A code is cut into ``nhash`` substrings, each looked up in a table of its own with up to ``nflip`` bits flipped.

    Two codes within r bits agree in one of m substrings up to ⌊r / m⌋ bits: what is found is exact as far as the k-th
    distance is below ``nhash * (nflip + 1)``.

    Args:
        bits: h, the length of a code.
        model: fingerprint of the model that makes the codes.
        options: ``nhash``, the number of substrings; by default as many as make them log2(n) bits long for n codes, as
            the authors advise. ``nflip``, the most bits that are flipped.
    """

    kind = "mih"
    OPTIONS: ClassVar = {"nhash": (None, 1), "nflip": (1, 0)}

    def _build(self, codes: PackedCodes) -> Any:
        import faiss

        tables = self.options["nhash"] or max(1, round(self.bits / math.log2(len(codes))))
        if tables > self.bits:
            raise ValueError(f"option nhash is {tables}; it must be at most the length of a code ({self.bits})")
        length = min(self.bits // tables, 62)  # a substring is a 64-bit key
        index = faiss.IndexBinaryMultiHash(8 * codes.shape[1], tables, length)
        index.add(codes)
        return index

    def _tune(self, structure: Any) -> None:
        structure.nflip = min(self.options["nflip"], structure.b)
