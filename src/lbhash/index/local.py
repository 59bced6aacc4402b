"""An index that searches in this process: over segments in memory, or in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.codes import PackedCodes, check_bits, code_bytes
from lbhash.index import scan
from lbhash.index.attributes import check_where
from lbhash.index.base import Columns, Index, Neighbors, OptionRanges, Where, Within, check_options
from lbhash.index.files import Mapped
from lbhash.index.manifest import files_of
from lbhash.index.store import SegmentState, SegmentStore
from lbhash.utils.validation import check_choice


class LocalIndex(Index):
    """An index whose codes are in segments; the kinds differ in how they find candidates in a large segment.

    The arguments are the attributes of ``Index``.
    """

    OPTIONS: ClassVar[OptionRanges] = {}

    def __init__(
        self, bits: int, *, model: str = "", options: Mapping[str, Any] | None = None, store_vectors: str = ""
    ) -> None:
        if store_vectors:
            check_choice(store_vectors, "store_vectors", ("outputs", "embeddings"))
        self.bits, self.model, self.store_vectors = check_bits(bits), model, store_vectors
        self.options = check_options(options, self.OPTIONS, self.kind)
        settings = {"kind": self.kind, "options": self.options, "bits": self.bits, "model": model}
        self.store = SegmentStore(settings, store_vectors, self._build, self._tune)

    def _build(self, codes: PackedCodes) -> Any:
        """Return a FAISS index over codes, in their order; None for a kind that scans."""
        return None

    def _tune(self, structure: Any) -> None:
        """Set how thoroughly a FAISS index of ``_build`` searches."""

    @property
    def state(self) -> SegmentState:
        """The segments that are open, and what belongs to all of them."""
        return self.store.state

    @property
    def path(self) -> Path | None:
        """The folder of the index; None in memory."""
        return self.store.folder

    def __len__(self) -> int:
        return len(self.state)

    def ids(self) -> npt.NDArray[np.int64]:
        """Return all ids, ``int64 [len]``, increasing."""
        return np.sort(np.concatenate([np.empty(0, np.int64), *(segment.ids() for segment in self.state.segments)]))

    def _search(self, queries: PackedCodes, k: int, where: Where) -> Neighbors:
        state = self.state
        check_where(where, state.columns)
        return scan.merge_nearest([part.nearest(queries, k, where) for part in state.segments], len(queries), k)

    def _range_search(self, queries: PackedCodes, radius: int, where: Where) -> Within:
        state = self.state
        check_where(where, state.columns)
        return scan.merge_within([part.within(queries, radius, where) for part in state.segments], len(queries))

    def _codes_of(self, ids: npt.NDArray[np.int64]) -> PackedCodes:
        return self.state.gathered(ids, "codes", np.empty((len(ids), code_bytes(self.bits)), np.uint8))

    def _vectors_of(self, ids: npt.NDArray[np.int64]) -> npt.NDArray:
        state = self.state
        if state.vectors is None:
            raise ValueError("index has no vectors yet; add codes first")
        return state.gathered(ids, "vectors", np.empty((len(ids), state.vectors["dim"]), state.vectors["dtype"]))

    def _attributes_of(self, ids: npt.NDArray[np.int64]) -> pa.Table | None:
        state = self.state
        located = state.located(ids)
        if not state.schema:
            return None
        order = np.argsort(np.concatenate([np.empty(0, np.int64), *(places for _, places, _ in located)]))
        tables = [segment.attributes().take(pa.array(positions)) for segment, _, positions in located]
        return pa.concat_tables([*tables, state.schema.empty_table()]).take(pa.array(order)).combine_chunks()

    def info(self) -> dict[str, Any]:
        """Return the facts about the index, with the number and the size of its segments."""
        segments = self.state.segments
        return super().info() | {
            "kept": self.store.vector_facts(self.state),
            "removed": sum(len(segment.removed) for segment in segments),
            "segments": len(segments),
            "bytes": sum(file["bytes"] for segment in segments for file in files_of(segment.entry)),
        }

    def verify(self) -> None:
        """Read all files and compare their checksums; ``ValueError`` if one has changed since it was written."""
        for segment in self.state.segments:
            if self.path is not None:
                for entry in files_of(segment.entry):
                    Mapped(self.path, entry).checked()
            segment.check_order()
            if segment.table is not None:
                segment.attributes()
            if segment.structure is not None:
                segment.structure.index()
        if not (np.diff(self.ids()) > 0).all():
            raise ValueError("index is damaged: two codes have the same id")

    def outdated(self) -> bool:
        """Return whether the folder holds another generation than this one, or another build."""
        return self.store.outdated()

    def _add(
        self, codes: PackedCodes, ids: npt.ArrayLike | None, attributes: Columns | None, vectors: npt.ArrayLike | None
    ) -> None:
        if self.path is None:  # what the caller does to its arrays later must not reach the index
            codes, vectors = codes.copy(), None if vectors is None else np.array(vectors)
        self.store.add(codes, ids, attributes, vectors)

    def _remove(self, ids: npt.NDArray[np.int64]) -> None:
        self.store.remove(ids)

    def compact(self) -> None:
        """Make one segment of all, without the removed codes: searches return the same, as fast as they can."""
        self.store.compact()

    def save(self, path: str | Path) -> None:
        """Write a copy of the index to a folder, as one segment. The index itself stays where it is."""
        self.store.copy(path)

    def refresh(self) -> bool:
        """Read what the folder holds now, and return whether that was another state (``SegmentStore.refresh``)."""
        return self.store.refresh()
