"""A data set as it is typed: NAME=FILE, or NAME@R=FILE where the mAP looks at the first R of a ranking."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from lbhash.utils.files import existing_file


class Data(NamedTuple):
    """A data set of a table."""

    name: str
    file: str
    at: int | None  # R; None for the whole base

    @classmethod
    def of(cls, text: str) -> Data:
        """Return the data set that ``NAME=FILE`` or ``NAME@R=FILE`` names; FILE may be "digits"."""
        name, _, file = text.partition("=")
        name, several, rank = name.partition("@")
        if not name or not file or "/" in name:
            raise ValueError(f"data is {text!r}; it must be NAME=FILE or NAME@R=FILE")
        if several and not (rank.isdecimal() and int(rank) > 0):
            raise ValueError(f"data is {text!r}; its R must be an integer of at least 1")
        if file != "digits":
            existing_file(file, "data")
        return cls(name, file, int(rank) if several else None)

    def __str__(self) -> str:
        """Return the name, and R behind an @ if there is one."""
        return self.name if self.at is None else f"{self.name}@{self.at}"


def parsed(parser: argparse.ArgumentParser, given: Sequence[str]) -> list[Data]:
    """Return the data sets that were typed; one that is none ends the program with a line that says why."""
    try:
        return [Data.of(text) for text in given]
    except ValueError as error:
        parser.error(str(error))
