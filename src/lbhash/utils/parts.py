"""Folders of parts: the rows of a large collection in files ``part-00000.parquet`` and so on, beside a manifest.

The manifest identifies the source of the parts. After a killed run, the next run keeps the sound parts and makes the
others. Readers of Parquet folders skip names that begin with an underscore, so they read such a folder as one table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from lbhash.utils.checksums import checked, with_checksum
from lbhash.utils.files import exclusive, make_folder, write_csv, write_json
from lbhash.utils.fingerprint import fingerprint
from lbhash.utils.memory import check_parquet
from lbhash.utils.parquet import read_parquet, write_parquet
from lbhash.utils.serialization import read_versioned

MANIFEST = "_manifest.json"
DAMAGED = "_damaged.csv"
"""The file that names the rows that could not be read."""
PART_ROWS = {"rows": 65_536, "images": 4_096, "texts": 4_096}
"""Rows of a part, by their unit. A killed run loses no more than that."""

_FORMAT, _VERSION = "lbhash parts", 2
_LOCK = ".lock"
_KEY = b"lbhash part"  # in the metadata of a part's file
_AGAIN = "run its 'lbhash encode' again with --overwrite"
_UNFINISHED = (".part-", f".{MANIFEST}.", f".{DAMAGED}.")  # files that a killed run left behind


class Damage(NamedTuple):
    """A damaged or missing row: its name for messages, and its fault."""

    row: int
    where: str
    fault: str


class Parts:
    """A folder of parts.

    ``facts`` are plain values that identify the source: ``rows`` is the number of all rows, ``part_rows`` of those in a
    part. Runs with the same facts write the same files.
    """

    def __init__(self, folder: Path, facts: Mapping[str, Any]) -> None:
        self.folder, self.facts = folder, dict(facts)
        rows, size = facts["rows"], facts["part_rows"]
        self.ranges = [range(start, min(start + size, rows)) for start in range(0, rows, size)]

    def file(self, part: range) -> Path:
        """Return the file of a part."""
        return self.folder / f"part-{part.start // self.facts['part_rows']:05}.parquet"

    def write(self, part: range, table: pa.Table, damaged: Sequence[Damage]) -> None:
        """Write a part; its damaged rows are not in the table."""
        facts = {"mark": fingerprint(self.facts, str(part)), "damaged": damaged}
        metadata = {**(table.schema.metadata or {}), _KEY: json.dumps(facts)}
        write_parquet(self.file(part), table.replace_schema_metadata(metadata))

    def find(self, part: range) -> tuple[pa.Table, list[Damage]] | None:
        """Return the table of a part and its damaged rows; None if it is missing, damaged or from another source."""
        file = self.file(part)
        with suppress(pa.ArrowException, OSError):  # a damaged file is found below
            check_parquet(file, str(file))
        with suppress(pa.ArrowException, OSError, ValueError, KeyError, TypeError):
            table = read_parquet(file)
            facts = json.loads(table.schema.metadata[_KEY])
            damaged = [Damage(*damage) for damage in facts["damaged"]]
            if facts["mark"] == fingerprint(self.facts, str(part)) and len(table) + len(damaged) == len(part):
                return table, damaged
        return None

    def read(self, name: str) -> Iterator[tuple[pa.Table, list[Damage]]]:
        """Yield the result of ``find`` for each part, in order.

        Raises ``ValueError``, which calls the folder ``name``, if a part is missing, damaged or from another source.
        """
        said, again = f"{name} is {str(self.folder)!r}", "run its 'lbhash encode' again"
        there = sum(self.file(part).is_file() for part in self.ranges)
        if there < len(self.ranges):
            what = f"which is not complete ({there:,} of its {len(self.ranges):,} parts are there)"
            raise ValueError(f"{said}, {what}; {again}, which continues where it stopped")
        for part in self.ranges:
            found = self.find(part)
            if found is None:
                what = f"whose {self.file(part).name} is damaged or of other rows"
                raise ValueError(f"{said}, {what}; {again}, which replaces it")
            yield found

    @contextmanager
    def locked(self, busy: str) -> Iterator[None]:
        """Make the folder and lock it against other runs; ``ValueError`` with ``busy`` if another run holds it."""
        make_folder(self.folder)
        with exclusive(self.folder, _LOCK, busy, 0):
            yield

    def begin(self, name: str, overwrite: bool) -> list[range]:
        """Check the folder and return its missing parts: all parts with ``overwrite``, which removes the old ones.

        Raises ``ValueError``, which calls the folder ``name``, if it holds files but no manifest, or parts with other
        facts.
        """
        self._tidy()
        said = f"{name} is {str(self.folder)!r}"
        others = [file.name for file in self.folder.iterdir() if file.name != _LOCK]
        if others and MANIFEST not in others:
            raise ValueError(f"{said}, a folder that holds {min(others)!r} and no codes; give another one")
        if overwrite or not any(self.folder.glob("part-*")):
            return self.anew()
        if what := difference(open_parts(self.folder, name).facts, self.facts):
            raise ValueError(
                f"{said}, which was made with other settings ({what}); give another folder, or overwrite=True"
            )
        return [part for part in self.ranges if self.find(part) is None]

    def anew(self) -> list[range]:
        """Remove all parts, write the manifest, and return all parts as missing."""
        for file in (*self.folder.glob("part-*"), self.folder / DAMAGED):
            file.unlink(missing_ok=True)
        write_json(self.folder / MANIFEST, with_checksum({"format": _FORMAT, "version": _VERSION, **self.facts}))
        return self.ranges

    def finish(self, name: str) -> tuple[int, list[Damage]]:
        """Check every part and write the damaged rows to a file; return the number of sound rows, and the damaged."""
        self._tidy()
        rows, damaged = 0, list[Damage]()
        for table, some in self.read(name):
            rows += len(table)
            damaged += some
        if damaged:
            write_csv(self.folder / DAMAGED, [Damage._fields, *damaged])
        return rows, damaged

    def _tidy(self) -> None:
        for file in self.folder.iterdir():
            if file.name.startswith(_UNFINISHED):
                file.unlink()


def open_parts(folder: Path, name: str) -> Parts:
    """Open a folder by its manifest; ``ValueError`` if that is missing, damaged, foreign or of another format."""
    source = f"{name} is {str(folder)!r}"
    try:
        content = (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        wanted = "a file of codes, or a folder that 'lbhash encode' wrote"
        raise ValueError(f"{source}, which is a folder without {MANIFEST}; it must be {wanted}") from None
    manifest = read_versioned(content, _FORMAT, _VERSION, source, _AGAIN)
    try:
        facts = checked(manifest)
    except ValueError:
        raise ValueError(f"{source}, whose {MANIFEST} is damaged; {_AGAIN}") from None
    return Parts(folder, {key: value for key, value in facts.items() if key not in ("format", "version")})


def difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Return the first fact that differs, in words; "" if none does.

    >>> difference({"split": "all", "rows": 5}, {"split": "base", "rows": 3})
    "split: 'all' there, 'base' here"
    """
    for key in {**ours, **theirs}:
        if theirs.get(key) != ours.get(key):
            return f"{key.replace('_', ' ')}: {theirs.get(key)!r} there, {ours.get(key)!r} here"
    return ""
