"""A segment: codes that were added together, ordered by id, with their metadata and vectors.

A segment never changes. Removing codes makes a new segment over the same files, with more codes marked as removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.codes import PackedCodes
from lbhash.index import scan
from lbhash.index.files import DamagedIndexError, Stored, StoredArray, whole, write_array, write_new
from lbhash.index.ids import ID, arrow_of
from lbhash.index.manifest import FILES
from lbhash.index.metadata import passing
from lbhash.index.postings import Postings
from lbhash.index.probes import Probes
from lbhash.index.results import Neighbors, Within
from lbhash.index.where import Filter

if TYPE_CHECKING:
    from lbhash.codes.real import Asked, Floats, Found, Positions
    from lbhash.index.blocks import Blocks
    from lbhash.index.lists import Lists

_NONE = np.empty(0, np.int64)


class Structure:
    """An inverted file that finds candidates among the codes of a segment."""

    def __init__(self, source: Any, probes: Probes, count: int = 0) -> None:
        # ``source`` is the ``Lists``, or their file with ``count`` codes, which is read on first use.
        self._source, self.probes, self._count = source, probes, count
        self._lock = Lock()

    def lists(self) -> Lists:
        """Return the lists, or raise ``ValueError`` if their file is damaged."""
        from lbhash.index.lists import Lists

        with self._lock:
            if isinstance(self._source, Stored):
                try:  # check the checksum first: FAISS trusts its input
                    lists = Lists.read(self._source.read())
                except RuntimeError:
                    raise DamagedIndexError(f"FAISS cannot read {self._source.path.name}") from None
                if lists.count != self._count:
                    raise DamagedIndexError(f"{self._source.path.name} is of {lists.count} codes and not {self._count}")
                self._source = lists
            return self._source

    def candidates(self, asked: Asked, k: int) -> tuple[Positions, Floats]:
        """Return positions of candidates, ``[n, c]``, and infinite bounds: all other codes are ignored."""
        return self.lists().candidates(asked, k), np.full(len(asked), np.inf)


@dataclass(frozen=True, eq=False)
class Segment:
    """Codes ordered by id, in memory or in files, including removed ones."""

    arrays: dict[str, Any]
    """``codes``, ``uint8 [n, bytes]``; ``ids``, ``int64 [n]``, unless they are consecutive; ``vectors``, ``[n, dim]``,
    if there are any. If many codes are equal, ``codes`` has the distinct ones, ``sizes``, ``uint32 [distinct]``, their
    counts, and ``positions``, ``uint32 [n]``, their positions (``Postings``)."""
    first: int = 0
    """The first id."""
    table: pa.Table | Stored | None = None
    """The metadata: a table in memory, a file that is read on first use, or None."""
    removed: npt.NDArray[np.int64] = field(default_factory=lambda: _NONE)
    """Positions of the removed codes, increasing."""
    structure: Structure | None = None
    entry: dict[str, Any] = field(default_factory=dict)
    """The segment's entry in the manifest; empty for a segment in memory."""
    schema: pa.Schema | None = None
    """The schema of ``table`` if this is a file."""

    def __len__(self) -> int:
        return self.count - len(self.removed)

    @property
    def count(self) -> int:
        """The number of codes, including removed ones."""
        return len(self.arrays.get("positions", self.arrays["codes"]))

    @cached_property
    def postings(self) -> Postings | None:
        """The distinct codes and their positions; None if equal codes are stored separately."""
        if "positions" not in self.arrays:
            return None
        codes, sizes, positions = (whole(self.arrays[name]) for name in ("codes", "sizes", "positions"))
        return Postings(codes, sizes.astype(np.int64), positions)

    def codes_at(self, positions: npt.NDArray[np.int64] | slice) -> PackedCodes:
        """Return the codes at these positions, ``uint8 [m, bytes]``."""
        return self._stored_codes(positions if self.postings is None else self.postings.owners[positions])

    def _stored_codes(self, positions: npt.NDArray[Any] | slice) -> PackedCodes:
        """Return the codes at these positions of ``arrays["codes"]``, ``uint8 [..., bytes]``."""
        codes = self.arrays["codes"]
        if isinstance(codes, np.ndarray | StoredArray) or isinstance(positions, slice):
            return whole(codes)[positions]
        return codes.rows(positions)

    @property
    def names(self) -> npt.NDArray[np.int64] | None:
        """All ids, ``int64 [n]``; None if they are consecutive."""
        return whole(self.arrays["ids"]) if "ids" in self.arrays else None

    def vectors_at(self, positions: npt.NDArray[np.int64]) -> npt.NDArray:
        """Return the vectors of the codes at these positions."""
        vectors = self.arrays["vectors"]
        return vectors.rows(positions) if isinstance(vectors, StoredArray) else vectors[positions]

    def ids_at(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the ids of the codes at these positions."""
        return positions + self.first if self.names is None else np.asarray(self.names[positions])

    def live(self, where: Filter | None = None) -> npt.NDArray[np.int64]:
        """Return the positions of the codes that are not removed and pass a filter, ``int64``, increasing."""
        mask = np.ones(self.count, bool)
        mask[self.removed] = False
        return np.flatnonzero(mask & passing(where or (), self._column))

    def ids(self) -> npt.NDArray[np.int64]:
        """Return the ids of the codes that are not removed, ``int64 [len]``, increasing."""
        return self.ids_at(self.live())

    def find(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the positions of the codes with these ids; −1 for an unknown or removed id."""
        if self.names is None:
            positions = ids - self.first
            found = (positions >= 0) & (positions < self.count)
        else:
            positions = np.minimum(np.searchsorted(self.names, ids), self.count - 1)
            found = self.names[positions] == ids
        if len(self.removed) and len(ids):
            at = np.minimum(np.searchsorted(self.removed, positions), len(self.removed) - 1)
            found &= self.removed[at] != positions
        return np.where(found, positions, -1)

    def metadata(self) -> pa.Table:
        """Return the metadata of all codes, including removed ones; None if the index has none."""
        if isinstance(self.table, Stored):
            file, content = self.table.path.name, pa.py_buffer(self.table.read())
            try:
                table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
            except pa.ArrowException:
                raise DamagedIndexError(f"Arrow cannot read {file}") from None
            if len(table) != self.count or table.schema != self.schema:
                raise DamagedIndexError(f"{file} is not of the index's columns and codes")
            object.__setattr__(self, "table", table)  # read only once
        return self.table

    def _column(self, name: str) -> pa.ChunkedArray:
        """Return a column, or the ids; the table has no column for integer ids."""
        table = self.metadata()
        if name == ID and (table is None or ID not in table.column_names):
            return pa.chunked_array([arrow_of(self.ids_at(np.arange(self.count)))])
        return table[name]

    def texts_at(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.object_]:
        """Return the text ids at these positions."""
        return self.metadata()[ID].take(arrow_of(positions)).to_numpy()

    def load(self) -> None:
        """Read all files, and keep all but the vectors in memory; ``DamagedIndexError`` if one is damaged."""
        for name, array in self.arrays.items():
            if isinstance(array, StoredArray):
                array.check() if name == "vectors" else array.whole()
        self.metadata()
        if self.structure is not None:
            self.structure.lists()

    def rows(self) -> tuple[PackedCodes, npt.NDArray[np.int64], pa.Table | None, npt.NDArray | None]:
        """Return codes, ids, metadata and vectors without removed rows; ``DamagedIndexError`` if a file is damaged."""
        live, table = self.live(), self.metadata()
        if table is not None and len(self.removed):
            table = table.take(live)
        vectors = whole(self.arrays["vectors"], keep=False)[live] if "vectors" in self.arrays else None
        return self.codes_at(live), self.ids_at(live), table, vectors

    @cached_property
    def _live_codes(self) -> PackedCodes:
        """The codes to scan, ``scan.padded``, without removed ones; copied once rather than in every scan."""
        codes = self.codes_at(slice(None))
        if len(self.removed):
            return scan.padded(np.delete(codes, self.removed, axis=0))
        wide = scan.padded(codes)
        if wide is not codes and self.postings is None and self.structure is None:
            self.arrays["codes"] = wide[:, : codes.shape[1]]  # hold them in memory only once
        return wide

    @cached_property
    def _blocks(self) -> Blocks:
        """The codes for searches by real outputs; they replace ``arrays["codes"]`` unless something else needs it."""
        from lbhash.index.blocks import Blocks

        blocks = Blocks(whole(self.arrays["codes"], keep=False))
        if self.postings is None and "_live_codes" not in vars(self):
            self.arrays["codes"] = blocks
        return blocks

    @cached_property
    def _live_postings(self) -> Postings | None:
        """The postings without the removed codes."""
        if self.postings is None or not len(self.removed):
            return self.postings
        keep = np.ones(self.count, bool)
        keep[self.removed] = False
        return self.postings.kept(keep)

    def _positions(self, live: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Map positions in ``_live_codes`` to positions in ``codes``: add the number of removed codes before each."""
        if not len(self.removed):
            return live
        return live + np.searchsorted(self.removed - np.arange(len(self.removed)), live, side="right")

    def nearest(self, queries: PackedCodes, k: int, where: Filter | None) -> Neighbors:
        """Return the k nearest codes, or all if there are fewer. A filtered search is always a scan."""
        if not where and self.structure is not None:
            from lbhash.codes.real import Asked, signs_of

            near = self._found(Asked(signs_of(queries)), min(k, len(self)))
            return Neighbors(near.distances.astype(np.int32), self.ids_at(near.ids))
        found = self._scan(queries, k, where)
        return Neighbors(found.distances, self.ids_at(found.ids))

    def nearest_real(
        self, asked: Asked, k: int, where: Filter | None
    ) -> tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return distances, ids and Hamming distances of the k nearest by real outputs, or all if there are fewer."""
        from lbhash.codes.real import differing
        from lbhash.index.blocks import FEW

        k = min(k, len(self))
        few = where or len(self.arrays["codes"]) < FEW
        found = self._compared(asked, k, where) if few else self._found(asked, k)
        near = differing(asked.codes, self.codes_at(found.ids))
        return found.distances, self.ids_at(found.ids), near

    def _compared(self, asked: Asked, k: int, where: Filter | None = None) -> Found:
        """Return the positions of the k nearest codes, comparing all codes that pass a filter."""
        if not where and self._live_postings is not None:
            return self._live_postings.nearest_real(asked, k)
        codes, positions = self.scanned(where)
        found = asked.nearest(codes[:, : asked.codes.shape[1]], min(k, len(codes)))
        return found._replace(ids=positions(found.ids))

    def _found(self, asked: Asked, k: int) -> Found:
        """Return the positions of the k nearest among candidates; where these may be wrong, compare all codes."""
        finder, listed = self.structure or self._blocks, self._live_postings
        candidates, least = finder.candidates(asked, k)
        found = asked.ordered(candidates, self._stored_codes(candidates))
        if listed is None:
            if len(self.removed):
                found.distances[np.isin(found.ids, self.removed)] = np.inf
                found = found.first(found.ids.shape[1])
            last = found.distances[:, k - 1]
        else:
            held = np.where(np.isfinite(found.distances), listed.held(found.ids), 0)
            enough = np.cumsum(held, axis=1) >= k
            last = np.where(enough, found.distances, np.inf).min(axis=1)
        sure = np.isfinite(last) & (last < least)
        best = found if sure.all() else found.select(sure)
        best = best.select(np.s_[:, :k]) if listed is None else listed.first_real(best, k)
        return best if sure.all() else best.among(sure, self._compared(asked.some(~sure), k))

    def within(self, queries: PackedCodes, radius: int, where: Filter | None) -> Within:
        """Return all codes within a radius of each query."""
        if not where and self._live_postings is not None:
            found = self._live_postings.within(queries, radius)
            return Within(found.limits, found.distances, self.ids_at(found.ids))
        codes, positions = self.scanned(where)
        found = scan.within(queries, codes, radius)
        return Within(found.limits, found.distances, self.ids_at(positions(found.ids)))

    def scanned(self, where: Filter | None) -> tuple[PackedCodes, Callable[[npt.NDArray], npt.NDArray]]:
        """Return the codes to search, and a function that maps their positions to the segment's.

        Removed codes and those that do not pass the filter are left out. The codes may be ``scan.padded``.
        """
        if not where:
            return self._live_codes, self._positions
        passed = self.live(where)
        return self.codes_at(passed), passed.__getitem__

    def _scan(self, queries: PackedCodes, k: int, where: Filter | None = None) -> Neighbors:
        """Return the positions of the k nearest codes, or of all if there are fewer."""
        if not where and self._live_postings is not None:
            return self._live_postings.nearest(queries, k)
        codes, positions = self.scanned(where)
        found = scan.nearest(queries, codes, min(k, len(codes)))
        return Neighbors(found.distances, positions(found.ids))

    def without(self, positions: npt.NDArray[np.int64]) -> Segment:
        """Return the segment with more codes marked as removed."""
        return replace(self, removed=np.union1d(self.removed, positions), entry=without_removed(self.entry))

    def stored(self, folder: Path, stem: str) -> dict[str, Any]:
        """Write the files that the folder lacks, and return the segment's entry for a manifest."""
        entry = dict(self.entry)
        if "codes" not in entry:
            entry["rows"] = self.count
            if "positions" in self.arrays:
                entry["distinct"] = len(self.arrays["codes"])
            for name, array in self.arrays.items():
                entry[name] = write_array(folder / f"{stem}.{name}.npy", whole(array, keep=name != "vectors"))
            if "ids" not in self.arrays:
                entry["first"] = self.first
            if self.table is not None:
                entry["metadata"] = write_new(folder / f"{stem}.metadata.arrow", self._write_table)
            if self.structure is not None:
                entry["probes"] = asdict(self.structure.probes)
                entry["structure"] = write_new(folder / f"{stem}.structure.faiss", self.structure.lists().write)
        if len(self.removed) and "removed" not in entry:
            entry["removed"] = write_array(folder / f"{stem}.removed.npy", self.removed)
            entry["removed"]["rows"] = len(self.removed)
        return entry

    def _write_table(self, opened: BinaryIO) -> None:
        table = self.metadata()
        with pa.ipc.new_file(opened, table.schema) as writer:
            writer.write_table(table)

    @classmethod
    def open(
        cls, folder: Path, entry: dict[str, Any], width: int, vectors: Mapping[str, Any], schema: pa.Schema | None
    ) -> Segment:
        """Open the files of a segment.

        ``width`` is a code's length in bytes, ``vectors`` has the vectors' dtype and dim, ``schema`` is the metadata's.
        """
        rows, stored = entry["rows"], entry.get("distinct", entry["rows"])
        if ("metadata" in entry) != bool(schema):
            raise DamagedIndexError("its files of metadata do not fit its columns")
        files = {name: Stored(folder, entry[name]) for name in FILES if name in entry and name != "removed"}
        forms: dict[str, Any] = {"codes": (np.uint8, (stored, width))}
        if "distinct" in entry:
            forms |= {"sizes": (np.uint32, (stored,)), "positions": (np.uint32, (rows,))}
        if "ids" in files:
            forms["ids"] = np.int64, (rows,)
        if "dim" in vectors:
            forms["vectors"] = vectors["dtype"], (rows, vectors["dim"])
        return cls(
            arrays={name: StoredArray(files[name], *form) for name, form in forms.items()},
            first=entry.get("first", 0),
            table=files.get("metadata"),
            removed=read_removed(folder, entry),
            structure=(
                Structure(files["structure"], Probes(**entry["probes"]), stored) if "structure" in files else None
            ),
            entry=entry,
            schema=schema,
        )


def without_removed(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a segment's entry without its removed codes."""
    return {name: value for name, value in entry.items() if name != "removed"}


def read_removed(folder: Path, entry: dict[str, Any]) -> npt.NDArray[np.int64]:
    """Return the positions of the removed codes, from the file that a segment's entry names."""
    if "removed" not in entry:
        return _NONE
    file = Stored(folder, entry["removed"])
    found = StoredArray(file, np.int64, (entry["removed"]["rows"],)).whole()
    if len(found) and not (found[0] >= 0 and (found[1:] > found[:-1]).all() and found[-1] < entry["rows"]):
        raise DamagedIndexError(f"{file.path.name} does not hold positions of codes")
    return found
