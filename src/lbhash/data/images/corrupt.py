"""Find missing or damaged images before anything is computed, and report them in one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from lbhash.data.images.loading import ImageReader
from lbhash.data.reading_ahead import ReadAhead
from lbhash.utils.checksums import checked, with_checksum
from lbhash.utils.files import write_json
from lbhash.utils.paths import cache_folder
from lbhash.utils.progress import counted
from lbhash.utils.validation import check_int

if TYPE_CHECKING:
    from lbhash.data.images.table import ImageTable

Damaged = Literal["refuse", "skip"]  # what to do about missing or damaged images

_BATCH = 256  # images that a worker decodes at a time


def check_images(
    images: ImageTable, *, damaged: Damaged = "refuse", workers: int = 0, progress: bool = False
) -> ImageTable:
    """Return the table with unreadable images marked, so that training does not stop at one of them.

    If images are missing or damaged, ``refuse`` raises ``ValueError``; ``skip`` reports them, and raises only if none
    can be read. All images are decoded once. The result stays in the cache folder, so that the next run starts at once.
    """
    check_int(workers, "workers")
    if damaged == "refuse":
        report_missing(images)
    unreadable = find_unreadable(images, workers, progress=progress)
    report_damaged(images, unreadable, damaged)
    return images.without(unreadable)


def report_missing(table: ImageTable, damaged: Damaged = "refuse", rows: npt.NDArray[np.int64] | None = None) -> None:
    """Refuse or skip missing images among these rows, or all; the message names the first and their number."""
    absent = table.store.missing()
    if rows is not None:
        absent = np.intersect1d(absent, rows)
    if len(absent):
        total = len(table) if rows is None else len(rows)
        _report(f"{table.where(int(absent[0]))} is missing ({len(absent):,} of {total:,} are)", damaged)


def report_damaged(table: ImageTable, faults: Mapping[int, str], damaged: Damaged, consequence: str = "") -> None:
    """Refuse or skip damaged or missing images, if there are any; the message names the fault of the first."""
    if not faults:
        return
    fault = next(iter(faults.values()))
    if damaged == "skip" and len(faults) == len(table):
        raise ValueError(f"no image of {table.name} could be read: {fault}")
    _report(f"{fault} ({len(faults):,} of {len(table):,} images are damaged or missing){consequence}", damaged)


def _report(said: str, damaged: Damaged) -> None:
    if damaged == "refuse":
        raise ValueError(f"{said}; mend or remove them, or skip them (damaged='skip')")
    print(f"{said}; they are skipped", file=sys.stderr)


def find_unreadable(table: ImageTable, workers: int = 0, *, progress: bool = False) -> dict[int, str]:
    """Return the fault of each damaged or missing image, by row.

    All are decoded once, and the cache remembers the result.
    """
    file = cache_folder() / "unreadable" / f"{table.store.fingerprint()}.json"
    with suppress(OSError, ValueError, AttributeError):
        return {int(row): fault for row, fault in checked(json.loads(file.read_text(encoding="utf-8"))).items()}
    found: dict[int, str] = {}
    rows = np.arange(len(table))
    batches = np.split(rows, range(_BATCH, len(rows), _BATCH))
    with counted("checking", len(table), "images", show=progress) as advance:
        for _, read, damaged in ReadAhead(ImageReader(table.store.in_order()), batches, workers):
            found |= {damage.row: damage.fault for damage in damaged}
            advance(len(read) + len(damaged))
    with suppress(OSError):  # the cache is optional
        write_json(file, with_checksum(found))
    return found
