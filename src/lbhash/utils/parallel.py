"""Tasks in separate processes, a few at a time, with one thread each.

If a program is killed, ``concurrent.futures``, used here, and joblib leave its processes running; this module ends
them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import Any

from lbhash.utils.checksums import checked, with_checksum
from lbhash.utils.files import write_json
from lbhash.utils.paths import no_file
from lbhash.utils.progress import counted


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


def run_missing(
    tasks: Mapping[str, tuple[Any, ...]],
    execute: Callable[..., Any],
    folder: Path | None,
    workers: int = 1,
    *,
    title: str = "running",
    progress: bool = True,
) -> dict[str, Any]:
    """Run the tasks that have no JSON file yet; return all results by name.

    Args:
        tasks: arguments of ``execute`` by task name, which also names the file.
        execute: returns a JSON value.
        folder: keeps one file per finished task; tasks with a file are not run again. None keeps nothing.
        workers: number of processes, with one thread each; 1 runs the tasks in this process.
        title: title of the progress bar.
        progress: show a bar on standard error.
    """
    files = {} if folder is None else {name: folder / f"{name}.json" for name in tasks}
    results = {name: read_run(file) for name, file in files.items() if file.exists()}
    missing = {name: arguments for name, arguments in tasks.items() if name not in results}
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)  # an error should come before the first task
    here = ((name, execute(*arguments)) for name, arguments in missing.items())
    done = in_processes(missing, execute, min(workers, len(missing))) if workers > 1 and missing else here
    with counted(title, len(tasks), "runs", done=len(results), show=progress and bool(missing)) as advance:
        for name, found in done:
            results[name] = found
            if name in files:
                write_run(files[name], found)
            advance(1)
    return {name: results[name] for name in tasks}


def write_run(file: Path, result: Any) -> None:
    """Write a run's result as JSON, with a checksum of it and the file's name."""
    write_json(file, with_checksum(result, file.name))


def read_run(file: Path) -> Any:
    """Read a run's JSON file; raise ``ValueError`` with a line that says how to repair a damaged one."""
    if what := no_file(file):
        raise ValueError(f"{file} is {what}, and no file of a run; delete it to run it again")
    try:
        return checked(json.loads(file.read_text(encoding="utf-8")), file.name)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is damaged ({error}); delete it to run it again") from None


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Give one thread to each process that starts in the block; libraries read the number when they are loaded."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
