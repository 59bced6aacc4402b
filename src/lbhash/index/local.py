"""An index of segments: in memory, or in a folder that survives whatever happens to its writer.

A folder holds immutable files and one manifest that names them. A change writes new files beside the old ones, makes
sure that the disk has them, and renames a new manifest into place: that rename is the change. Whoever has the index
open goes on reading the files that it opened. Adding writes the new codes only; where many small segments have
gathered, they are merged into a larger one, so that a code is rewritten a few times in its life at most.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, check_bits, code_bytes
from lbhash.index import scan
from lbhash.index.attributes import as_table, check_where, label_column
from lbhash.index.base import Attributes, Index, Neighbors, Where, Within, check_ids
from lbhash.index.files import Mapped
from lbhash.index.manifest import NAME, identity_of, last_generation, new_build, read_manifest, sweep, write_manifest
from lbhash.index.options import check_options
from lbhash.index.segment import Segment, files_of
from lbhash.index.structure import MIN_ROWS, Structure
from lbhash.utils.files import check_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from filelock import FileLock

MERGE = 8
"""Segments of about the same size of which one is made."""
SMALL = 4096
"""Codes up to which segments count as of the same size; each further size is ``MERGE`` times as large."""
REMOVED = 0.25
"""Share of removed codes from which a segment is rewritten without them."""
PATIENCE = 600
"""Seconds that a writer waits for another."""


@dataclass(frozen=True)
class State:
    """What one generation of an index holds."""

    build: str = ""  # of an index in memory, none
    generation: int = 0
    model: str = ""
    next_id: int = 0
    schema: pa.Schema | None = None  # of the attributes; None until there have been codes
    kept: Mapping[str, Any] | None = None  # kind, dtype and dim of the vectors
    segments: tuple[Segment, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.segments))

    @property
    def identity(self) -> tuple[str, int]:
        """What tells it from every other state that its folder ever has."""
        return self.build, self.generation


class LocalIndex(Index):
    """What the kinds have in common. Each says how it builds and tunes the structure of a segment.

    Args:
        bits: h, the length of a code.
        model: fingerprint of the model that makes the codes.
        options: of the kind.
        keep: what vectors come with the codes, ``outputs`` or ``embeddings``; empty for none.
    """

    OPTIONS: ClassVar[Mapping[str, tuple[int | None, int]]] = {}

    def __init__(self, bits: int, *, model: str = "", options: Mapping[str, Any] | None = None, keep: str = "") -> None:
        self.bits = check_bits(bits)
        self.options = check_options(options, self.OPTIONS, self.kind)
        if keep not in ("", "outputs", "embeddings"):
            raise ValueError(f"keep is {keep!r}; it must be outputs or embeddings, or empty")
        self.kept = keep
        self.path: Path | None = None
        self._writer = RLock()
        self._adopt(State(model=model))

    def _build(self, codes: PackedCodes) -> Any:
        """A FAISS index over codes, in their order; ``None`` for a kind that scans."""
        return None

    def _tune(self, structure: Any) -> None:
        """Set what a search by a FAISS index of ``_build`` is to do."""

    # ------------------------------------------------------------------------------------------------------- reading

    def __len__(self) -> int:
        return len(self._state)

    def search(self, codes: npt.ArrayLike, k: int, *, where: Where | None = None) -> Neighbors:
        """As of every index (``Index.search``)."""
        state = self._state
        rows, k = self.check(codes), self.check_k(k)
        check_where(where or {}, state.schema.names if state.schema is not None else ())
        parts = [segment.nearest(rows, k, where or None) for segment in state.segments]
        return scan.first(parts, len(rows), k)

    def range_search(self, codes: npt.ArrayLike, radius: int, *, where: Where | None = None) -> Within:
        """As of every index (``Index.range_search``)."""
        state = self._state
        rows, radius = self.check(codes), self.check_radius(radius)
        check_where(where or {}, state.schema.names if state.schema is not None else ())
        parts = [segment.within(rows, radius, where or None) for segment in state.segments]
        return scan.all_within(parts, len(rows))

    def ids(self) -> npt.NDArray[np.int64]:
        """All ids, ``int64 [len]``, rising."""
        return np.sort(np.concatenate([np.empty(0, np.int64), *(part.ids() for part in self._state.segments)]))

    def codes_of(self, ids: npt.ArrayLike) -> PackedCodes:
        """Codes of these ids, ``uint8 [m, ceil(bits / 8)]``."""
        state = self._state
        found = np.empty((len(np.asarray(ids)), code_bytes(self.bits)), np.uint8)
        for segment, rows, positions in _located(state, ids):
            found[rows] = segment.codes[positions]
        return found

    def vectors_of(self, ids: npt.ArrayLike) -> npt.NDArray:
        """Kept vectors of these ids, ``[m, dim]`` of float16 or uint8."""
        state = self._state
        if not self.kept or state.kept is None:
            raise ValueError("index keeps no vectors; build it with keep outputs or embeddings")
        found = np.empty((len(np.asarray(ids)), state.kept["dim"]), state.kept["dtype"])
        for segment, rows, positions in _located(state, ids):
            assert segment.vectors is not None
            found[rows] = segment.vectors[positions]
        return found

    def attributes_of(self, ids: npt.ArrayLike) -> pa.Table:
        """A row for each of these ids: the column ``id``, then the attributes."""
        import pyarrow as pa

        state = self._state
        names = check_ids(ids, repeat=True)
        parts, order = [], [np.empty(0, np.int64)]
        for segment, rows, positions in _located(state, names):
            if segment.table is not None:
                parts.append(segment.read().take(pa.array(positions)))
            order.append(rows)
        schema = state.schema if state.schema is not None else pa.schema([])
        table = pa.table({"id": pa.array(names)})
        if not schema.names:
            return table
        gathered = pa.concat_tables([*parts, schema.empty_table()]).take(pa.array(np.argsort(np.concatenate(order))))
        for field in schema:
            table = table.append_column(field, gathered[field.name])
        return table.combine_chunks()

    def info(self) -> dict[str, Any]:
        """Kind, size and what else the manifest says."""
        state = self._state
        return {
            "kind": self.kind,
            "bits": self.bits,
            "codes": len(self),
            "removed": sum(len(segment.removed) for segment in state.segments),
            "build": self.build,
            "generation": self.generation,
            "model": self.model,
            "options": dict(self.options),
            "attributes": {field.name: str(field.type) for field in state.schema or ()},
            "label": self.label,
            "kept": {"vectors": self.kept, **(state.kept or {})} if self.kept else None,
            "segments": len(state.segments),
            "bytes": sum(file["bytes"] for segment in state.segments for file in files_of(segment.entry)),
        }

    # ------------------------------------------------------------------------------------------------------- writing

    def add(
        self,
        codes: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        attributes: pa.Table | Attributes | None = None,
        *,
        vectors: npt.ArrayLike | None = None,
    ) -> None:
        """As of every index (``Index.add``). Of an index in a folder the folder has them when this returns."""
        if self.path is None:  # what the caller does to its arrays later must not reach the index
            codes, vectors = np.array(codes), None if vectors is None else np.array(vectors)
        self._add(codes, ids, attributes, vectors)

    def _add(
        self,
        codes: npt.ArrayLike,
        ids: npt.ArrayLike | None,
        attributes: pa.Table | Attributes | None,
        vectors: npt.ArrayLike | None,
    ) -> None:
        rows = self.check(codes)
        names = None if ids is None else check_ids(ids, len(rows))
        with self._changing() as state:
            if names is None:
                if state.next_id + len(rows) > 2**63:
                    raise ValueError("ids are not given, and none are left above the largest of the index")
                names = np.arange(state.next_id, state.next_id + len(rows))
            for segment in state.segments:
                if (there := segment.find(names) >= 0).any():
                    raise ValueError(
                        f"ids holds {names[there][0]}, which the index already has; remove it first, or give another"
                    )
            table = as_table(attributes, len(rows), state.schema)
            kept, stored = _vectors(vectors, len(rows), self.kept, state.kept)
            if not len(rows):
                return
            segment = self._segment(rows, names, table if table.column_names else None, stored)
            added = replace(
                state,
                next_id=max(state.next_id, int(names.max()) + 1),
                schema=table.schema if state.schema is None else state.schema,
                kept=kept,
                segments=(*state.segments, segment),
            )
            self._commit(self._merged(added))

    def remove(self, ids: npt.ArrayLike) -> int:
        """As of every index (``Index.remove``). Codes are marked; a segment with many marks is rewritten."""
        names = check_ids(ids)
        with self._changing() as state:
            located = {id(segment): positions for segment, _, positions in _located(state, names)}
            if not len(names):
                return 0
            segments = []
            for segment in state.segments:
                if id(segment) in located:
                    segment = segment.without(located[id(segment)])
                    if len(segment.removed) > REMOVED * len(segment.codes):
                        segments += [self._segment(*segment.rows())] if len(segment) else []
                        continue
                segments.append(segment)
            self._commit(replace(state, segments=tuple(segments)))
        return len(names)

    def compact(self) -> None:
        """Make one segment of all, without the removed codes. Searches are the same, and as quick as they can be."""
        with self._changing() as state:
            if len(state.segments) > 1 or any(len(segment.removed) for segment in state.segments):
                merged = (self._joined(state.segments),) if len(state) else ()
                self._commit(replace(state, segments=merged))

    def save(self, path: str | Path) -> None:
        """Write all of it to a folder as one segment. The index itself stays where it is.

        Raises:
            ValueError: the folder holds an index.
        """
        write_index(self, path)

    def attach(self, folder: Path) -> None:
        """Take over what a folder holds; changes are written to it from then on."""
        self._adopt(_read_state(folder, self))
        self.path = folder

    def outdated(self) -> bool:
        """Whether the folder holds another generation than this one, or another build."""
        return self.path is not None and identity_of(self.path) != self._state.identity

    def refresh(self) -> bool:
        """Read what the folder holds by now; whether that is something newer.

        Raises:
            ValueError: it was built anew with another model, kind, options or length of codes; or it is damaged.
        """
        with self._writer:
            if self.path is None or not self.outdated():
                return False
            self._adopt(_read_state(self.path, self, self._state))
            return True

    def verify(self) -> None:
        """Read all files and compare their checksums; ``ValueError`` where anything is not as it was written."""
        state = self._state
        for segment in state.segments:
            if self.path is not None:
                for entry in files_of(segment.entry):
                    Mapped(self.path, entry).checked()
            segment.check_order()
            if segment.table is not None:
                segment.read()
            if segment.structure is not None:
                segment.structure.index()
        if not (np.diff(self.ids()) > 0).all():
            raise ValueError("index is damaged: two codes have the same id")

    # ------------------------------------------------------------------------------------------------------ segments

    def _segment(
        self,
        codes: PackedCodes,
        names: npt.NDArray[np.int64],
        table: pa.Table | None,
        vectors: npt.NDArray | None,
    ) -> Segment:
        """A segment of these rows, ordered by id, with its structure."""
        if not (names[1:] > names[:-1]).all():
            order = np.argsort(names)
            codes, names = codes[order], names[order]
            table = None if table is None else table.take(order)
            vectors = None if vectors is None else vectors[order]
        consecutive = int(names[-1]) - int(names[0]) == len(names) - 1
        structure = None
        if len(codes) >= MIN_ROWS:
            built = self._build(codes)
            structure = None if built is None else Structure(built, len(codes), codes.shape[1], self._tune)
        return Segment(codes, int(names[0]), None if consecutive else names, table, vectors, structure=structure)

    def _joined(self, segments: tuple[Segment, ...]) -> Segment:
        import pyarrow as pa

        codes, names, tables, vectors = zip(*(segment.rows() for segment in segments), strict=True)
        table = None if tables[0] is None else pa.concat_tables(tables).combine_chunks()
        joined = None if vectors[0] is None else np.concatenate(vectors)
        return self._segment(np.concatenate(codes), np.concatenate(names), table, joined)

    def _merged(self, state: State) -> State:
        """The state with ``MERGE`` segments of one size made into one, as often as there are such."""
        segments = list(state.segments)
        while True:
            sizes: dict[int, list[Segment]] = {}
            for segment in segments:
                sizes.setdefault(_size(segment), []).append(segment)
            many = next((group for group in sizes.values() if len(group) >= MERGE), None)
            if many is None:
                return replace(state, segments=tuple(segments))
            segments = [segment for segment in segments if all(segment is not other for other in many)]
            segments.append(self._joined(tuple(many)))

    # -------------------------------------------------------------------------------------------------------- states

    def _adopt(self, state: State) -> None:
        self._state = state
        self.build = state.build
        self.generation = state.generation
        self.model = state.model
        self.label = label_column(state.schema)

    @contextmanager
    def _changing(self) -> Iterator[State]:
        """The newest state, while no other writer may change it.

        Raises:
            ValueError: the index was built anew, so that what is to be changed is no longer there.
        """
        with self._writer:
            if self.path is None:
                yield self._state
                return
            with locked(self.path):
                if identity_of(self.path)[0] != self.build:
                    raise _built_anew(self.path)
                self.refresh()
                yield self._state

    def _commit(self, state: State) -> None:
        """Make this the index's state, in its folder too. Only within ``_changing``."""
        if self.path is not None and identity_of(self.path) != state.identity:  # moved or replaced despite the lock
            raise _built_anew(self.path)
        state = replace(state, generation=state.generation + 1)
        if self.path is None:
            self._adopt(state)
            return
        manifest = store(self.path, self, state)
        self._adopt(replace(state, segments=_load_segments(self.path, self, manifest, state.segments)))
        sweep(self.path, _names(manifest))


