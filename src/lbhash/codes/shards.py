"""Folders of codes: the rows of a large collection in shards, one file each, and a manifest that describes them.

Name and rows of a shard follow from the number of rows alone, so that every run writes the same files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lbhash.utils.files import write_json
from lbhash.utils.validation import check_int

MANIFEST = "_codes.json"
"""Readers of Parquet folders pass over names that begin like this, so that any of them reads such a folder too."""
FORMAT = "lbhash codes"
VERSION = 1
SHARD_ROWS = 65_536
"""Rows of a shard, unless a run asks for another number."""


@dataclass(frozen=True)
class Shard:
    """The rows ``start`` to ``stop`` (exclusive) of those that are encoded, in file ``number`` of ``count``, from 0."""

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
    """Cut rows into shards of ``shard_rows`` each; the last one may be shorter."""
    rows, shard_rows = check_int(rows, "rows", 1), check_int(shard_rows, "shard_rows", 1)
    count = -(-rows // shard_rows)
    return [Shard(number, count, number * shard_rows, min((number + 1) * shard_rows, rows)) for number in range(count)]


def read_manifest(folder: Path, name: str = "codes") -> dict[str, Any]:
    """Read the description of a folder of codes; raise ``ValueError`` if it is missing, damaged, foreign or newer.

    ``name`` is the name of the argument, for messages.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        known, version = manifest["format"] == FORMAT, int(manifest["version"])
        if known and version <= VERSION:
            shards_of(manifest["rows"], manifest["shard_rows"])
    except FileNotFoundError:
        what = (
            f"which is a folder without {MANIFEST}; it must be a file of codes, or a folder that 'lbhash encode' wrote"
        )
        raise ValueError(f"{name} is {str(folder)!r}, {what}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        known, version = False, 0
    if known and version > VERSION:
        what = f"which a newer lbhash wrote (format {version}; this one reads {VERSION})"
        raise ValueError(f"{name} is {str(folder)!r}, {what}")
    if not known:
        raise ValueError(f"{name} is {str(folder)!r}, whose {MANIFEST} is damaged or not of a folder of codes")
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest of a folder, whole or not at all."""
    write_json(folder / MANIFEST, {"format": FORMAT, "version": VERSION, **manifest})


def complete_shards(folder: Path, name: str = "codes") -> tuple[dict[str, Any], Sequence[Shard]]:
    """Return the manifest and the shards of a folder; raise ``ValueError`` if it is not complete."""
    manifest = read_manifest(folder, name)
    shards = shards_of(manifest["rows"], manifest["shard_rows"])
    absent = [shard.name for shard in shards if not (folder / shard.name).is_file()]
    there = f"{len(shards) - len(absent):,} of its {len(shards):,} shards are there"
    if "complete" not in manifest:
        what = f"which is not complete ({there}); run its 'lbhash encode' again, which goes on where it stopped"
        raise ValueError(f"{name} is {str(folder)!r}, {what}")
    if absent:
        raise ValueError(f"{name} is {str(folder)!r}, which lacks {absent[0]} ({there}); run its 'lbhash encode' again")
    return manifest, shards
