"""The number of ones of an integer, for compiled loops."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


def _popcount(typing_context: Any, word: Any) -> Any:
    if not isinstance(word, types.Integer):
        return None
    return word(word), lambda context, builder, signature, arguments: builder.ctpop(arguments[0])


popcount: Any = intrinsic(_popcount)
"""Return the number of ones of an integer; inside Numba kernels this is one processor instruction."""