def write_index(index: LocalIndex, path: str | Path, *, overwrite: bool = False) -> None:
    """Write all of an index to a folder as one segment.

    Args:
        index: of whatever kind.
        path: the folder; it is made where there is none.
        overwrite: replace the index that the folder holds; its readers go on with theirs.
    """
    folder = Path(path)
    check_free(folder, overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        check_free(folder, overwrite)
        generation = last_generation(folder) + 1
        held = index._state
        segments = tuple(replace(segment, entry={}) for segment in held.segments)
        if len(segments) > 1 or any(len(segment.removed) for segment in segments):
            segments = (index._joined(segments),) if len(held) else ()
        built = replace(held, build=new_build(), generation=generation, segments=segments)
        manifest = store(folder, index, built)
        sweep(folder, _names(manifest))


def check_free(folder: Path, overwrite: bool) -> None:
    """Raise ``ValueError`` where a folder is a file, or holds an index that is not to be replaced."""
    check_folder(folder, "out")
    if (folder / NAME).exists() and not overwrite:
        raise ValueError(f"out is {str(folder)!r}, which already holds an index; give another folder, or --overwrite")


def store(folder: Path, index: LocalIndex, state: State) -> dict[str, Any]:
    """Write what a state has in memory only, then the manifest; returns it. Files of a failed attempt are removed."""
    before = {file.name for file in folder.iterdir()}
    try:
        entries = [
            segment.stored(folder, f"{state.generation:08d}.{number}") for number, segment in enumerate(state.segments)
        ]
        manifest = _manifest(index, state, entries)
        write_manifest(folder, manifest)
    except BaseException:
        if not _is_committed(folder, state):
            for file in folder.iterdir():
                if file.name.startswith(f"{state.generation:08d}.") and file.name not in before:
                    with suppress(OSError):
                        file.unlink()
        raise
    return manifest


@contextmanager
def locked(folder: Path) -> Iterator[FileLock]:
    """Be the only writer of a folder.

    Raises:
        ValueError: another writer has kept it for too long.
    """
    from filelock import FileLock, Timeout

    try:
        with FileLock(folder / "index.lock").acquire(timeout=PATIENCE) as lock:
            yield lock
    except Timeout:
        raise ValueError(
            f"index is {str(folder)!r}, which another writer has kept locked for {PATIENCE} s; try again later"
        ) from None


def _manifest(index: LocalIndex, state: State, entries: list[dict[str, Any]]) -> dict[str, Any]:
    schema = None if state.schema is None else base64.b64encode(state.schema.serialize()).decode()
    return {
        "kind": index.kind,
        "options": index.options,
        "bits": index.bits,
        "count": len(state),
        "build": state.build,
        "generation": state.generation,
        "next_id": state.next_id,
        "model": state.model,
        "label": label_column(state.schema),
        "attributes": {field.name: str(field.type) for field in state.schema or ()},
        "schema": schema,  # Arrow's own form of the same
        "kept": {"vectors": index.kept, **(state.kept or {})} if index.kept else None,
        "segments": entries,
    }


def _read_state(folder: Path, index: LocalIndex, known: State | None = None) -> State:
    """What a folder holds; segments of the same build that are known are kept.

    Between the reading of the manifest and that of a file a writer may sweep the file, or the folder may become another
    whose files have the same names.
    """
    import pyarrow as pa

    while True:
        manifest = read_manifest(folder)
        kept = manifest["kept"]
        identity = manifest["build"], manifest["generation"]
        made = [manifest[name] for name in ("kind", "bits", "model", "options")] + [kept["vectors"] if kept else ""]
        if made != [index.kind, index.bits, index.model, index.options, index.kept]:
            raise ValueError(f"index is {str(folder)!r}, which was built anew as another; open it again")
        try:
            there = known.segments if known and known.build == manifest["build"] else ()
            segments = _load_segments(folder, index, manifest, there)
            if identity_of(folder)[0] == manifest["build"]:
                break
        except FileNotFoundError as error:
            if identity_of(folder) == identity:
                raise ValueError(f"index is damaged: {Path(error.filename).name} is missing") from None
        except ValueError:
            if identity_of(folder)[0] == manifest["build"]:
                raise
    return State(
        build=manifest["build"],
        generation=manifest["generation"],
        model=manifest["model"],
        next_id=manifest["next_id"],
        schema=pa.ipc.read_schema(pa.py_buffer(base64.b64decode(manifest["schema"]))) if manifest["schema"] else None,
        kept={"dtype": kept["dtype"], "dim": kept["dim"]} if kept and "dim" in kept else None,
        segments=segments,
    )


def _load_segments(
    folder: Path, index: LocalIndex, manifest: dict[str, Any], known: tuple[Segment, ...] = ()
) -> tuple[Segment, ...]:
    """The segments that a manifest names; those that are known, with what they have read so far, are kept."""
    width, kept = code_bytes(index.bits), manifest["kept"]
    segments = []
    for entry in manifest["segments"]:
        segment = next((segment for segment in known if segment.entry.get("codes") == entry["codes"]), None)
        if segment is None:

            def structure(mapped: Mapped, rows: int = entry["rows"]) -> Structure:
                return Structure(mapped, rows, width, index._tune)

            segment = Segment.load(folder, entry, width, kept, structure)
        elif segment.entry != entry:
            segment = segment.marked(folder, entry)
        segments.append(segment)
    return tuple(segments)


def _names(manifest: dict[str, Any]) -> set[str]:
    return {file["file"] for entry in manifest["segments"] for file in files_of(entry)}


def _built_anew(folder: Path) -> ValueError:
    return ValueError(f"index is {str(folder)!r}, which was built anew since it was opened; open it again")


def _is_committed(folder: Path, state: State) -> bool:
    try:
        return identity_of(folder) == state.identity
    except (OSError, ValueError):
        return False


def _size(segment: Segment) -> int:
    size, limit = 0, SMALL
    while len(segment) > limit:
        size, limit = size + 1, limit * MERGE
    return size


def _located(
    state: State, ids: npt.ArrayLike
) -> Iterator[tuple[Segment, npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Segments with the places in ``ids`` of those that they have, and their positions in the segment."""
    names = check_ids(ids, repeat=True)
    found = []
    missing = np.ones(len(names), bool)
    for segment in state.segments:
        positions = segment.find(names)
        rows = np.flatnonzero(positions >= 0)
        missing[rows] = False
        if len(rows):
            found.append((segment, rows, positions[rows]))
    if missing.any():
        for segment in state.segments:
            segment.check_order()
        raise ValueError(f"ids holds {names[missing][0]}, which the index does not have")
    return iter(found)


def _vectors(
    vectors: npt.ArrayLike | None, count: int, keep: str, kept: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any] | None, npt.NDArray | None]:
    """Vectors as they are kept, and what the index remembers of them; uint8 stays, anything else becomes float16."""
    if not keep:
        if vectors is not None:
            raise ValueError("vectors are given, and the index keeps none; build it with keep outputs or embeddings")
        return None, None
    if vectors is None:
        raise ValueError(f"vectors are not given, and the index keeps {keep} for every code")
    array = np.asarray(vectors)
    dim = array.shape[1] if array.ndim == 2 else 0
    if array.ndim != 2 or len(array) != count or not dim or (kept and dim != kept["dim"]):
        wanted = f"[{count}, {kept['dim'] if kept else 'dim'}]"
        raise ValueError(f"vectors has shape {array.shape}; it must be {wanted}, one for each code")
    if array.dtype.kind not in "biuf":
        raise TypeError(f"vectors holds {array.dtype}; it must hold numbers")
    dtype = np.dtype(kept["dtype"]) if kept else np.dtype(np.uint8 if array.dtype == np.uint8 else np.float16)
    if array.dtype != dtype:
        if dtype == np.uint8:
            raise TypeError(f"vectors holds {array.dtype}; the index keeps uint8")
        with np.errstate(over="ignore"):
            array = array.astype(np.float16)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise ValueError(f"vectors holds what float16 cannot in row {row}: NaN, or more than 65,504")
    return {"dtype": str(dtype), "dim": int(dim)}, array
