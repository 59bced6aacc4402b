"""A child process that does one thing to whatever it is sent, and that can be killed while it does it.

A thread cannot be stopped, and what runs in one can take the whole server down. So pictures are decoded, and the
numbers of the page are worked out, in children: one that takes too long, eats memory or crashes is replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

_WELL, _REFUSED, _FAILED = b"+", b"-", b"!"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class WorkerError(RuntimeError):
    """The child process failed, died, or took too long."""


class Worker:
    """A child process that calls ``function`` on what it is asked.

    What comes back is bytes and is never unpickled, so that a child that a hostile picture has taken over has no way
    to run code in the server.

    Args:
        function: of a module that is quick to import; it takes one argument that can be pickled and returns bytes.
        nice: how much the child yields to other processes.
        memory: the most bytes of address space that it may have; ``None`` for no limit.
    """

    def __init__(self, function: Callable[[Any], bytes], *, nice: int = 0, memory: int | None = None) -> None:
        # Not forked: a fork of a process with threads can inherit a lock that nobody will release.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, function, nice, memory), daemon=True)
        self._process.start()
        theirs.close()  # or the death of the child would not end the connection

    def ask(self, argument: Any, seconds: float) -> bytes:
        """What ``function`` makes of ``argument``.

        Raises:
            ValueError: the function raised one; its line.
            WorkerError: the child raised something else, died, or took longer than ``seconds``. In the last two cases
                it is of no more use: ``kill`` it.
        """
        try:
            self._connection.send(argument)
            if not self._connection.poll(seconds):
                raise WorkerError(f"it took longer than {seconds:g} seconds")
            answer = self._connection.recv_bytes()
        except (EOFError, OSError):
            raise WorkerError("the process that worked on it ended") from None
        kind, rest = answer[:1], answer[1:]
        if kind == _REFUSED:
            raise ValueError(rest.decode(errors="replace"))
        if kind == _FAILED:
            raise WorkerError(rest.decode(errors="replace"))
        return rest

    def kill(self) -> None:
        """End the child, whatever it is doing."""
        self._process.kill()
        self._process.join()
        self._connection.close()


def _work(connection: Connection, function: Callable[[Any], bytes], nice: int, memory: int | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of the terminal; the server ends us
    for name in _THREADS:
        os.environ[name] = "1"
    if nice and hasattr(os, "nice"):
        os.nice(nice)
    if memory is not None:
        _limit_memory(memory)
    while True:
        try:
            argument = connection.recv()
        except (EOFError, OSError):  # the server has gone
            return
        try:
            answer = _WELL + function(argument)
        except ValueError as error:
            answer = _REFUSED + " ".join(str(error).split()).encode()
        except MemoryError:
            answer = _REFUSED + b"it takes more memory than one request may have"
        except Exception as error:
            answer = _FAILED + f"{type(error).__name__}: {error}".encode()
        connection.send_bytes(answer)


def _limit_memory(size: int) -> None:
    try:
        import resource
    except ImportError:  # there is no such limit on Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
