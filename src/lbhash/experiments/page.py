"""A page of the docs of which a command writes a part, between two comments."""

from __future__ import annotations

from pathlib import Path

from lbhash.files import existing_file, write_text


def check_part(file: Path, part: str) -> None:
    """Raise ``ValueError`` with a line about ``out`` where the page is missing or has not the part's comments once."""
    page = existing_file(file, "out").read_text(encoding="utf-8")
    begin, end = _comments(part)
    if page.count(begin) != 1 or page.count(end) != 1:
        raise ValueError(f"out is {str(file)!r}; it must hold {begin} and {end} once")


def replace_part(file: Path, part: str, text: str) -> None:
    """Put ``text`` between the part's comments."""
    check_part(file, part)
    page = file.read_text(encoding="utf-8")
    begin, end = _comments(part)
    write_text(file, f"{page[: page.index(begin)]}{begin}\n{text}\n{page[page.index(end) :]}")


def _comments(part: str) -> tuple[str, str]:
    return f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
