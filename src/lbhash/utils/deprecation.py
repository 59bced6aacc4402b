"""Old names of arguments, which keep working."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def renamed(**names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function take arguments by their old names, too (old to new), with a ``DeprecationWarning``.

    >>> @renamed(at="top_k")
    ... def double(top_k): return 2 * top_k
    >>> double(top_k=3)
    6
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
            for old in names.keys() & kwargs.keys():
                new = names[old]
                if new in kwargs:
                    raise TypeError(f"{old} and {new} are both given; {old} is the old name of {new}, give {new} only")
                warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return wrapper

    return decorate
