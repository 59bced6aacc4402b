"""Write files that are complete and on the disk, or missing: first under a temporary name, then renamed."""

from __future__ import annotations

import csv
import errno
import glob
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbhash.utils.formatting import one_line
from lbhash.utils.paths import kind_of

if TYPE_CHECKING:
    from filelock import FileLock

try:
    import fcntl
except ImportError:  # Windows has no such locks and renames no open file: leftovers of killed writers stay
    fcntl = None  # type: ignore[assignment]


_FORMULA = re.compile(r"[=@\t\r]|[-+](?!\d*\.?\d*(e[-+]?\d+)?\Z)", re.IGNORECASE)


@contextmanager
def replacing(path: str | os.PathLike[str], *errors: type[Exception]) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, which is renamed to ``path`` at the end, or removed after an error.

    At the end the file, its name and its new folders are on the disk: a power cut does not lose them.

    Args:
        path: path of the file. A link, a folder or a device in its place is refused (``check_replaceable``).
        errors: errors that the writing library raises instead of ``OSError``.

    Raises:
        OSError: with the name ``path``, if the file cannot be written.
    """
    target = Path(path)
    with naming(target, *errors):
        check_replaceable(target)
        make_folder(target.parent)
        handle, temporary = _locked_beside(target)
        try:
            yield temporary
            give_usual_rights(temporary)
            sync(temporary)
            with syncing(target.parent):
                temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
            if handle is not None:
                os.close(handle)


def _locked_beside(target: Path) -> tuple[int | None, Path]:
    """Return a new file beside the target, open and locked; remove files that killed writers of the target left."""
    new = partial(tempfile.mkstemp, dir=target.parent, prefix=f".{target.name}.", suffix=target.suffix)
    if fcntl is None:
        handle, name = new()
        os.close(handle)
        return None, Path(name)
    for left in target.parent.glob(f".{glob.escape(target.name)}.????????{glob.escape(target.suffix)}"):
        with suppress(OSError), left.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if its writer is still at work
            left.unlink()
    while True:
        handle, name = new()
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(name):  # no other writer has removed it as a leftover
            return handle, Path(name)
        os.close(handle)


def check_replaceable(path: str | os.PathLike[str]) -> None:
    """Raise ``FileExistsError`` unless ``path`` is a regular file or nothing; a link to a file is refused too.

    Otherwise a stranger's link could choose which file is overwritten, or a useful link would be lost.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:  # nothing is there, or the next step raises the error
        return
    if what := kind_of(mode):
        said = f"not written, because {what} is in its place; remove it, or give another name"
        raise FileExistsError(errno.EEXIST, said, str(path))


def check_new(path: str | os.PathLike[str], name: str, overwrite: bool) -> None:
    """Raise ``ValueError`` if the file exists and ``overwrite`` is false."""
    if Path(path).is_file() and not overwrite:
        raise ValueError(f"{name} is {str(path)!r}, which already exists; give another file, or overwrite=True")


@contextmanager
def naming(path: Path, *errors: type[Exception]) -> Iterator[None]:
    """Raise the block's ``errors``, and an ``OSError`` of no file or a temporary one, as ``OSError`` of ``path``."""
    try:
        yield
    except OSError as error:
        named = None if error.filename is None else Path(os.fsdecode(error.filename))
        if named is not None and not named.name.startswith(f".{path.name}.") and named not in path.parents:
            raise
        raise _of_path(error, path) from None
    except errors as error:
        raise _of_path(error, path) from None


def _of_path(error: BaseException, path: Path) -> OSError:
    if not isinstance(error, OSError) and isinstance(error.__context__, OSError):
        error = error.__context__  # the cause of the library's error
    number = getattr(error, "errno", None) or errno.EIO
    said = getattr(error, "strerror", None) or f"could not be written; is the disk full? ({one_line(error)[:200]})"
    return OSError(number, said, str(path))


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, and wait until their names are on the disk."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def sync(path: Path) -> None:
    """Wait until the content of a file, or the names of a folder's files, are on the disk.

    Folders on Windows and on some network file systems are skipped, because they offer no such wait.
    """
    with syncing(path):
        pass


@contextmanager
def syncing(path: Path) -> Iterator[None]:
    """``sync`` at the end of the block; what can be missing for it, such as a file handle, is asked for before."""
    folder = path.is_dir()
    if folder and os.name != "posix":
        yield
        return
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        yield
        try:
            os.fsync(handle)
        except OSError as error:
            if not folder or error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
    finally:
        os.close(handle)


def give_usual_rights(path: Path) -> None:
    """Give a temporary file, which only its owner can read, the access rights of any new file."""
    path.chmod(0o666 & ~_umask())


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path``; after an error the old file is unchanged."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write ``value`` as JSON to ``path``; after an error the old file is unchanged."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def write_csv(path: str | os.PathLike[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write rows to ``path``, column names first; after an error the old file is unchanged.

    A text that a spreadsheet would run as a formula gets an apostrophe in front.
    """
    with (
        replacing(path) as temporary,
        temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="") as opened,
    ):
        csv.writer(opened, lineterminator="\n").writerows(map(_cell, row) for row in rows)


def _cell(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        return json.dumps(value)
    if not isinstance(value, str):
        return value
    text = f"'{value}" if _FORMULA.match(value) else value
    return re.sub("\r\n?", "\n", text)  # Python's writer may leave a carriage return without quotes


class LockedError(ValueError):
    """Another process holds a lock for too long."""


@contextmanager
def exclusive(folder: str | os.PathLike[str], name: str, busy: str, patience: float | None) -> Iterator[FileLock]:
    """Hold the lock file ``name`` of a folder, so that one process at a time is in the block.

    The operating system releases the lock of a process that is killed.

    Args:
        folder: the folder, which must exist.
        name: name of the lock file.
        busy: message if another process holds the lock.
        patience: seconds to wait for the other process. If None, print ``busy`` on standard error and wait without
            limit.

    Raises:
        LockedError: with ``busy``, if the other process still holds the lock after ``patience`` seconds.
    """
    from filelock import FileLock, Timeout

    lock = FileLock(Path(folder) / name)
    try:
        lock.acquire(timeout=patience or 0)
    except Timeout:
        if patience is not None:
            raise LockedError(busy) from None
        print(busy, file=sys.stderr)
        lock.acquire()
    try:
        yield lock
    finally:
        lock.release()


@cache
def _umask() -> int:
    """Return the process's umask; it is read once, because reading it means setting it for all threads."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
