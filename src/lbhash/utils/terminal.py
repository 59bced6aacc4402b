"""Terminal output: control characters in names and labels are shown, and not obeyed."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from rich import console

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_BAR = re.compile(r"\r?\n*(?:\x1b\[A)*")  # how tqdm, the progress bar of other libraries, begins a line


def printable(text: str) -> str:
    r"""Return a text with its control characters escaped, except tabs and line breaks.

    >>> printable("\x1b[31mred")
    '\\x1b[31mred'
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class Console(console.Console):
    """A console that prints texts as they are, such as a label "[news]", or ":smile:"."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **how: Any) -> Any:
        """Return a text as rich styles it."""
        return super().render_str(printable(text), **how)


class _Stream:
    """A text stream that writes printable characters only; rich consoles, which write colors, bypass it."""

    def __init__(self, stream: Any) -> None:
        self._stream = self.rich_proxied_file = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text."""
        bar = _BAR.match(text)
        start = bar.end() if bar else 0
        self._stream.write(text[:start] + printable(text[start:]))
        return len(text)


def guard_streams() -> None:
    """Escape control characters on standard output and standard error, except those that this program writes itself.

    Characters that the encoding lacks are escaped, too. What is printed to a closed stream is lost.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, _Stream):
            continue
        if stream is None:  # it was closed before Python began
            stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
        setattr(sys, name, _Stream(stream))
