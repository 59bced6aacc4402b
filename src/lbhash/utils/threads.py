"""Threads of our own in the place of those that NumPy's products have.

The threads of a product wait for each other by computing. Beside other programs they take each other's turns: two then
take many times as long as one, and several times the processor seconds (``benchmarks/threads.py``). So one thread
computes each product, and NumPy's number of threads share the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def in_threads(work: Callable[[T], object], parts: Iterable[T]) -> None:
    """Call ``work`` for each part in one of as many threads as NumPy's products may have; these then have one each.

    ``OMP_NUM_THREADS`` and ``threadpoolctl.threadpool_limits`` say how many they are.
    """
    parts = list(parts)
    threads = min(len(parts), max((one["num_threads"] for one in _blas().info()), default=1))
    with _blas().limit(limits=1):
        if threads < 2:
            for part in parts:
                work(part)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, parts))


@cache
def _blas() -> Any:
    """Return the libraries that compute products; to look for them takes milliseconds, as does the import."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
