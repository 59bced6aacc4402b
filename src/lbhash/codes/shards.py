"""Folders of codes: the rows of a large collection in shards, a file each, and a manifest that describes them.

A shard's name and rows follow from the number of rows alone: whoever encodes a shard writes the same file.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lbhash.utils.checksums import checked, with_checksum
from lbhash.utils.files import write_json
from lbhash.utils.serialization import read_versioned
from lbhash.utils.validation import check_int

MANIFEST = "_codes.json"
"""Readers of Parquet folders ignore names that begin with an underscore, so that they can read such a folder too."""
FORMAT = "lbhash codes"
VERSION = 1
SHARD_ROWS = 65_536
"""The number of rows of a shard by default."""


@dataclass(frozen=True)
class Shard:
    """The encoded rows from ``start`` to ``stop - 1``, which go into one file: ``number`` (from 0) of ``count``."""

    number: int
    count: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def name(self) -> str:
        """The name of the shard's file."""
        return f"part-{self.number:05}-of-{self.count:05}.parquet"


def shards_of(rows: int, shard_rows: int) -> list[Shard]:
    """Cut rows into shards of ``shard_rows`` each, of which the last may be shorter."""
    count = -(-check_int(rows, "rows", 1) // check_int(shard_rows, "shard_rows", 1))
    return [Shard(number, count, number * shard_rows, min((number + 1) * shard_rows, rows)) for number in range(count)]


def read_manifest(folder: Path, name: str = "codes") -> dict[str, Any]:
    """Return a folder's manifest; ``ValueError`` if it is missing, damaged, foreign or of another format."""
    source = f"{name} is {str(folder)!r}"
    try:
        content = (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        wanted = "a file of codes, or a folder that 'lbhash encode' wrote"
        raise ValueError(f"{source}, which is a folder without {MANIFEST}; it must be {wanted}") from None
    manifest = read_versioned(content, FORMAT, VERSION, source, "encode again (--overwrite)")
    with suppress(ValueError):
        return checked(manifest)
    raise ValueError(f"{source}, whose {MANIFEST} is damaged or not of a folder of codes; encode into another folder")


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest of a folder, whole or not at all."""
    write_json(folder / MANIFEST, with_checksum({"format": FORMAT, "version": VERSION, **manifest}))


def complete_shards(folder: Path, name: str = "codes") -> tuple[dict[str, Any], list[Shard]]:
    """Return the manifest and the shards of a folder; ``ValueError`` if it is not complete, or a shard is missing."""
    manifest = read_manifest(folder, name)
    shards = shards_of(manifest["rows"], manifest["shard_rows"])
    absent = [shard.name for shard in shards if not (folder / shard.name).is_file()]
    there = f"({len(shards) - len(absent):,} of its {len(shards):,} shards are there); run its 'lbhash encode' again"
    if "complete" not in manifest:
        raise ValueError(f"{name} is {str(folder)!r}, which is not complete {there}, which goes on where it stopped")
    if absent:
        raise ValueError(f"{name} is {str(folder)!r}, which lacks {absent[0]} {there}")
    return manifest, shards
