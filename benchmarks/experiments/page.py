"""Pages of the docs: their tables, the part between two comments that a command writes, and CSV files beside them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lbhash.utils.files import existing_file, replacing, write_text


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


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> str:
    """Lines of Markdown; the column ``left`` holds words, the others numbers."""
    marks = [":--" if at == left else "--:" for at in range(len(columns))]
    return "\n".join([_line(columns), f"|{'|'.join(marks)}|", *map(_line, rows)])


def read_csv(file: Path) -> list[dict[str, str]]:
    """Lines of a CSV file by column; none where there is no file."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def write_csv(file: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write lines, of which there is one at least, as CSV."""
    with replacing(file) as temporary, temporary.open("w", newline="", encoding="utf-8") as text:
        writer = csv.DictWriter(text, lines[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _comments(part: str) -> tuple[str, str]:
    return f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
