"""Images that are missing or damaged: found before anything is computed, and said in one line."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import numpy.typing as npt

from lbhash.data.images.loading import ImageReader, in_workers
from lbhash.utils.checksums import checked, with_checksum
from lbhash.utils.files import cache_folder, write_json
from lbhash.utils.progress import counted
from lbhash.utils.validation import check_choice, check_int

if TYPE_CHECKING:
    from lbhash.data.images.table import ImageTable

Damaged = Literal["refuse", "skip"]  # what becomes of images that are missing or damaged

MEND = "mend or remove them, or skip them (damaged 'skip')"  # the advice if they are refused
_BATCH = 256  # images that a worker decodes at a time


def check_images(
    images: ImageTable, *, damaged: Damaged = "refuse", workers: int = 0, progress: bool = False
) -> npt.NDArray[np.bool_]:
    """Return which images of a table can be read, ``bool [n]``, so that no training stops at one that cannot.

    If some are missing or damaged, ``refuse`` raises ``ValueError``, and ``skip`` only says so, unless all are. All
    images are decoded once; the result stays in the cache folder, so that the next run starts at once.
    """
    check_int(workers, "workers")
    check_choice(damaged, "damaged", get_args(Damaged))
    if damaged == "refuse":
        check_missing(images)
    usable = np.ones(len(images), bool)
    unreadable = find_unreadable(images, workers, progress=progress)
    if unreadable:
        usable[unreadable] = False
        fault = fault_of(images, unreadable[0])
        if damaged == "skip" and not usable.any():
            raise ValueError(f"no image of {images.name} could be read: {fault}")
        refuse_or_skip(damaged_line(fault, len(unreadable), len(images)), damaged)
    return usable


def check_missing(table: ImageTable, rows: npt.NDArray[np.int64] | None = None) -> None:
    """Raise ``ValueError`` if images of these rows, or of all, are missing; it names the first one."""
    said = missing_line(table, rows)
    if said is not None:
        refuse_or_skip(said, "refuse")


def missing_line(table: ImageTable, rows: npt.NDArray[np.int64] | None = None) -> str | None:
    """Return which image of these rows, or of all, is missing, and how many are; ``None`` if none is."""
    absent = table.store.missing()
    if rows is not None:
        absent = np.intersect1d(absent, rows)
    if not len(absent):
        return None
    total = len(table) if rows is None else len(rows)
    return f"{table.where(int(absent[0]))} is missing ({len(absent):,} of {total:,} are)"


def damaged_line(fault: str, count: int, total: int) -> str:
    """Return what is wrong with the first image that is damaged or missing, and how many are."""
    return f"{fault} ({count:,} of {total:,} images are damaged or missing)"


def refuse_or_skip(said: str, policy: Damaged) -> None:
    """Raise ``ValueError`` with what is wrong with images, or say on standard error that they are skipped."""
    if policy == "refuse":
        raise ValueError(f"{said}; {MEND}")
    print(f"{said}; they are skipped", file=sys.stderr)


def fault_of(table: ImageTable, row: int) -> str:
    """Return what is wrong with an image."""
    try:
        table.read(row)
    except ValueError as error:
        return str(error)
    return f"{table.where(row)} could not be read"


def find_unreadable(table: ImageTable, workers: int = 0, *, progress: bool = False) -> list[int]:
    """Return the rows whose image is damaged or missing, by decoding all once; the cache remembers the result."""
    file = cache_folder() / "unreadable" / f"{table.store.fingerprint()}.json"
    with suppress(OSError, ValueError, TypeError):
        return [int(row) for row in checked(json.loads(file.read_text(encoding="utf-8")))]
    found: list[int] = []
    rows = np.arange(len(table))
    batches = np.split(rows, range(_BATCH, len(rows), _BATCH))
    with counted("checking", len(table), "images", show=progress) as advance:
        for _, read, damaged in in_workers(ImageReader(table.store.in_order()), batches, workers):
            found += [damage.row for damage in damaged]
            advance(len(read) + len(damaged))
    with suppress(OSError):  # it can be found again
        write_json(file, with_checksum(found))
    return found
