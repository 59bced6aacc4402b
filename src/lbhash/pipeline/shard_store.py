"""Stores of shards on disk: every file is written whole, and a run after a killed one finds what is done.

What is done is said by the files themselves. A file that is written last says that the whole is complete.
"""

from __future__ import annotations

import csv
import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from lbhash.codes.io import CodeTable, read_facts, write_codes
from lbhash.codes.shards import MANIFEST, SHARD_ROWS, Shard, read_manifest, shards_of, write_manifest
from lbhash.data.images.loading import Damage
from lbhash.utils.checksums import add_checksum, check_file, checked, with_checksum
from lbhash.utils.files import check_folder, exclusive, make_folder, replacing, write_json
from lbhash.utils.fingerprint import fingerprint

T = TypeVar("T")

DAMAGED = "_damaged.csv"
"""The file of a folder of codes that names the rows without a code."""

_SHARDS = "part-*-of-*.parquet"
_LOCK = ".lock"
_UNFINISHED = (".part-", f".{MANIFEST}.", f".{DAMAGED}.")
"""How the names of files begin that a killed run left behind."""

_COMPARED = {
    "model": "the model",
    "bits": "the number of bits",
    "backbone": "the backbone",
    "precision": "the precision of the backbone",
    "data": "the data",
    "split": "the split",
    "rows": "the number of rows",
    "carry": "the extra columns",
    "fingerprint": "the fingerprint of the data",
    "sample": "a sample of the data's bytes",
    "content": "the fingerprint of rows and labels",
}
"""What a manifest says of a folder's codes, in the order in which it is compared with a run."""


class ShardStore(ABC, Generic[T]):
    """A folder of shards."""

    folder: Path

    @abstractmethod
    def find(self, shard: Shard) -> T | None:
        """Return what is stored of a shard; None if it is missing, damaged or of other data."""

    def missing(self, shards: Sequence[Shard]) -> list[Shard]:
        """Return the shards that are not stored yet."""
        return [shard for shard in shards if self.find(shard) is None]

    def stored(self, shards: Sequence[Shard]) -> Iterator[T]:
        """Return what is stored of each shard; raise ``ValueError`` if one is missing."""
        for shard in shards:
            found = self.find(shard)
            if found is None:
                what = f"shard {shard.number} of {shard.count} in {str(self.folder)!r}"
                raise ValueError(f"{what} is missing or damaged; run the same command again")
            yield found


class StoredCodes(NamedTuple):
    """The number of codes in the file of a shard, and the rows without one."""

    codes: int
    damaged: tuple[Damage, ...]


class CodeShards(ShardStore[StoredCodes]):
    """A folder of codes (``lbhash.codes.shards``). Runs with the same metadata write the same files."""

    def __init__(self, folder: Path, metadata: Mapping[str, Any]) -> None:
        self.folder, self.metadata, self.fingerprint = folder, metadata, fingerprint(metadata)

    def find(self, shard: Shard) -> StoredCodes | None:
        """Return what the shard's file says of itself, if its checksum is right."""
        try:
            facts = read_facts(self.folder / shard.name)
            stored = StoredCodes(facts["count"], tuple(Damage(*damage) for damage in facts["damaged"]))
            source = (facts["mark"], facts["start"], facts["stop"])
        except (ValueError, KeyError, TypeError):
            return None
        whole = stored.codes + len(stored.damaged) == len(shard)
        return stored if whole and source == (self.fingerprint, shard.start, shard.stop) else None

    def write(self, shard: Shard, table: CodeTable, damaged: Sequence[Damage]) -> None:
        """Write the file of a shard, with its damaged rows in the metadata."""
        facts = {"mark": self.fingerprint, "start": shard.start, "stop": shard.stop}
        write_codes(self.folder / shard.name, table, {**facts, "damaged": [list(damage) for damage in damaged]})

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Make the folder and lock it against other runs.

        If the run fails before its first shard, nothing is left behind, nor a folder that was not there before.
        """
        new = not self.folder.exists()
        make_folder(self.folder)
        busy = f"out is {str(self.folder)!r}, which another run writes to; wait for it, or end it"
        with exclusive(self.folder, _LOCK, busy, 0):
            empty = not (self.folder / MANIFEST).exists()
            try:
                yield
            except Exception:
                if empty and not any(self.folder.glob(_SHARDS)):
                    self._remove_unfinished(MANIFEST, _LOCK)
                    if new:
                        with suppress(OSError):
                            self.folder.rmdir()
                raise

    def begin(self, shard_rows: int | None, overwrite: bool) -> list[Shard]:
        """Check that the folder is this run's, or overwrite it; write its manifest, and return its shards."""
        self._remove_unfinished()
        rows = self.metadata["rows"]
        if (self.folder / MANIFEST).exists() and not overwrite:
            manifest, said = read_manifest(self.folder, "out"), f"out is {str(self.folder)!r}"
            for name, noun in _COMPARED.items():
                theirs, ours = manifest.get(name), self.metadata.get(name)
                if theirs != ours:
                    what = f"differ from this run's in {noun} ({_shown(theirs)} there, {_shown(ours)} here)"
                    raise ValueError(f"{said}, whose codes {what}; give another folder, or --overwrite")
            if shard_rows not in (None, manifest["shard_rows"]):
                what = f"whose shards have {manifest['shard_rows']}; leave it out, or --overwrite"
                raise ValueError(f"shard_rows is {shard_rows} and {said}, {what}")
            return shards_of(rows, manifest["shard_rows"])
        shard_rows = SHARD_ROWS if shard_rows is None else shard_rows
        shards = shards_of(rows, shard_rows)  # refuses a bad number while the old shards are there
        # The manifest is removed last, because shards without one do not count.
        for file in (*self.folder.glob(_SHARDS), self.folder / DAMAGED, self.folder / MANIFEST):
            file.unlink(missing_ok=True)
        write_manifest(self.folder, {**self.metadata, "shard_rows": shard_rows})
        return shards

    def finish(self, shards: Sequence[Shard]) -> tuple[int, int]:
        """Check every shard, name the damaged rows in a file, and say in the manifest that the folder is complete.

        Return the numbers of codes and of damaged rows.
        """
        stored = list(self.stored(shards))
        codes, damaged = sum(shard.codes for shard in stored), [damage for shard in stored for damage in shard.damaged]
        if not codes:
            raise ValueError(f"no image could be read: {damaged[0].fault}")
        if damaged:
            with replacing(self.folder / DAMAGED) as temporary, temporary.open("w", encoding="utf-8", newline="") as to:
                csv.writer(to).writerows([Damage._fields, *damaged])
        manifest = read_manifest(self.folder, "out")
        write_manifest(self.folder, {**manifest, "complete": {"codes": codes, "damaged": len(damaged)}})
        return codes, len(damaged)

    def _remove_unfinished(self, *more: str) -> None:
        for file in self.folder.iterdir():
            if file.name in more or file.name.startswith(_UNFINISHED):
                with suppress(OSError):  # some systems do not remove the file of a lock in use
                    file.unlink()


