"""Tasks in processes of their own, a few at a time, with one thread each.

Neither ``concurrent.futures``, which does the work, nor joblib ends the processes of a program that is killed.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from lbhash.utils.checksums import checked, with_checksum
from lbhash.utils.files import write_json


def in_processes(
    tasks: Mapping[str, tuple[Any, ...]], execute: Callable[..., Any], workers: int
) -> Iterator[tuple[str, Any]]:
    """Run ``execute`` with each task's arguments, and yield names and results as they come.

    An error in a task, or in the code that takes the results, cancels the tasks that have not begun.
    """
    context = get_context("spawn")
    with one_thread_each(), ProcessPoolExecutor(workers, context, initializer=_end_with_parent) as pool:
        waiting = {pool.submit(execute, *arguments): name for name, arguments in tasks.items()}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _end_with_parent() -> None:
    """End this worker when its parent ends; otherwise it would wait for more tasks for ever."""
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def print_progress(
    done: Iterable[tuple[str, Any]], total: int, line: Callable[[str, Any], str]
) -> Iterator[tuple[str, Any]]:
    """Yield what is done, and after each print a line with the minutes so far to the standard error."""
    started = time.perf_counter()
    for count, (name, result) in enumerate(done, start=1):
        yield name, result
        minutes = (time.perf_counter() - started) / 60
        print(f"[{count}/{total}] {line(name, result)}, {minutes:.1f} minutes", file=sys.stderr, flush=True)


def run_missing(
    runs: Mapping[str, tuple[Any, ...]],
    execute: Callable[..., dict[str, Any]],
    folder: Path,
    workers: int,
    say: Callable[[dict[str, Any]], str],
) -> tuple[dict[str, dict[str, Any]], float | None]:
    """Run the runs of a table that have no JSON file yet, each in a process of its own with one thread.

    ``runs`` has the arguments of ``execute`` by the run's name, which is its file's, and ``say`` says in a few words
    what a result is. Returns all results by name, and the minutes they took if all of them were missing, else None.
    """
    missing = {name: arguments for name, arguments in runs.items() if not (folder / f"{name}.json").exists()}
    started = time.perf_counter()
    done = in_processes(missing, execute, workers)
    for name, result in print_progress(done, len(missing), lambda name, result: f"{name}: {say(result)}"):
        write_run(folder / f"{name}.json", result)
    results = {name: read_run(folder / f"{name}.json") for name in runs}
    return results, (time.perf_counter() - started) / 60 if len(missing) == len(runs) else None


def write_run(file: Path, result: Any) -> None:
    """Write a run's result as JSON, with its checksum."""
    write_json(file, with_checksum(result))


def read_run(file: Path) -> Any:
    """Return what a run's JSON file holds; raise ``ValueError`` with a line that says how to repair a damaged one."""
    try:
        return checked(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is damaged ({error}); delete it, and its run is made anew") from None


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Give one thread to each process that starts here; libraries read the number when they are loaded."""
    names = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")
    before = {name: os.environ[name] for name in names if name in os.environ}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)
