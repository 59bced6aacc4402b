"""A progress bar that shows how much is done, how fast, and the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbhash.utils.terminal import Console


def bar_console() -> Console:
    """Return the console of progress bars, on standard error.

    In a notebook they are widgets or, without ``ipywidgets``, one line at the end that does not flood the cell.
    """
    from lbhash.utils.terminal import Console

    return Console(stderr=True, force_jupyter=None if find_spec("ipywidgets") else False)


@contextmanager
def counted(
    title: str, total: int | None, unit: str, *, done: int = 0, show: bool = True
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error while the block runs; yields the function that advances it.

    ``unit`` is a plural, ``total`` is None if unknown, and ``done`` counts what was done before.
    """
    from rich import progress

    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn(f"{unit}, {{task.fields[rate]}} a second"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("·"),
        progress.TimeRemainingColumn(),
        console=bar_console(),
        disable=not show,
    )
    with bar:
        task = bar.add_task(title, total=total, completed=done, rate="–")

        def advance(count: int) -> None:
            bar.advance(task, count)
            speed = bar.tasks[0].speed
            if speed is not None:
                bar.update(task, rate=f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}")

        yield advance
