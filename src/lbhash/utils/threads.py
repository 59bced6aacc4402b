"""Our own threads in place of those inside NumPy's products.

The threads of a product wait for each other in busy loops. Beside other programs they delay each other: two then take
many times as long as one, and several times the processor seconds (``benchmarks/threads.py``). So each product runs in
one thread, and as many threads as NumPy would use share the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def in_threads(work: Callable[[T], object], parts: Iterable[T]) -> None:
    """Call ``work`` for each part, in as many threads as NumPy's products may use; each product then uses one.

    ``OMP_NUM_THREADS`` and ``threadpoolctl.threadpool_limits`` set their number.
    """
    parts = list(parts)
    others = min(len(parts), thread_count()) - 1
    left = iter(parts)  # threads share it: next() of a list's iterator is one step

    def work_off() -> None:
        for part in left:
            work(part)

    with _blas().limit(limits=1), ThreadPoolExecutor(max(1, others)) as pool:
        running = [pool.submit(work_off) for _ in range(others)]
        work_off()
        for other in running:
            other.result()


def thread_count() -> int:
    """Return how many threads NumPy's products may use."""
    return max((one["num_threads"] for one in _blas().info()), default=1)


@cache
def _blas() -> Any:
    """Return the libraries that compute products, cached because finding them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
