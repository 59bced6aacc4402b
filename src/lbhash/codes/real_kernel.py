"""The compiled loop of ``lbhash.codes.real``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lbhash.codes.packing import PackedCodes
from lbhash.utils.compiled import compiled

Floats = npt.NDArray[np.float64]


@compiled
def sums(table: Floats, codes: PackedCodes, found: Floats) -> None:
    """Write the sum of each code's entries of a table ``[bytes, 256]`` to ``found`` ``[n]``."""
    for row in range(len(codes)):
        total = 0.0
        for byte in range(codes.shape[1]):
            total += table[byte, codes[row, byte]]
        found[row] = total
