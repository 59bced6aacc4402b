"""Ray clusters: a running one, or a new one on this machine."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Any, Literal, TypeVar

from threadpoolctl import threadpool_limits

from lbhash.evaluation.parts import Part, Share
from lbhash.utils.formatting import one_line
from lbhash.utils.system import check_packages

T = TypeVar("T")
Engine = Literal["local", "ray"]

_OBJECTS = 100 * 2**20  # bytes of a new cluster's object store; more goes to disk
_LOG_LEVEL = "RAY_BACKEND_LOG_LEVEL"  # Ray's core reads it at startup


def check_engine(engine: Engine | None) -> Engine:
    """Return the engine, ``local`` if None; ``ValueError`` if Ray is missing."""
    chosen: Engine = engine or "local"
    if chosen == "ray":
        check_packages("engine is 'ray', which", "ray", "ray", "ray.data")
    return chosen


@contextmanager
def sharing(address: str | None) -> Iterator[tuple[int, Callable[[Sequence[Part]], Share]]]:
    """Yield a cluster's number of cores, and a function that turns parts into a ``Share`` run by its tasks.

    The parts go to the cluster once. Ray runs a task again if its machine is lost.
    """
    import ray

    def share(parts: Sequence[Part]) -> Share:
        stored = [ray.put(part) for part in parts]
        task: Any = ray.remote(scheduling_strategy="SPREAD", num_cpus=1)(_call)

        def call(function: Callable[[Part], T]) -> list[T]:
            held = ray.put(function)
            return ray.get([task.remote(held, part) for part in stored])

        return call

    with redirect_stdout(sys.stderr), connected(address):
        yield int(ray.cluster_resources().get("CPU", 1)), share


def _call(function: Callable[[Part], T], part: Part) -> T:
    with threadpool_limits(1):  # one core per task
        return function(part)


@contextmanager
def connected(address: str | None) -> Iterator[None]:
    """Connect this process to a cluster during the block: the current one, the one at ``address``, or a new one."""
    import ray
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if ray.is_initialized():
        yield
        return
    host, colon, port = (address or "").rpartition("://")[2].rpartition(":")
    own: dict[str, Any] = {} if address else {"include_dashboard": False, "object_store_memory": _OBJECTS}
    loud = _LOG_LEVEL in os.environ
    os.environ.setdefault(_LOG_LEVEL, "fatal")
    try:
        if colon:  # a real address: check it, because Ray would wait for minutes
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, ValueError, OverflowError, RuntimeError) as error:
        raise ValueError(f"ray_address is {address!r}, and there is no cluster of Ray: {one_line(error)}") from None
    finally:
        if not loud:
            del os.environ[_LOG_LEVEL]
    try:
        yield
    finally:
        ray.shutdown()
