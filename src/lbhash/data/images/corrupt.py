"""Images that are missing or damaged: found before anything is computed, and said in one line."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from lbhash.data.images.loading import ImageReader, in_workers
from lbhash.utils.files import cache_folder, write_json
from lbhash.utils.progress import counted

if TYPE_CHECKING:
    from lbhash.data.images.table import ImageTable

Damaged = Literal["refuse", "skip"]
"""What becomes of images that are missing or damaged."""

MEND = "mend or remove them, or skip them (damaged 'skip')"
"""What is to be done where images are refused."""

_CHECKED = 256  # images that a worker decodes at a time


def check_missing(table: ImageTable, rows: npt.NDArray[np.int64] | None = None) -> None:
    """Raise ``ValueError`` where images of these rows, or of all, are missing; it names the first one."""
    said = missing_line(table, rows)
    if said is not None:
        refuse_or_skip(said, "refuse")


def missing_line(table: ImageTable, rows: npt.NDArray[np.int64] | None = None) -> str | None:
    """Which image of these rows, or of all, is missing, and how many are; ``None`` where none is."""
    absent = table.store.missing()
    if rows is not None:
        absent = np.intersect1d(absent, rows)
    if not len(absent):
        return None
    total = len(table) if rows is None else len(rows)
    return f"{table.store.where(int(absent[0]))} is missing ({len(absent):,} of {total:,} are)"


def damaged_line(fault: str, count: int, total: int) -> str:
    """What is wrong with the first image that is damaged or missing, and how many are."""
    return f"{fault} ({count:,} of {total:,} images are damaged or missing)"


def refuse_or_skip(said: str, policy: Damaged) -> None:
    """Raise ``ValueError`` with what is wrong with images, or say on standard error that they are skipped."""
    if policy == "refuse":
        raise ValueError(f"{said}; {MEND}")
    print(f"{said}; they are skipped", file=sys.stderr)


def fault_of(table: ImageTable, row: int) -> str:
    """What is wrong with an image."""
    try:
        table.read(row)
    except ValueError as error:
        return str(error)
    return f"{table.store.where(row)} could not be read"


def find_unreadable(table: ImageTable, workers: int = 0, *, progress: bool = False) -> list[int]:
    """The rows of a table whose image is damaged or missing, by decoding all of them, once: what is found is kept.

    Args:
        table: the images.
        workers: processes that decode.
        progress: show a bar on standard error.
    """
    file = cache_folder() / "unreadable" / f"{table.store.fingerprint()}.json"
    try:
        return [int(row) for row in json.loads(file.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        pass
    found: list[int] = []
    every = np.arange(len(table))
    batches = [every[start : start + _CHECKED] for start in range(0, len(every), _CHECKED)]
    with counted("checking", len(table), "images", show=progress) as advance:
        for _, read, damaged in in_workers(ImageReader(table.store.in_order()), batches, workers):
            found += [damage.row for damage in damaged]
            advance(len(read) + len(damaged))
    with suppress(OSError):  # it can be found out again
        write_json(file, found)
    return found
