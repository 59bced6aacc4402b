"""Child processes that decode images and compute the page's summary of the index.

A thread cannot be stopped and can crash the whole server; a child that hangs or crashes is replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from lbhash.utils.formatting import one_line

_DONE, _REFUSED, _FAILED = b"+", b"-", b"!"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class WorkerError(RuntimeError):
    """The child process failed, died, or took too long."""


class Worker:
    """A child process that calls ``function`` on each argument sent to it.

    Answers are bytes and never unpickled (unlike in Python's process pools), so a malicious image that takes over the
    child cannot run code in the server. ``nice`` lowers the child's priority; ``memory`` limits its address space in
    bytes (None: no limit).
    """

    def __init__(self, function: Callable[[Any], bytes], *, nice: int = 0, memory: int | None = None) -> None:
        # Not forked: a fork of a process with threads may inherit a lock that is never released.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, nice, memory), daemon=True)
        self._process.start()
        theirs.close()  # or the connection would stay open when the child dies
        self._function = function

    def ask(self, argument: Any, seconds: float) -> memoryview:
        """Return ``function(argument)``, or raise the ``ValueError`` that the function raised.

        Any other error becomes a ``WorkerError``. Kill a child that died or took longer than ``seconds``.
        """
        try:
            # Send the function now: unpickling it loads libraries, and the child must set its limits first.
            self._connection.send((self._function, argument))
            if not self._connection.poll(seconds):
                raise WorkerError(f"it took longer than {seconds:g} seconds")
            answer = self._connection.recv_bytes()
        except (EOFError, OSError):
            raise WorkerError("the process that worked on it ended") from None
        kind, rest = answer[:1], memoryview(answer)[1:]  # a view: images are large
        if kind == _DONE:
            return rest
        raise (ValueError if kind == _REFUSED else WorkerError)(str(rest, errors="replace"))

    def kill(self) -> None:
        """End the child, whatever it is doing."""
        self._process.kill()
        self._process.join()
        self._connection.close()


def _work(connection: Connection, nice: int, memory: int | None) -> None:
    """In the child process, answer arguments until the server closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the child too; the server ends it
    os.environ.update(dict.fromkeys(_THREADS, "1"))  # read when NumPy is imported
    with suppress(ImportError):  # Windows has neither
        import resource

        os.nice(nice)
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with suppress(EOFError, OSError):  # the server has gone
        while True:
            function, argument = connection.recv()
            try:
                answer = _DONE + function(argument)
            except ValueError as error:
                answer = _REFUSED + one_line(error).encode()
            except MemoryError:
                answer = _REFUSED + b"it takes more memory than one request may have"
            except Exception as error:
                answer = _FAILED + f"{type(error).__name__}: {error}".encode()
            connection.send_bytes(answer)
