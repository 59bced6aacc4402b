"""A segment: codes that came together, by rising id, with what belongs to them.

It never changes: removing codes makes another segment over the same files, with more of them marked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes
from lbhash.index import scan
from lbhash.index.attributes import selected
from lbhash.index.base import Neighbors, Where, Within
from lbhash.index.files import Entry, Mapped, write_array, write_new

if TYPE_CHECKING:
    import pyarrow as pa

    from lbhash.index.structure import Structure

NONE = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Segment:
    """Codes, in memory or in mapped files.

    Attributes:
        codes: ``uint8 [n, bytes]``, by rising id, the removed ones too.
        first: the first id.
        names: all ids, ``int64 [n]``; ``None`` where they follow the first one without gaps.
        table: the attributes: a table in memory, a file that is read when it is needed, or ``None``.
        vectors: kept vectors, ``[n, dim]`` of float16 or uint8.
        removed: positions of the removed codes, ``int64``, rising.
        structure: what finds candidates in it, where its kind has one and the segment is large enough.
        entry: what a manifest says of it; empty where it is in memory only.
    """

    codes: PackedCodes
    first: int = 0
    names: npt.NDArray[np.int64] | None = None
    table: pa.Table | Mapped | None = None
    vectors: npt.NDArray | None = None
    removed: npt.NDArray[np.int64] = field(default_factory=lambda: NONE)
    structure: Structure | None = None
    entry: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.codes) - len(self.removed)

    # ------------------------------------------------------------------------------------------------------ its rows

    def ids_at(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Ids of the codes at these positions."""
        return positions + self.first if self.names is None else np.asarray(self.names[positions])

    @cached_property
    def kept(self) -> npt.NDArray[np.int64]:
        """Positions of the codes that are not removed, ``int64 [len]``."""
        mask = np.ones(len(self.codes), bool)
        mask[self.removed] = False
        return np.flatnonzero(mask)

    def ids(self) -> npt.NDArray[np.int64]:
        """Ids of the codes that are not removed, ``int64 [len]``, rising."""
        return self.ids_at(self.kept)

    @cached_property
    def rises(self) -> bool:
        """Whether its ids are in the order in which they are looked up; they are read once."""
        return self.names is None or bool((np.diff(self.names) > 0).all())

    def check_order(self) -> None:
        """Raise ``ValueError`` where an id may be there and not be found."""
        if not self.rises:
            raise ValueError("index is damaged: the ids of a segment do not rise")

    def find(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Positions of the codes with these ids; −1 where it has none, or a removed one."""
        if self.names is None:
            positions = ids - self.first
            found = (positions >= 0) & (positions < len(self.codes))
        else:
            positions = np.minimum(np.searchsorted(self.names, ids), len(self.codes) - 1)
            found = self.names[positions] == ids
        if len(self.removed) and len(ids):
            at = np.minimum(np.searchsorted(self.removed, positions), len(self.removed) - 1)
            found &= self.removed[at] != positions
        return np.where(found, positions, -1)

    def read(self) -> pa.Table:
        """Its attributes, of the removed codes too. The checksum of their file is compared once."""
        if isinstance(self.table, Mapped):
            object.__setattr__(self, "table", _read_table(self.table, len(self.codes)))
        return self.table

    def where(self, where: Where) -> npt.NDArray[np.int64]:
        """Positions of the codes that are not removed and that a filter keeps."""
        mask = np.ones(len(self.codes), bool)
        mask[self.removed] = False
        for name, wanted in where.items():
            mask &= selected(self.read()[name], wanted, name)
        return np.flatnonzero(mask)

    # ---------------------------------------------------------------------------------------------------- its search

    @cached_property
    def _live(self) -> PackedCodes:
        """The codes to scan; where some are removed, a copy without them, made once rather than in every scan."""
        return np.delete(self.codes, self.removed, axis=0) if len(self.removed) else self.codes

    def _positions(self, live: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Positions of codes in ``codes`` from those in ``_live``: one more for each removed code before them."""
        if not len(self.removed):
            return live
        return live + np.searchsorted(self.removed - np.arange(len(self.removed)), live, side="right")

    def nearest(self, queries: PackedCodes, k: int, where: Where | None) -> Neighbors:
        """The k nearest of its codes, fewer where it has fewer. With a filter every kind scans."""
        if where is None and self.structure is not None:
            return self._candidates(queries, k)
        codes, positions = self._scanned(where)
        found = scan.nearest(queries, codes, min(k, len(codes)))
        return Neighbors(found.distances, self.ids_at(positions(found.ids)))

    def within(self, queries: PackedCodes, radius: int, where: Where | None) -> Within:
        """Its codes within a radius."""
        codes, positions = self._scanned(where)
        found = scan.within(queries, codes, radius)
        return Within(found.limits, found.distances, self.ids_at(positions(found.ids)))

    def _scanned(self, where: Where | None) -> tuple[PackedCodes, Callable[[npt.NDArray], npt.NDArray]]:
        """The codes that a filter leaves to scan, and what gives their positions in the segment."""
        if where is None:
            return self._live, self._positions
        kept = self.where(where)
        return self.codes[kept], kept.__getitem__

    def _candidates(self, queries: PackedCodes, k: int) -> Neighbors:
        """The k nearest that the structure finds; a query for which it finds fewer is scanned for.

        A structure does not know what is removed: more are asked for until enough are left.
        """
        assert self.structure is not None
        k = min(k, len(self))
        distances = np.zeros((len(queries), k), np.int32)
        positions = np.zeros((len(queries), k), np.int64)
        pending = np.arange(len(queries))
        asked = k + min(len(self.removed), k)
        while len(pending) and asked <= len(self.codes):
            found = self.structure.search(queries[pending], asked)
            usable = found.ids >= 0
            usable &= ~np.isin(found.ids, self.removed)
            full = found.ids[:, -1] >= 0  # the structure had as many as it was asked for
            enough = usable.sum(axis=1) >= k
            if enough.any():
                far = np.where(usable, found.distances, np.iinfo(np.int32).max)[enough]
                best = scan.ranked(far, found.ids[enough], k)
                distances[pending[enough]], positions[pending[enough]] = best
            again = pending[~enough & full]
            lacking = pending[~enough & ~full]
            self._scan_into(distances, positions, queries, lacking, k)
            pending, asked = again, 2 * asked
        self._scan_into(distances, positions, queries, pending, k)
        return scan.ranked(distances, self.ids_at(positions), k)

    def _scan_into(
        self,
        distances: npt.NDArray[np.int32],
        positions: npt.NDArray[np.int64],
        queries: PackedCodes,
        which: npt.NDArray[np.int64],
        k: int,
    ) -> None:
        if len(which):
            found = scan.nearest(queries[which], self._live, k)
            distances[which], positions[which] = found.distances, self._positions(found.ids)

    # ------------------------------------------------------------------------------------------------- its other forms

    def without(self, positions: npt.NDArray[np.int64]) -> Segment:
        """The segment with further codes marked as removed."""
        entry = {name: value for name, value in self.entry.items() if name != "removed"}
        return replace(self, removed=np.union1d(self.removed, positions), entry=entry)

    def marked(self, folder: Path, entry: dict[str, Any]) -> Segment:
        """The segment with the marks of another entry of it."""
        return replace(self, removed=_marks(folder, entry), entry=entry)

    def rows(self) -> tuple[PackedCodes, npt.NDArray[np.int64], pa.Table | None, npt.NDArray | None]:
        """Codes, ids, attributes and vectors of what is not removed."""
        if not len(self.removed):
            return self.codes, self.ids(), None if self.table is None else self.read(), self.vectors
        table = None if self.table is None else self.read().take(self.kept)
        return self.codes[self.kept], self.ids(), table, None if self.vectors is None else self.vectors[self.kept]

    def stored(self, folder: Path, stem: str) -> dict[str, Any]:
        """Write what is not yet in the folder, and return the segment's entry for a manifest."""
        entry = dict(self.entry)
        if "codes" not in entry:
            entry |= {"rows": len(self.codes), "codes": write_array(folder / f"{stem}.codes.npy", self.codes)}
            if self.names is None:
                entry["first"] = self.first
            else:
                entry["ids"] = write_array(folder / f"{stem}.ids.npy", self.names)
            if self.table is not None:
                entry["attributes"] = write_new(folder / f"{stem}.attributes.arrow", self._write_table)
            if self.vectors is not None:
                entry["vectors"] = write_array(folder / f"{stem}.vectors.npy", self.vectors)
            if self.structure is not None:
                entry["structure"] = write_new(folder / f"{stem}.structure.faiss", self.structure.write)
        if len(self.removed) and "removed" not in entry:
            entry["removed"] = write_array(folder / f"{stem}.removed.npy", self.removed)
            entry["removed"]["rows"] = len(self.removed)
        return entry

    def _write_table(self, path: Path) -> None:
        import pyarrow as pa

        table = self.read()
        with path.open("wb") as opened, pa.ipc.new_file(opened, table.schema) as writer:
            writer.write_table(table)

    @classmethod
    def load(
        cls, folder: Path, entry: dict[str, Any], width: int, kept: dict[str, Any] | None, structure: Any
    ) -> Segment:
        """Map the files of a segment.

        Args:
            folder: of the index.
            entry: what its manifest says of the segment.
            width: bytes of a code.
            kept: dtype and dim of the vectors, where the index keeps some.
            structure: makes a structure of its mapped file.
        """
        files = {name: Mapped(folder, entry[name]) for name in FILES if name in entry and name != "removed"}
        rows = entry["rows"]
        return cls(
            codes=files["codes"].array(np.uint8, (rows, width)),
            first=entry.get("first", 0),
            names=files["ids"].array(np.int64, (rows,)) if "ids" in files else None,
            table=files.get("attributes"),
            vectors=files["vectors"].array(kept["dtype"], (rows, kept["dim"])) if kept and "vectors" in files else None,
            removed=_marks(folder, entry),
            structure=structure(files["structure"]) if "structure" in files else None,
            entry=entry,
        )


FILES = ("codes", "ids", "attributes", "vectors", "structure", "removed")
"""What of a segment may be a file."""


def files_of(entry: dict[str, Any]) -> list[Entry]:
    """The files that a segment's entry names."""
    return [entry[name] for name in FILES if name in entry]


def _marks(folder: Path, entry: dict[str, Any]) -> npt.NDArray[np.int64]:
    """Positions of the removed codes."""
    if "removed" not in entry:
        return NONE
    mapped = Mapped(folder, entry["removed"])
    marks = mapped.array(np.int64, (entry["removed"]["rows"],))
    if not (marks[0] >= 0 and marks[-1] < entry["rows"] and (np.diff(marks) > 0).all()):
        raise ValueError(f"index is damaged: {mapped.path.name} holds no rising positions")
    return marks


def _read_table(mapped: Mapped, rows: int) -> pa.Table:
    """The table of an Arrow file, still in the file: only what is asked for is ever in memory."""
    import pyarrow as pa

    table = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped.checked()))).read_all()
    if len(table) != rows:
        raise ValueError(f"index is damaged: {mapped.path.name} has {len(table)} rows and not {rows}")
    return table
