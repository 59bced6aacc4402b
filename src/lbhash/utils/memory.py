"""Compare the memory that data need with the memory that is available.

A few kilobytes of Parquet may hold gigabytes of equal numbers, and one class number makes an array as long as itself.
Sizes are checked first, because a system without memory kills a process without a message.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from lbhash.utils.formatting import one_line

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}  # of Parquet, in bytes
_SHORT = re.compile(
    "can't allocate memory|not enough memory|out of memory|bad_alloc|failed to map segment", re.IGNORECASE
)
_FEW = re.compile("can't start new thread|Failed to launch worker thread")
_MOUNT = Path("/sys/fs/cgroup")


def available_memory() -> int | None:
    """Return the bytes that this process can still use, on the machine and in its container; None if unknown."""
    try:
        facts = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        free = 1024 * sum(int(facts[name].split()[0]) for name in ("MemAvailable", "SwapFree"))
    except (OSError, ValueError, KeyError):  # not Linux
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, OSError, ValueError):
            return None
    return min([free, *_left_in_groups()])


def check_memory(size: int, what: str, remedy: str = "") -> None:
    """Raise ``ValueError`` if something takes more bytes than are available; ``what`` is the message's subject."""
    free = available_memory()
    if free is not None and size > free:
        line = f"{what} would take {gibibytes(size)} of memory, and {gibibytes(free)} are available"
        raise ValueError(f"{line}; {remedy}" if remedy else line)


def crowds(size: int) -> bool:
    """Return whether something takes more than half of the available bytes."""
    free = available_memory()
    return free is not None and 2 * size > free


def check_parquet(file: Path, what: str, columns: Collection[str] | None = None) -> None:
    """Raise ``ValueError`` if some columns of a Parquet file, or all, take more memory than is available."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        groups = range(opened.num_row_groups)
        check_memory(sum(group_bytes(opened, group, columns) for group in groups), what)


def check_npz(file: Path, what: str, arrays: Collection[str] | None = None) -> None:
    """Raise ``ValueError`` if some arrays of an ``.npz`` file, or all, take more memory than is available.

    Other faults of the file are reported when it is read.
    """
    size = 0
    with suppress(OSError, ValueError, NotImplementedError, zipfile.BadZipFile), zipfile.ZipFile(file) as opened:
        members = {one.filename.removesuffix(".npy"): one.file_size for one in opened.infolist()}
        size = sum(members[name] for name in members if arrays is None or name in arrays)
    check_memory(size, what)


def group_bytes(opened: Any, group: int, columns: Collection[str] | None = None) -> int:
    """Return the bytes that some or all columns of a row group take in memory, for an open ``ParquetFile``.

    For numbers their count decides; for text and bytes, the stored size. A damaged file raises ``OSError`` or an error
    of Arrow.
    """
    # Asking for the size of a damaged footer entry would end the process; reading a row first raises an error.
    next(opened.iter_batches(1, [group], None if columns is None else list(columns)), None)
    total, stored, described = 0, opened.metadata.row_group(group), opened.metadata.schema
    for at in range(stored.num_columns):
        if columns is None or described.column(at).path.split(".")[0] in columns:
            column = stored.column(at)
            width = _WIDTHS.get(column.physical_type) or described.column(at).length
            least = column.total_uncompressed_size if column.physical_type == "BYTE_ARRAY" else 0
            total += max(least, column.num_values * (width or 0))
    return total


def shortage(error: BaseException) -> str | None:
    """Return a line if a library found no memory, or could start no thread; None for any other error."""
    said = one_line(error)
    if isinstance(error, MemoryError) or (isinstance(error, (RuntimeError, ImportError)) and _SHORT.search(said)):
        return "there is not enough memory" + (f": {said[:200]}" if said != type(error).__name__ else "")
    if lacks_threads(error):
        return "the system allows this program no more threads; raise its limit (ulimit -u, or the container's)"
    return None


def lacks_threads(error: BaseException) -> bool:
    """Return whether Python or Arrow could not start a thread."""
    return _FEW.search(str(error)) is not None


def gibibytes(size: int) -> str:
    """Return a number of bytes as people read it.

    >>> gibibytes(10**11)
    '93.1 GiB'
    """
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def _left_in_groups() -> Iterator[int]:
    """Yield the bytes that each control group of this process has left, if the group has a limit."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            names = ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        mount = _MOUNT / controllers
        folder = mount / path.lstrip("/")
        for place in (folder, *folder.parents):  # in a container the mount itself may be the group
            if not place.is_relative_to(mount):
                break
            try:
                limit, used = (int((place / name).read_text(encoding="ascii")) for name in names[:2])
                facts = dict(line.split() for line in (place / "memory.stat").read_text(encoding="ascii").splitlines())
            except (OSError, ValueError):  # no limit, or no such group
                continue
            yield limit - used + int(facts.get(names[2], 0))  # the cache of files can be freed
