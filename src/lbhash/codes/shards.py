"""Folders of codes: the rows of a large collection in shards, a file each, and a manifest of what they are codes of.

A shard's name and rows follow from the number of rows alone, so that whoever encodes a shard, and however often, writes
the same file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lbhash.utils.files import write_json

MANIFEST = "_codes.json"
"""The name begins as those that readers of Parquet folders pass over, so that any of them reads such a folder too."""
FORMAT = "lbhash codes"
VERSION = 1
SHARD_ROWS = 65_536
"""Rows of a shard where nobody says how many."""


@dataclass(frozen=True)
class Shard:
    """Rows that go into one file.

    Attributes:
        number: of the shard, from 0.
        count: of all shards.
        start: its first row, counted among the rows that are encoded.
        stop: the row after its last.
    """

    number: int
    count: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def name(self) -> str:
        """Of its file."""
        return f"part-{self.number:05}-of-{self.count:05}.parquet"


def shards_of(rows: int, shard_rows: int) -> list[Shard]:
    """Cut rows into shards of ``shard_rows`` each, of which the last may be shorter."""
    if rows < 1:
        raise ValueError(f"rows is {rows}; it must be at least 1")
    if shard_rows < 1:
        raise ValueError(f"shard_rows is {shard_rows}; it must be at least 1")
    count = -(-rows // shard_rows)
    return [Shard(number, count, number * shard_rows, min((number + 1) * shard_rows, rows)) for number in range(count)]


def shards_in(manifest: dict[str, Any]) -> list[Shard]:
    """The shards of a folder, whether or not they are there yet."""
    return shards_of(manifest["rows"], manifest["shard_rows"])


def read_manifest(folder: Path, name: str = "codes") -> dict[str, Any]:
    """What a folder holds codes of.

    Args:
        folder: the folder.
        name: of the argument, for messages.

    Raises:
        ValueError: it has no manifest, or one that is damaged, foreign or of a newer format.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        known, version = manifest["format"] == FORMAT, int(manifest["version"])
        if known and version <= VERSION:
            shards_in(manifest)
    except FileNotFoundError:
        raise ValueError(
            f"{name} is {str(folder)!r}, which is a folder without {MANIFEST}; it must be a file of codes, or a folder "
            "that 'lbhash encode' wrote"
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError):
        known, version = False, 0
    if known and version > VERSION:
        raise ValueError(
            f"{name} is {str(folder)!r}, which a newer lbhash wrote (format {version}; this one reads {VERSION})"
        )
    if not known:
        raise ValueError(f"{name} is {str(folder)!r}, whose {MANIFEST} is damaged or not of a folder of codes")
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest of a folder, whole or not at all."""
    write_json(folder / MANIFEST, {"format": FORMAT, "version": VERSION, **manifest})


def complete_shards(folder: Path, name: str = "codes") -> tuple[dict[str, Any], Sequence[Shard]]:
    """The manifest and the shards of a folder that is complete.

    Raises:
        ValueError: as ``read_manifest``; or the folder is not complete, or a shard is missing.
    """
    manifest = read_manifest(folder, name)
    shards = shards_in(manifest)
    absent = [shard.name for shard in shards if not (folder / shard.name).is_file()]
    there = f"{len(shards) - len(absent):,} of its {len(shards):,} shards are there"
    if "complete" not in manifest:
        raise ValueError(
            f"{name} is {str(folder)!r}, which is not complete ({there}); run its 'lbhash encode' again, which goes on "
            "where it stopped"
        )
    if absent:
        raise ValueError(f"{name} is {str(folder)!r}, which lacks {absent[0]} ({there}); run its 'lbhash encode' again")
    return manifest, shards
