"""Turn any error of a library that reads a file into one line that names the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lbhash.utils.formatting import one_line
from lbhash.utils.memory import shortage
from lbhash.utils.table_files import is_frame, suffix_of


@contextmanager
def reading(name: str, path: Any, *, foreign: bool = False, what: str = "") -> Iterator[None]:
    """Raise any error of the block as a ``ValueError`` or ``TypeError`` of one line that names the file.

    Memory errors (``lbhash.utils.memory.shortage``) pass unchanged, except from a foreign block: its file may state
    wrong sizes.

    Args:
        name: name of the argument that gave the file.
        path: path of the file; or a frame, which has no path.
        foreign: the block has none of our checks, so a ``ValueError`` comes from a library, too.
        what: the part of the file that is read, if not all of it.
    """
    said = f"{name} is a frame" if is_frame(path) else f"{name} is {str(path)!r}"
    try:
        yield
    except Exception as error:
        line = one_line(error)
        ours = type(error) in (ValueError, TypeError)
        if (shortage(error) and not foreign) or (ours and said in line):
            raise
        if foreign and ("Object arrays" in line or "Python objects" in line):
            holds = f"{what or name} holds Python objects, which are never loaded"
            raise TypeError(
                f"{holds}; it must hold numbers (or labels strings): save numpy.stack(list(array)) or array.astype(str)"
            ) from None
        if ours and not foreign:
            raise type(error)(f"{line} ({said})") from None
        form = "of another form" if is_frame(path) else f"no {suffix_of(path) or 'table'} file"
        raise ValueError(f"{said}, which is damaged or {form}: {line}") from None
