"""What is at a path that a user gave: a file, a folder, or something else, which is refused in one line."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

from lbhash.utils.formatting import one_line, shown
from lbhash.utils.memory import check_memory


def check_path(path: Any, name: str) -> Path:
    """Return a path; raises ``TypeError`` if it is something else.

    >>> check_path(5, "model")
    Traceback (most recent call last):
    TypeError: model is 5; it must be a path, a text or a pathlib.Path
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} is {shown(path)}; it must be a path, a text or a pathlib.Path")
    return Path(path)


def existing_file(path: str | os.PathLike[str], name: str) -> Path:
    """Return ``path``; raises ``ValueError`` if there is no such file."""
    found, said = check_path(path, name), f"{name} is {str(path)!r}"
    if str(path) == "-":
        raise ValueError(f"{name} is '-'; standard input is not read, give a file")
    what = no_file(found)
    if what == "nothing":
        raise ValueError(f"{said}, and there is no such file")
    if what:
        raise ValueError(f"{said}, which is {what}; it must be a file")
    return found


def no_file(path: str | os.PathLike[str]) -> str:
    """Return what is at a path if not a file, such as "nothing", or "a pipe", which may never end; "" for a file."""
    try:
        return kind_of(os.stat(path).st_mode)
    except (OSError, ValueError) as error:  # ValueError: the path has a zero byte
        if getattr(error, "errno", errno.ENOENT) not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return "a link that leads nowhere" if os.path.islink(path) else "nothing"


def kind_of(mode: int) -> str:
    """Return a word for a thing with this mode; "" for a file."""
    kinds = {
        stat.S_ISDIR: "a folder",
        stat.S_ISLNK: "a symbolic link",
        stat.S_ISFIFO: "a pipe",
        stat.S_ISSOCK: "a socket",
    }
    return next((what for tells, what in kinds.items() if tells(mode)), "" if stat.S_ISREG(mode) else "a device")


def folder_with(path: str | os.PathLike[str], name: str, what: str, *files: str) -> Path:
    """Return the path of a folder that has ``files``; otherwise ``ValueError`` says ``what`` it must be."""
    folder, said = check_path(path, name), f"{name} is {str(path)!r}"
    if not folder.is_dir():
        there = "which is a file" if folder.exists() else "and there is no such folder"
        raise ValueError(f"{said}, {there}; it must be {what}")
    for file in files:
        if not (folder / file).is_file():
            raise ValueError(f"{said}, which has no {file}; it must be {what}")
    return folder


def check_folder(path: str | os.PathLike[str], name: str, more: str = "") -> None:
    """Raise ``ValueError`` if the path of a folder, or one of its parents, is a file or a link to nothing."""
    folder = check_path(path, name)
    there = next((place for place in (folder, *folder.parents) if os.path.lexists(place)), folder)
    if os.path.lexists(there) and not there.is_dir():
        which = "which" if there == folder else f"and {str(there)!r}"
        what = "a file" if there.exists() else "a link to nothing"
        raise ValueError(f"{name} is {str(path)!r}, {which} is {what}; it must be a folder{more}")


def cache_folder() -> Path:
    """Return the folder of cached files: ``$LBHASH_CACHE``, or the user's cache folder on this platform."""
    chosen = os.environ.get("LBHASH_CACHE")
    if chosen:
        return Path(os.path.expanduser(chosen))  # unlike Path's own, it takes the name of an unknown user
    import platformdirs

    return Path(platformdirs.user_cache_dir("lbhash", appauthor=False))


class Unchanged:
    """A block in which a file must not change: neither its size nor its time of change.

    Args:
        file: the file as it is now; the block may begin later.
        said: what the file is, for the ``ValueError`` of a change, which replaces any other error of the block.
    """

    def __init__(self, file: Path, said: str) -> None:
        self._file, self._said = file, said
        self._before = self._now()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if (kind is None or issubclass(kind, Exception)) and self._now() != self._before:
            raise ValueError(f"{self._said}, which changed while it was read; try again when it is complete") from None

    def _now(self) -> tuple[int, int] | None:
        try:
            facts = self._file.stat()
        except OSError:
            return None
        return facts.st_size, facts.st_mtime_ns


def read_npy(path: str | os.PathLike[str], name: str) -> Any:
    """Return the array of an ``.npy`` file; ``ValueError`` if it is missing, damaged, too large or a pickle."""
    import numpy as np

    file = existing_file(path, name)
    said = f"{name} is {str(path)!r}, which"
    check_memory(file.stat().st_size, said)
    try:
        with file.open("rb") as opened:
            return np.lib.format.read_array(opened, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError) as error:
        if "Object arrays" in str(error):
            raise ValueError(
                f"{said} holds Python objects, which are never loaded; save an array of numbers, or array.astype(str)"
            ) from None
        raise ValueError(f"{said} is damaged or not a .npy file: {one_line(error)}") from None
