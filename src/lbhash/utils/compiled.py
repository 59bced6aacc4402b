"""Functions that Numba compiles; where its cache is missing, damaged or full, it compiles them anew."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import numba
from numba.core.caching import FunctionCache

Function = TypeVar("Function", bound=Callable[..., Any])


class _Cache(FunctionCache):
    """Numba's files of machine code, without their errors: it does not flush them, so a power cut may cut them."""

    def load_overload(self, *given: Any) -> Any:
        try:
            return super().load_overload(*given)
        except Exception:  # whatever unpickling raises
            with suppress(OSError):
                self.flush()  # otherwise the index would stay damaged
            return None

    def save_overload(self, *given: Any) -> None:
        with suppress(OSError):
            super().save_overload(*given)


def compiled(function: Function) -> Function:
    """Compile a function, which then runs without Python's lock, and keep the machine code if it can be written."""
    made: Any = numba.njit(nogil=True)(function)
    with suppress(RuntimeError):  # there is no folder for it
        made._cache = _Cache(function)
    return made
