"""A segment: codes that were added together, by increasing id, with their attributes and vectors.

A segment never changes: removing codes makes another segment over the same files, with more codes marked as removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.codes import PackedCodes
from lbhash.index import scan
from lbhash.index.attributes import selected
from lbhash.index.base import Neighbors, Where, Within
from lbhash.index.files import Mapped, write_array, write_new
from lbhash.index.manifest import FILES

_NONE = np.empty(0, np.int64)


class Structure:
    """A FAISS index that finds candidates among the codes of a segment; ``tune`` sets how thoroughly it searches."""

    def __init__(self, source: Any, rows: int, width: int, tune: Callable[[Any], None]) -> None:
        # The source is the index, or its file, which is read when it is first needed.
        self._source, self._rows, self._width, self._tune = source, rows, width, tune
        self._index: Any = None
        self._lock = Lock()

    def index(self) -> Any:
        """Return the FAISS index, or raise ``ValueError`` if its file is damaged."""
        with self._lock:
            if self._index is None:
                index = self._read(self._source) if isinstance(self._source, Mapped) else self._source
                self._tune(index)
                self._index = index
            return self._index

    def write(self, opened: BinaryIO) -> None:
        """Write the FAISS index to a file."""
        import faiss

        faiss.write_index_binary(self.index(), faiss.PyCallbackIOWriter(opened.write))  # type: ignore[attr-defined]

    def _read(self, mapped: Mapped) -> Any:
        import faiss

        try:  # FAISS trusts what it reads: the checksum comes first
            index = faiss.deserialize_index_binary(np.asarray(mapped.checked()))
        except RuntimeError:
            raise ValueError(f"index is damaged: FAISS cannot read {mapped.path.name}") from None
        if (index.ntotal, index.code_size) != (self._rows, self._width):
            raise ValueError(f"index is damaged: {mapped.path.name} does not hold the codes of its segment")
        return index


@dataclass(frozen=True, eq=False)
class Segment:
    """Codes ``uint8 [n, bytes]`` by increasing id, in memory or in mapped files, including those that are removed."""

    codes: PackedCodes
    first: int = 0
    """The first id."""
    names: npt.NDArray[np.int64] | None = None
    """All ids, ``int64 [n]``; None if they follow the first one without gaps."""
    table: pa.Table | Mapped | None = None
    """The attributes: a table in memory, a file that is read when it is first needed, or None."""
    vectors: npt.NDArray | None = None
    removed: npt.NDArray[np.int64] = field(default_factory=lambda: _NONE)
    """Positions of the removed codes, increasing."""
    structure: Structure | None = None
    entry: dict[str, Any] = field(default_factory=dict)
    """The segment's entry in the manifest; empty if it is in memory only."""

    def __len__(self) -> int:
        return len(self.codes) - len(self.removed)

    def ids_at(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the ids of the codes at these positions."""
        return positions + self.first if self.names is None else np.asarray(self.names[positions])

    def live(self, where: Where | None = None) -> npt.NDArray[np.int64]:
        """Return the positions of the codes that are not removed and that pass a filter, ``int64``, increasing."""
        mask = np.ones(len(self.codes), bool)
        mask[self.removed] = False
        for name, wanted in (where or {}).items():
            mask &= selected(self.attributes()[name], wanted, name)
        return np.flatnonzero(mask)

    def ids(self) -> npt.NDArray[np.int64]:
        """Return the ids of the codes that are not removed, ``int64 [len]``, increasing."""
        return self.ids_at(self.live())

    @cached_property
    def ordered(self) -> bool:
        """Whether the ids increase, without which they are not found; all of them are read once."""
        return self.names is None or bool((np.diff(self.names) > 0).all())

    def check_order(self) -> None:
        """Raise ``ValueError`` if the segment may have an id that ``find`` does not find."""
        if not self.ordered:
            raise ValueError("index is damaged: the ids of a segment do not increase")

    def find(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the positions of the codes with these ids; −1 for an id that is not there or is removed."""
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

    def attributes(self) -> pa.Table:
        """Return the attributes, those of removed codes too. A table that comes from a file stays in the file."""
        if isinstance(self.table, Mapped):
            name = self.table.path.name
            table = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(self.table.checked()))).read_all()
            if len(table) != len(self.codes):
                raise ValueError(f"index is damaged: {name} has {len(table)} rows and not {len(self.codes)}")
            object.__setattr__(self, "table", table)  # so that the checksum is compared once
        return self.table

    def rows(self) -> tuple[PackedCodes, npt.NDArray[np.int64], pa.Table | None, npt.NDArray | None]:
        """Return codes, ids, attributes and vectors of what is not removed."""
        table = None if self.table is None else self.attributes()
        if not len(self.removed):
            return self.codes, self.ids(), table, self.vectors
        live = self.live()
        vectors = None if self.vectors is None else self.vectors[live]
        return self.codes[live], self.ids_at(live), None if table is None else table.take(live), vectors

    @cached_property
    def _live_codes(self) -> PackedCodes:
        """The codes to scan: a copy without the removed ones, made once rather than in every scan."""
        return np.delete(self.codes, self.removed, axis=0) if len(self.removed) else self.codes

    def _positions(self, live: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return positions in ``codes`` from those in ``_live_codes``: one more for each removed code before them."""
        if not len(self.removed):
            return live
        return live + np.searchsorted(self.removed - np.arange(len(self.removed)), live, side="right")

    def nearest(self, queries: PackedCodes, k: int, where: Where | None) -> Neighbors:
        """Return the k nearest codes, or all if there are fewer. A filtered search is always a scan."""
        if not where and self.structure is not None:
            return self._candidates(self.structure, queries, k)
        codes, positions = self._scanned(where)
        found = scan.nearest(queries, codes, min(k, len(codes)))
        return Neighbors(found.distances, self.ids_at(positions(found.ids)))

    def within(self, queries: PackedCodes, radius: int, where: Where | None) -> Within:
        """Return the codes within a radius."""
        codes, positions = self._scanned(where)
        found = scan.within(queries, codes, radius)
        return Within(found.limits, found.distances, self.ids_at(positions(found.ids)))

    def _scanned(self, where: Where | None) -> tuple[PackedCodes, Callable[[npt.NDArray], npt.NDArray]]:
        """Return the codes that pass a filter, and a function that returns their positions in the segment."""
        if not where:
            return self._live_codes, self._positions
        passed = self.live(where)
        return self.codes[passed], passed.__getitem__

    def _candidates(self, structure: Structure, queries: PackedCodes, k: int) -> Neighbors:
        """Return the k nearest codes that the structure finds; queries for which it finds fewer are scanned.

        The structure does not know which codes are removed: it is asked for more until enough others are found.
        """
        k = min(k, len(self))
        distances = np.zeros((len(queries), k), np.int32)
        positions = np.zeros((len(queries), k), np.int64)
        pending, scanned = np.arange(len(queries)), np.zeros(len(queries), bool)
        asked = k + min(len(self.removed), k)
        while len(pending) and asked <= len(self.codes):
            found = Neighbors(*structure.index().search(queries[pending], asked))  # −1 where it finds fewer
            usable = (found.ids >= 0) & ~np.isin(found.ids, self.removed)
            enough = usable.sum(axis=1) >= k
            if enough.any():
                far = np.where(usable, found.distances, np.iinfo(np.int32).max)[enough]
                distances[pending[enough]], positions[pending[enough]] = scan.ranked(far, found.ids[enough], k)
            full = found.ids[:, -1] >= 0  # the structure had as many as it was asked for
            scanned[pending[~enough & ~full]] = True
            pending, asked = pending[~enough & full], 2 * asked
        scanned[pending] = True
        if scanned.any():
            found = scan.nearest(queries[scanned], self._live_codes, k)
            distances[scanned], positions[scanned] = found.distances, self._positions(found.ids)
        return scan.ranked(distances, self.ids_at(positions), k)

    def without(self, positions: npt.NDArray[np.int64]) -> Segment:
        """Return the segment with more codes marked as removed."""
        entry = {name: value for name, value in self.entry.items() if name != "removed"}
        return replace(self, removed=np.union1d(self.removed, positions), entry=entry)

    def stored(self, folder: Path, stem: str) -> dict[str, Any]:
        """Write what the folder does not have yet, and return the segment's entry for a manifest."""
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

    def _write_table(self, opened: BinaryIO) -> None:
        table = self.attributes()
        with pa.ipc.new_file(opened, table.schema) as writer:
            writer.write_table(table)

    @classmethod
    def load(
        cls, folder: Path, entry: dict[str, Any], width: int, vectors: Mapping[str, Any], tune: Callable[[Any], None]
    ) -> Segment:
        """Map the files of a segment; ``width`` is in bytes, and ``vectors`` has the vectors' dtype and dim."""
        files = {name: Mapped(folder, entry[name]) for name in FILES if name in entry and name != "removed"}
        rows = entry["rows"]
        return cls(
            codes=files["codes"].array(np.uint8, (rows, width)),
            first=entry.get("first", 0),
            names=files["ids"].array(np.int64, (rows,)) if "ids" in files else None,
            table=files.get("attributes"),
            vectors=files["vectors"].array(vectors["dtype"], (rows, vectors["dim"])) if "vectors" in files else None,
            removed=read_removed(folder, entry),
            structure=Structure(files["structure"], rows, width, tune) if "structure" in files else None,
            entry=entry,
        )


def read_removed(folder: Path, entry: dict[str, Any]) -> npt.NDArray[np.int64]:
    """Return the positions of the removed codes, from the file that a segment's entry names."""
    if "removed" not in entry:
        return _NONE
    mapped = Mapped(folder, entry["removed"])
    removed = mapped.array(np.int64, (entry["removed"]["rows"],))
    if not (removed[0] >= 0 and removed[-1] < entry["rows"] and (np.diff(removed) > 0).all()):
        raise ValueError(f"index is damaged: {mapped.path.name} does not hold increasing positions")
    return removed
