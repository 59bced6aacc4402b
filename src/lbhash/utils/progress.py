"""A progress bar that shows how much is done, how fast, and the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counted(
    title: str, total: int | None, unit: str, *, done: int = 0, show: bool = True
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error while the block runs; yields the function that advances it.

    Args:
        title: the text before the bar.
        total: the amount of work; None if it is unknown.
        unit: what is counted, in the plural.
        done: the amount of work that was done before.
        show: whether to show the bar.
    """
    from rich import progress
    from rich.console import Console

    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn(f"{unit}, {{task.fields[rate]}} a second"),
        progress.TimeElapsedColumn(),
        progress.TextColumn("·"),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
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