def check_code_folder(folder: Path) -> None:
    """Raise ``ValueError`` if a folder cannot become a folder of codes, before a model is loaded."""
    check_folder(folder, "out", ", or end in .parquet or .npz")
    if not folder.exists() or (folder / MANIFEST).exists():
        return
    others = [file.name for file in folder.iterdir() if file.name != _LOCK and not file.name.startswith(_UNFINISHED)]
    if others:
        raise ValueError(f"out is {str(folder)!r}, a folder that holds {min(others)!r} and no codes; give another one")


def _shown(value: Any) -> str:
    return ", ".join(map(str, value if isinstance(value, list) else [value])) if value else "none"


StoredEmbeddings = tuple[npt.NDArray[np.float32], dict[int, str]]
"""Embeddings, memory-mapped, and the faults of the rows that have none."""


class EmbeddingShards(ShardStore[StoredEmbeddings]):
    """Embeddings ``[rows, dim]`` of a table of images: in shards while they are computed, and then in one file."""

    def __init__(self, folder: Path, rows: int, dim: int) -> None:
        self.folder, self._rows, self._dim = folder, rows, dim

    def find(self, shard: Shard | None) -> StoredEmbeddings | None:
        """Return the embeddings of a shard, or if it is None, all of them."""
        array, faults = self._files(shard)
        try:
            known = checked(json.loads(faults.read_text(encoding="utf-8")))
            check_file(array, own=True)
            found = np.lib.format.open_memmap(array, mode="r")
            rows = self._rows if shard is None else len(shard)
            whole = found.shape == (rows, self._dim) and found.dtype == np.float32
            return (found, {int(row): str(fault) for row, fault in known.items()}) if whole else None
        except (OSError, ValueError, EOFError, AttributeError, RecursionError):
            return None

    def write(self, shard: Shard, embeddings: npt.NDArray[np.float32], faults: Mapping[int, str]) -> None:
        """Write the embeddings of a shard, and then the faults of its rows."""
        array, last = self._files(shard)
        with replacing(array) as temporary:
            with temporary.open("wb") as opened:
                np.save(opened, embeddings)
            add_checksum(temporary)
        write_json(last, with_checksum(faults))

    def finish(self, shards: Sequence[Shard]) -> None:
        """Put all shards into one file."""
        array, last = self._files(None)
        faults: dict[int, str] = {}
        with replacing(array) as temporary:
            whole = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float32, shape=(self._rows, self._dim))
            for shard, (embeddings, some) in zip(shards, self.stored(shards), strict=True):
                whole[shard.start : shard.stop] = embeddings
                faults |= some
            whole.flush()
            del whole
            add_checksum(temporary)
        write_json(last, with_checksum(faults))  # comes last: embeddings without it do not count
        shutil.rmtree(self.folder / "chunks", ignore_errors=True)

    def _files(self, shard: Shard | None) -> tuple[Path, Path]:
        """Return the files of embeddings and faults, of a shard or of all rows."""
        if shard is None:
            return self.folder / "embeddings.npy", self.folder / "damaged.json"
        chunk = self.folder / "chunks" / f"{shard.start:09}"
        return chunk.with_suffix(".npy"), chunk.with_suffix(".json")
