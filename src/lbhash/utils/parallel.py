"""Tasks in processes of their own, a few at a time, with a thread each."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from lbhash.utils.files import write_json


def in_processes(
    tasks: Mapping[str, tuple[Any, ...]], execute: Callable[..., Any], workers: int
) -> Iterator[tuple[str, Any]]:
    """Run ``execute`` with each task's arguments, and give names and results as they come.

    An error of a task, or of whoever takes the results, cancels the tasks that have not begun. The processes end with
    this one, also where it is killed.
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
    """Else a worker whose pool is gone would finish its tasks, and wait for more for ever."""
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def run_missing(
    runs: Mapping[str, tuple[Any, ...]],
    execute: Callable[..., dict[str, Any]],
    folder: Path,
    workers: int,
    say: Callable[[dict[str, Any]], str],
) -> tuple[dict[str, dict[str, Any]], float | None]:
    """Run the runs of a table that have no file yet, each leaving a JSON file.

    Args:
        runs: arguments of ``execute`` by the run's name, which is its file's.
        execute: makes a run's result, in a process of its own with one thread.
        folder: of the files.
        workers: runs at a time.
        say: what to print of a result when it is there.

    Returns:
        All results by name, and the minutes they took if all of them were missing, else None.
    """
    missing = {name: arguments for name, arguments in runs.items() if not (folder / f"{name}.json").exists()}
    started = time.perf_counter()
    for count, (name, result) in enumerate(in_processes(missing, execute, workers), start=1):
        write_json(folder / f"{name}.json", result)
        minutes = (time.perf_counter() - started) / 60
        print(f"[{count}/{len(missing)}] {name}: {say(result)}, {minutes:.1f} minutes", file=sys.stderr, flush=True)
    results = {name: read_run(folder / f"{name}.json") for name in runs}
    return results, (time.perf_counter() - started) / 60 if len(missing) == len(runs) else None


def read_run(file: Path) -> Any:
    """What a run's JSON file holds, or ``ValueError`` with a line that says how to mend a damaged one."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}); delete it, and its run is made anew") from None


@contextmanager
def one_thread_each() -> Iterator[None]:
    """The workers are what runs in parallel; they read the environment when they start."""
    before = {name: os.environ.get(name) for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
