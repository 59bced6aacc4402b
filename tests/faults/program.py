"""``lbhash`` in forks of this process, which has imported everything: a command takes milliseconds."""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import IO, Any

import numba
import typer

HERE = "{here}"
"""Stands in the arguments of a command for the folder that it works on."""
PATIENCE = 300
"""Seconds after which a command counts as hung; a thousand times what it needs."""


@dataclass(frozen=True)
class Done:
    """A command that ended: its exit status (the negative signal, if one killed it) and what it printed."""

    status: int
    out: str
    err: str
    peak: int

    @property
    def refused(self) -> bool:
        """Whether it said one line and left with exit status 2, as ``lbhash`` does for a user's error."""
        lines = [line for line in self.err.splitlines() if line.startswith("lbhash: error: ")]
        return self.status == 2 and len(lines) == 1 and self.err.splitlines()[-1:] == lines

    @property
    def line(self) -> str:
        """The last line on standard error."""
        return (self.err.splitlines() or [""])[-1]

    @property
    def crash(self) -> str:
        """What is not to be: a signal, a traceback or a hang; empty if the command succeeded or refused."""
        if self.status == 0 or self.refused:
            return ""
        return f"exit status {self.status}: {self.err[-1500:]}"


@dataclass
class Started:
    """A command under way in a fork of this process."""

    pid: int
    gate: int
    out: IO[str]
    err: IO[str]

    def go(self) -> None:
        """Let it begin."""
        os.write(self.gate, b"!")
        os.close(self.gate)

    def finish(self) -> Done:
        """Let it run, and return how it ended."""
        self.go()
        return self.wait()

    def ended(self, seconds: float) -> bool:
        """Wait for its end, at most so long, and return whether it has come."""
        handle = os.pidfd_open(self.pid)
        try:
            return bool(select.select([handle], [], [], seconds)[0])
        finally:
            os.close(handle)

    def kill(self) -> None:
        """End it as ``kill -9`` does."""
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Done:
        """Return how it ended."""
        hung = not self.ended(PATIENCE)
        if hung:
            self.kill()
        _, status, usage = os.wait4(self.pid, 0)
        said = []
        for file in (self.out, self.err):
            file.seek(0)
            said.append(file.read())
            file.close()
        err = said[1] + (f"\nhung: no end after {PATIENCE} s" if hung else "")
        return Done(os.waitstatus_to_exitcode(status), said[0], err, usage.ru_maxrss * 1024)


@dataclass
class Program:
    """Starts commands with a cache folder of their own."""

    cache: Path
    before: Callable[[], None] | None = None
    """What the child does first, such as giving up rights or memory."""

    def __post_init__(self) -> None:
        warm()

    def begin(self, *arguments: object, here: Path | None = None) -> Started:
        """Fork a child that will run ``lbhash`` with these arguments, once it is told to go."""

        def main() -> None:
            from lbhash.cli.app import main

            sys.argv = ["lbhash", *(str(one).replace(HERE, str(here)) for one in arguments)]
            main()

        return self._fork(main)

    def __call__(self, *arguments: object, here: Path | None = None) -> Done:
        """Run ``lbhash`` with these arguments."""
        return self.begin(*arguments, here=here).finish()

    def must(self, *arguments: object, here: Path | None = None) -> Done:
        """Run a command that has no reason to fail."""
        done = self(*arguments, here=here)
        assert done.status == 0, f"lbhash {' '.join(map(str, arguments))}: {done.err}"
        return done

    def call(self, function: Callable[..., Any], *arguments: Any) -> Done:
        """Run a function, and print what it returns as JSON; its error is a line, as in the command line."""
        return self.fork(function, *arguments).finish()

    def fork(self, function: Callable[..., Any], *arguments: Any) -> Started:
        """Fork a child that will run a function as ``call`` does, once it is told to go."""

        def main() -> None:
            from lbhash.cli.app import _line_for

            try:
                print(json.dumps(function(*arguments)))
            except Exception as error:
                line = _line_for(error)
                if line is None:
                    raise
                sys.stderr.write(f"lbhash: error: {line}\n")
                sys.exit(2)

        return self._fork(main)

    def _fork(self, main: Callable[[], None]) -> Started:
        out = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        err = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        reads, gate = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            os.close(reads)
            return Started(pid, gate, out, err)
        status = 1
        try:
            os.close(gate)
            os.read(reads, 1)
            os.close(reads)
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
            os.environ |= {"LBHASH_CACHE": str(self.cache), "COLUMNS": "200"}
            if self.before is not None:
                self.before()
            main()
            status = 0
        except SystemExit as left:
            status = left.code if isinstance(left.code, int) else int(left.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)


def warm() -> None:
    """Import what the commands import, once; nothing runs here, so that a fork finds no threads at work."""
    if "lbhash.cli.app" in sys.modules:
        return
    warm_more(
        "lbhash.cli.app",
        "lbhash.hasher",
        "lbhash.index",
        "lbhash.evaluation.report",
        "lbhash.evaluation.ranking",
        "lbhash.pipeline.encode",
        "lbhash.pipeline.evaluate",
        "lbhash.pipeline.index",
        "lbhash.pipeline.search",
        "lbhash.pipeline.train",
        "lbhash.training.trainer",
        "faiss",
        "pyarrow.parquet",
        "pyarrow.dataset",
        "safetensors.torch",
        "scipy.special",
        "sklearn.linear_model",
    )
    from lbhash.cli import app as program

    importlib.import_module("lbhash.utils.parts").PART_ROWS["rows"] = 80  # so that a small folder has several parts
    program.app = typer.main.get_command(program.app)  # what calling it does, which takes longer than most commands
    with redirect_stdout(StringIO()):
        program.app(["methods"], standalone_mode=False)
    numba.njit(lambda number: number)(1)  # which loads most of Numba
    warm_more()


def warm_more(*names: str) -> None:
    """Import more, and let the collections of a child leave alone what it shares with this process."""
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def memory_limit(more: int) -> Callable[[], None]:
    """Return what limits the address space of a child to its present size and so many bytes more."""

    def limit() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + more
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    return limit
