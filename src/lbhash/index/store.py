"""An index of segments, in memory or in a folder that survives a killed writer.

A change writes new files beside the old ones, waits until they are on disk, and commits by renaming a new manifest into
place. Readers keep reading the files that they opened. ``add`` writes only the new codes. Small segments are later
merged into larger ones, so each code is rewritten only a few times.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import RLock
from types import NoneType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.codes import PackedCodes, check_bits, code_bytes
from lbhash.index import scan
from lbhash.index.base import BaseIndex, MaybeArray, Options, Rows, State, check_options
from lbhash.index.files import DamagedIndexError
from lbhash.index.ids import Ids, Names, TakenIdError, UnknownIdError, arrow_of, numbers_of
from lbhash.index.kinds import KINDS
from lbhash.index.manifest import NAME, files_of, identity_of, last_generation, read_manifest, sweep, write_manifest
from lbhash.index.metadata import as_table, check_where, schema_from_text, schema_to_text
from lbhash.index.postings import group
from lbhash.index.quantized import from_text, scales_of, to_float16, to_int8, to_text
from lbhash.index.results import Neighbors, SearchResult, Within
from lbhash.index.segment import Segment, Structure, read_removed, without_removed
from lbhash.index.where import Filter
from lbhash.utils.arrays import as_numbers, check_finite
from lbhash.utils.files import exclusive, make_folder
from lbhash.utils.paths import check_folder, check_path
from lbhash.utils.validation import check_choice, check_type

MERGE = 8
"""Number of segments of similar size that are merged into one."""
SMALL = 4096
"""Largest segment, in codes, of the smallest size class; each next class is ``MERGE`` times as large."""
REMOVED = 0.25
"""Share of removed codes above which a segment is rewritten without them."""
MIN_ROWS = 1_000
"""Codes from which a segment may store equal codes once and gets a FAISS structure; scanning fewer codes is as fast."""
STORED = ("outputs", "embeddings", "int8")
"""The choices for stored vectors: outputs or embeddings in float16 (uint8 stays uint8), or embeddings in int8."""
OPENED_BY: dict[str, Callable[..., Any]] = {}
"""Functions that open an index, by the prefix of its address."""
_NOTHING = np.empty(0, np.int64)
_FOUND = 1 << 20  # neighbors by outputs per batch of queries
PATIENCE = 600
"""Seconds to wait for another writer."""


@dataclass(frozen=True)
class SegmentState(State):
    """The state of an index of segments, the oldest segment first.

    ``kept`` names the stored ``vectors``; with the first ones it gets their ``dtype``, ``dim`` and for int8 ``scales``.
    It is None if the index stores no vectors.
    """

    kept: Mapping[str, Any] | None = None
    segments: tuple[Segment, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.segments))

    def located(self, names: Ids) -> list[tuple[Segment, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
        """Return, for each segment that has some of these ids, their places in ``names`` and in the segment."""
        found = []
        missing = np.ones(len(names), bool)
        for segment in self.segments:
            positions = segment.find(names)
            if len(places := np.flatnonzero(positions >= 0)):
                missing[places] = False
                found.append((segment, places, positions[places]))
        if missing.any():
            raise UnknownIdError(names[missing].tolist()[0])
        return found

    def named(self, numbers: Ids) -> Names:
        """Return ids as users know them, in the shape of their numbers."""
        if not self.texts:
            return numbers
        names = np.empty(numbers.size, object)
        for segment, places, positions in self.located(numbers.ravel()):
            names[places] = segment.texts_at(positions)
        return names.reshape(numbers.shape)


class Index(BaseIndex):
    """Codes with ids and metadata, searched in this process; in memory, or in a folder (``path``).

    Args:
        bits: h, the length of a code.
        kind: flat (exact), or ivf (approximate, and faster for millions of codes).
        vectors: the vectors stored with each code for re-ranking: ``outputs`` or ``embeddings``, as float16 (uint8
            stays uint8); ``int8``: embeddings scaled to length 1, one byte per number, with step sizes set by the first
            rows; empty for none. A row that does not fit float16 is scaled to length 1.
        options: options of the kind; ivf has ``nlist`` and ``nprobe``.
        model: fingerprint of the model that makes the codes; empty if unknown.
        learns_classes: whether that model was trained with labels, which decides how candidates are re-ranked.

    >>> from lbhash import pack
    >>> index = Index(bits=3)
    >>> index.add(pack([[-1, -1, -1], [1, 1, 1]]), metadata={"color": ["red", "blue"]}).tolist()
    [0, 1]
    >>> distances, ids = index.search(pack([[-1, -1, 1]]), k=2)
    >>> distances.tolist(), ids.tolist()
    ([[1.0, 2.0]], [[0, 1]])
    """

    def __init__(
        self,
        bits: int,
        kind: str = "flat",
        *,
        vectors: str = "",
        options: Options = None,
        model: str = "",
        learns_classes: bool | None = None,
    ) -> None:
        if vectors:
            vectors = check_choice(vectors, "vectors", STORED)
        check_type(learns_classes, "learns_classes", (bool, NoneType), "true, false or None")
        kept = {"vectors": vectors} if vectors else None
        if vectors == "int8":
            kept = {"vectors": "embeddings", "dtype": "int8"}
        self.bits, self.model, self.kind = check_bits(bits), model, check_choice(kind, "kind", KINDS)
        self.vectors = kept["vectors"] if kept else ""
        self.learns_classes, self.writable = learns_classes, True
        self.options = check_options(options, KINDS[self.kind].options, self.kind)
        self.path: Path | None = None
        self.patience: float = PATIENCE
        self._settings = {"kind": self.kind, "options": self.options, "bits": self.bits, "model": model}
        self._settings["learns_classes"] = learns_classes
        self._width = code_bytes(bits)
        self._state = SegmentState(kept=kept)
        self._writer = RLock()

    @classmethod
    def open(
        cls, path: str | Path, mode: Literal["r", "a"] = "r", *, known: BaseIndex | None = None, progress: bool = False
    ) -> Index:
        """Open an index.

        Each file is compared with its checksums on first use, so no answer comes from a damaged file. Files stay in
        memory, except stored vectors.

        Args:
            path: a folder that ``save`` or ``lbhash index build`` wrote, or the address of a Milvus collection:
                ``milvus+http://HOST:PORT/COLLECTION`` or ``milvus+FILE.db``.
            mode: "r" for reading; "a" to write changes to the folder.
            known: an index that was opened there before; unchanged files are shared with it.
            progress: show a bar while codes are added to Milvus.

        Raises:
            ValueError: there is no index, or it is damaged or of another format.
            ConnectionError: Milvus does not answer, or refuses.
        """
        check_path(path, "path")
        check_choice(mode, "mode", ("r", "a"))
        for prefix, opened in OPENED_BY.items():
            if str(path).startswith(prefix):
                return opened(str(path), progress=progress)
        manifest = read_manifest(Path(path))
        settings: dict[str, Any] = {name: manifest[name] for name in ("bits", "model", "options", "learns_classes")}
        index = cls(kind=manifest["kind"], vectors=(manifest["kept"] or {}).get("vectors", ""), **settings)
        index.attach(Path(path), known)
        index.writable = mode == "a"
        return index

    @classmethod
    def from_hasher(cls, hasher: Any, kind: str = "flat", *, vectors: str = "", options: Options = None) -> Index:
        """Return an empty index for the codes of a fitted ``Hasher``; the arguments are those of ``Index``."""
        if (model := vars(hasher).get("model_")) is None:
            raise ValueError("hasher is not fitted yet; call fit, or load a model with from_pretrained")
        about = {"model": model.fingerprint(), "learns_classes": model.learns_classes}
        return cls(model.bits, kind, vectors=vectors, options=options, **about)

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else str(self.path)
        stored = f", {self.vectors} stored" if self.vectors else ""
        model = f"model {self.model}" if self.model else "model not known"
        return f"Index({self.kind}, {self.bits} bits, {len(self):,} codes{stored}; {model}; {where})"

    def _check_writable(self) -> None:
        if not self.writable:
            raise ValueError(f"index is {str(self.path)!r}, opened for reading; Index.open(path, mode='a') changes it")

    def _build(self, codes: PackedCodes, sizes: npt.NDArray[np.int64]) -> Structure | None:
        """Return a structure over codes and their numbers of rows, ``sizes``; None for a kind that scans."""
        build = KINDS[self.kind].build
        return None if build is None else build(codes, sizes, self.options)

    @property
    def state(self) -> SegmentState:
        """The current state, with the open segments."""
        return self._state

    def __len__(self) -> int:
        return len(self.state)

    def attach(self, folder: Path, known: BaseIndex | None = None) -> None:
        """Load the index of a folder; later changes are written to this folder.

        Unchanged segments are reused from ``known``, an index that was opened there before.
        """
        if isinstance(known, Index) and known.path == folder:
            self._state = known.state
        self._state, self.path = self._read(folder), folder

    def outdated(self) -> bool:
        """Return whether the folder's index has been changed or built again since it was read."""
        return self.path is not None and identity_of(read_manifest(self.path)) != self.state.identity

    def refresh(self) -> bool:
        """Read the folder again if another program changed it, and return whether it did."""
        with self._writer:
            if self.path is None or not self.outdated():
                return False
            self._state = self._read(self.path)
            return True

    def _read(self, folder: Path, *, again: bool = False) -> SegmentState:
        """Return the state of a folder; with ``again``, files that are in memory are opened again."""
        while True:  # a writer may remove a listed file meanwhile, or a link to the folder may move
            manifest = read_manifest(folder)
            identity = identity_of(manifest)
            schema = schema_from_text(manifest["schema"])
            kept = manifest["kept"]
            same = all(manifest.get(name) == value for name, value in self._settings.items())
            if not same or (kept or {}).get("vectors", "") != self.vectors:
                raise ValueError(f"index is {str(folder)!r}, which was built again with other settings; open it again")
            try:
                known = self.state.segments if self.state.build == manifest["build"] and not again else ()
                segments = self._opened(folder, manifest["segments"], kept, schema, known)
                if read_manifest(folder)["build"] == manifest["build"]:
                    return SegmentState(*identity, manifest["next_id"], schema, kept, segments)
            except FileNotFoundError as error:
                if identity_of(read_manifest(folder)) == identity:
                    raise DamagedIndexError(f"{Path(error.filename).name} is missing") from None
            except ValueError:
                if identity_of(read_manifest(folder)) == identity:
                    raise

    def _opened(
        self,
        folder: Path,
        entries: Sequence[dict[str, Any]],
        kept: Mapping[str, Any] | None,
        schema: pa.Schema | None,
        known: Sequence[Segment] = (),
    ) -> tuple[Segment, ...]:
        """Return the segments of these entries; reuse known ones with the data that they have already read."""
        segments = []
        for entry in entries:
            segment = next((one for one in known if without_removed(one.entry) == without_removed(entry)), None)
            if segment is None:
                segment = Segment.open(folder, entry, self._width, kept or {}, schema)
            elif segment.entry != entry:
                segment = replace(segment, removed=read_removed(folder, entry), entry=entry)
            segments.append(segment)
        return tuple(segments)

    def ids(self) -> Names:
        """Return all ids, ``[len]``: integers increase, and texts are in the order of a search."""
        state = self.state
        parts = [np.empty(0, np.int64), *(segment.ids() for segment in state.segments)]
        return state.named(np.sort(np.concatenate(parts)))

    def _search(self, queries: PackedCodes, k: int, where: Filter) -> Neighbors:
        state = self.state
        check_where(where, state.schema)
        found = scan.merge_nearest([part.nearest(queries, k, where) for part in state.segments], len(queries), k)
        return found._replace(ids=state.named(found.ids))

    def _search_outputs(self, outputs: npt.NDArray[np.float32], k: int, where: Filter) -> SearchResult:
        from lbhash.codes.real import Asked

        state, found = self.state, []
        check_where(where, state.schema)
        step = max(1, _FOUND // max(k, 1))
        for start in range(0, max(1, len(outputs)), step):
            asked = Asked(outputs[start : start + step])
            parts = [segment.nearest_real(asked, k, where) for segment in state.segments]
            found.append(parts[0] if len(parts) == 1 else _first(parts, len(asked), k))
        distances, ids, hamming = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return SearchResult(distances.astype(np.float32), state.named(ids), hamming)

    def _range_search(self, queries: PackedCodes, radius: int, where: Filter) -> Within:
        state = self.state
        check_where(where, state.schema)
        found = scan.merge_within([part.within(queries, radius, where) for part in state.segments], len(queries))
        return found._replace(ids=state.named(found.ids))

    def _codes_of(self, ids: Ids) -> PackedCodes:
        found = np.empty((len(ids), self._width), np.uint8)
        for segment, places, positions in self.state.located(ids):
            found[places] = segment.codes_at(positions)
        return found

    def _vectors_of(self, ids: Ids) -> npt.NDArray:
        state = self.state
        if state.kept is None or "dim" not in state.kept:
            raise ValueError("index has no vectors yet; add codes first")
        found = np.empty((len(ids), state.kept["dim"]), state.kept["dtype"])
        for segment, places, positions in state.located(ids):
            found[places] = segment.vectors_at(positions)
        return found * from_text(state.kept["scales"]) if "scales" in state.kept else found

    def _metadata_of(self, ids: Ids, columns: Sequence[str] | None) -> pa.Table | None:
        state = self.state
        located = state.located(ids)
        if not state.schema:
            return None
        wanted = state.schema.names if columns is None else columns
        order = np.argsort(np.concatenate([np.empty(0, np.int64), *(places for _, places, _ in located)]))
        tables = [segment.metadata().select(wanted).take(arrow_of(positions)) for segment, _, positions in located]
        tables = tables or [state.schema.empty_table().select(wanted)]
        return pa.concat_tables(tables).take(arrow_of(order)).combine_chunks()

    def info(self) -> dict[str, Any]:
        """Return the facts about the index, with the number and the size of its segments."""
        segments = self.state.segments
        about = super().info()
        if KINDS[self.kind].build is not None:  # one for each segment with a structure
            structures = (segment.structure for segment in segments)
            about["probes"] = [asdict(one.probes) for one in structures if one is not None]
        return about | {
            "kept": {name: value for name, value in (self.state.kept or {}).items() if name != "scales"} or None,
            "removed": sum(len(segment.removed) for segment in segments),
            "segments": len(segments),
            "bytes": self.stored_bytes,
        }

    @property
    def stored_bytes(self) -> int:
        """The size in bytes of the index's files."""
        return sum(file["bytes"] for segment in self.state.segments for file in files_of(segment.entry))

    def read_all(self) -> None:
        """Read all files now, and check their checksums; all but stored vectors stays in memory."""
        for segment in self.state.segments:
            segment.load()

    def verify(self) -> None:
        """Read all files and compare their checksums; ``ValueError`` if one has changed since it was written."""
        # Read the files again: memory may be older.
        state = self.state if self.path is None else self._read(self.path, again=True)
        for segment in state.segments:
            segment.load()

    def _add(self, rows: Rows, *, upsert: bool = False) -> Names:
        if self.path is None:  # copy, so that the caller may change its arrays later
            vectors = None if rows.vectors is None else np.array(rows.vectors)
            rows = rows._replace(codes=rows.codes.copy(), vectors=vectors)
        return self.insert(rows, upsert=upsert)

    def insert(self, rows: Rows, *, upsert: bool = False) -> Names:
        """Add rows as a new segment, and return their ids (``Index.add``); their arrays must not change later."""
        codes, ids, metadata, vectors = rows
        with self._changing() as state:
            names = state.new_ids(ids, len(codes))
            numbers = numbers_of(names)
            rest: list[Segment] = []
            for segment in state.segments:
                positions = segment.find(numbers)
                there = positions >= 0
                if there.any() and not upsert:
                    raise TakenIdError(names[there].tolist()[0])
                rest += self._without(segment, positions[there])
            table = as_table(metadata, names, state)
            kept, stored = _as_stored(vectors, len(codes), state.kept)
            if not len(codes):
                return names
            segment = self._segment(codes, numbers, table if table.column_names else None, stored)
            next_id, segments = state.next_after(numbers), self._merged([*rest, segment])
            schema = state.schema or table.schema
            self._commit(replace(state, next_id=next_id, schema=schema, kept=kept, segments=segments))
            return names

    def _remove(self, ids: Ids) -> None:
        """Mark codes as removed, and rewrite segments in which many are."""
        with self._changing() as state:
            located = {segment: positions for segment, _, positions in state.located(ids)}
            segments = [
                one for segment in state.segments for one in self._without(segment, located.get(segment, _NOTHING))
            ]
            if len(ids):
                self._commit(replace(state, segments=tuple(segments)))

    def _without(self, segment: Segment, positions: npt.NDArray[np.int64]) -> list[Segment]:
        """Return a segment without the rows at some positions; none if nothing is left."""
        if len(positions):
            segment = segment.without(positions)
            if len(segment) and len(segment.removed) > REMOVED * segment.count:
                segment = self._segment(*segment.rows())
        return [segment] if len(segment) else []

    def compact(self) -> None:
        """Merge all segments into one without removed codes; searches return the same results, faster."""
        self._check_writable()
        with self._changing() as state:
            segments = self._compacted(state.segments)
            if segments != state.segments:
                self._commit(replace(state, segments=segments))

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the index to a folder, as one segment. Readers of an overwritten index keep its old files.

        After saving an index in memory, its later changes are written to the folder. Its own folder is refused
        (``ValueError``) if another writer has changed it since.
        """
        folder = Path(path)
        check_free(folder, overwrite)
        make_folder(folder)
        with locked(folder):
            check_free(folder, overwrite)
            own = self.path is not None and folder.resolve() == self.path.resolve()
            if own and (folder / NAME).exists() and self.outdated():
                what = "which another writer has changed since this index was opened; open it again"
                raise ValueError(f"path is {str(folder)!r}, {what}")
            generation = last_generation(folder) + 1
            state = self.state
            segments = self._compacted(tuple(replace(segment, entry={}) for segment in state.segments))
            state = replace(state, build=secrets.token_hex(8), generation=generation, segments=segments)
            state = self._write(folder, state)
        if self.path is None or own:
            self._state, self.path = state, folder

    def _segment(self, codes: PackedCodes, names: Ids, table: pa.Table | None, vectors: npt.NDArray | None) -> Segment:
        """Return a segment of these rows, ordered by id, with its structure."""
        if not (names[1:] > names[:-1]).all():
            order = np.argsort(names)
            codes, names = codes[order], names[order]
            table = None if table is None else table.take(order)
            vectors = None if vectors is None else vectors[order]
        consecutive = int(names[-1]) - int(names[0]) == len(names) - 1
        listed = group(codes) if len(codes) >= MIN_ROWS else None
        given: dict[str, Any] = {"ids": None if consecutive else names, "vectors": vectors}
        sizes = np.ones(len(codes), np.int64)
        if listed is not None:
            codes, sizes = listed.codes, listed.sizes
            given |= {"sizes": sizes.astype(np.uint32), "positions": listed.positions}
        structure = self._build(codes, sizes) if len(codes) >= MIN_ROWS else None
        arrays = {name: array for name, array in (given | {"codes": codes}).items() if array is not None}
        return Segment(arrays, int(names[0]), table, structure=structure)

    def _joined(self, segments: Sequence[Segment]) -> Segment:
        codes, names, tables, vectors = zip(*(segment.rows() for segment in segments), strict=True)
        table = None if tables[0] is None else pa.concat_tables(tables).combine_chunks()
        joined = None if vectors[0] is None else np.concatenate(vectors)
        return self._segment(np.concatenate(codes), np.concatenate(names), table, joined)

    def _merged(self, segments: list[Segment]) -> tuple[Segment, ...]:
        """Merge segments of the same size class, as long as one has at least ``MERGE`` segments."""
        while True:
            sizes: dict[int, list[Segment]] = {}
            for segment in segments:
                size = sum(len(segment) > SMALL * MERGE**step for step in range(32))
                sizes.setdefault(size, []).append(segment)
            many = next((group for group in sizes.values() if len(group) >= MERGE), None)
            if many is None:
                return tuple(segments)
            segments = [*(segment for segment in segments if segment not in many), self._joined(many)]

    def _compacted(self, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
        """Return one segment of all codes that are not removed, or no segment if all are removed."""
        if len(segments) == 1 and not len(segments[0].removed):
            return segments
        return (self._joined(segments),) if any(map(len, segments)) else ()

    @contextmanager
    def _changing(self) -> Iterator[SegmentState]:
        """Yield the newest state; no other writer can change it before the block ends."""
        if self.path is not None:
            read_manifest(self.path)  # if the index is gone, the lock would create its folder
        with self._writer, locked(self.path, self.patience) if self.path is not None else nullcontext():
            if self.path is not None:
                if read_manifest(self.path)["build"] != self.state.build:
                    raise _built_again(self.path)
                self.refresh()
            yield self.state

    def _commit(self, state: SegmentState) -> None:
        """Make this the next state, in the folder too; call it within ``_changing``."""
        if self.path is not None and self.outdated():  # replaced despite the lock
            raise _built_again(self.path)
        state = replace(state, generation=state.generation + 1)
        if self.path is None:
            self._state = state
            return
        self._state = self._write(self.path, state, self.state.segments)

    def _write(self, folder: Path, state: SegmentState, known: Sequence[Segment] = ()) -> SegmentState:
        """Write new segments, then the manifest; return the state with the segments opened there.

        Nothing fails after the manifest has its place. The files of a failed attempt are removed, and so are old ones.
        """
        stem = f"{state.generation:08d}."
        try:
            entries = [segment.stored(folder, f"{stem}{number}") for number, segment in enumerate(state.segments)]
            manifest = {
                **self._settings,
                "build": state.build,
                "generation": state.generation,
                "next_id": state.next_id,
                "schema": schema_to_text(state.schema),
                "kept": state.kept,
                "segments": entries,
            }
            segments = self._opened(folder, entries, state.kept, state.schema, known)
            return replace(state, segments=segments, checksum=write_manifest(folder, manifest))
        finally:
            sweep(folder)


def check_free(folder: Path, overwrite: bool) -> None:
    """Raise ``ValueError`` if a folder is a file, holds a model, or holds an index and ``overwrite`` is false."""
    check_folder(folder, "path")
    if (folder / "config.json").exists() and not (folder / NAME).exists():
        raise ValueError(f"path is {str(folder)!r}, which holds the config.json of a model; give another folder")
    if (folder / NAME).exists() and not overwrite:
        what = "which already holds an index; give another folder, or overwrite=True"
        raise ValueError(f"path is {str(folder)!r}, {what}")


def _first(parts: Sequence[Sequence[npt.NDArray]], queries: int, k: int) -> Sequence[npt.NDArray]:
    """Merge the results of segments: the first k distances, ids and Hamming distances, ``[queries, …]`` each."""
    none = np.empty((queries, 0), np.int64)
    parts = [(none.astype(np.float64), none, none.astype(np.int32)), *parts]
    found = [np.hstack(columns) for columns in zip(*parts, strict=True)]
    order = np.lexsort((found[1], found[0]), axis=1)[:, :k]
    return [np.take_along_axis(part, order, 1) for part in found]


@contextmanager
def locked(folder: Path, patience: float = PATIENCE) -> Iterator[None]:
    """Lock a folder for writing; ``LockedError`` if another writer holds it for more than ``patience`` seconds."""
    busy = f"index is {str(folder)!r}, which another writer has kept locked for {patience:g} s; try again later"
    with exclusive(folder, "index.lock", busy, patience):
        yield


def _built_again(folder: Path) -> ValueError:
    return ValueError(f"index is {str(folder)!r}, which was built again after it was opened; open it again")


def _as_stored(
    vectors: MaybeArray, count: int, kept: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any] | None, npt.NDArray | None]:
    """Return ``SegmentState.kept`` and the vectors to store, as uint8 (unchanged), float16 or int8.

    The first vectors set the scales of int8.
    """
    if kept is None:
        if vectors is not None:
            raise ValueError("vectors are given, and the index stores none; make one with vectors='embeddings'")
        return None, None
    if vectors is None:
        raise ValueError(f"vectors is missing; the index stores {kept['vectors']} of every code")
    array = as_numbers(vectors, "vectors", count, kept.get("dim"))
    dim = array.shape[1]
    dtype = kept.get("dtype", "float16")
    if array.dtype == np.uint8 and "dim" not in kept:
        dtype = "uint8"
    if dtype == "int8":
        check_finite(array, "vectors")
        scales = from_text(kept["scales"]) if "scales" in kept else scales_of(array)
        return {**kept, "dim": int(dim), "scales": to_text(scales)}, to_int8(array, scales)
    if dtype == "float16":
        check_finite(array, "vectors")
        array = to_float16(array)
    with np.errstate(invalid="ignore"):
        given, array = array, array.astype(dtype, copy=False)
    if dtype == "uint8" and (wrong := given[given != array]).size:
        raise ValueError(f"vectors holds {wrong[0]}; this index stores whole numbers from 0 to 255")
    return {**kept, "dtype": dtype, "dim": int(dim)}, array
