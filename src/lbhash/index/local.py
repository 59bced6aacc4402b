"""An index that searches in this process: over segments in memory, or in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.codes import PackedCodes, code_bytes
from lbhash.index import scan
from lbhash.index.attributes import check_where
from lbhash.index.base import Columns, Ids, MaybeArray, Neighbors, Where, Within
from lbhash.index.files import DamagedIndexError
from lbhash.index.manifest import files_of
from lbhash.index.segment import Segment
from lbhash.index.store import SegmentedIndex


class LocalIndex(SegmentedIndex):
    """An index that searches in its segments; the kinds differ in how they find candidates in a large segment."""

    def ids(self) -> npt.NDArray[np.int64]:
        """Return all ids, ``int64 [len]``, increasing."""
        return _ids_of(self.state.segments)

    def _search(self, queries: PackedCodes, k: int, where: Where) -> Neighbors:
        state = self.state
        check_where(where, state.columns)
        return scan.merge_nearest([part.nearest(queries, k, where) for part in state.segments], len(queries), k)

    def _range_search(self, queries: PackedCodes, radius: int, where: Where) -> Within:
        state = self.state
        check_where(where, state.columns)
        return scan.merge_within([part.within(queries, radius, where) for part in state.segments], len(queries))

    def _codes_of(self, ids: Ids) -> PackedCodes:
        found = np.empty((len(ids), code_bytes(self.bits)), np.uint8)
        for segment, places, positions in self.state.located(ids):
            found[places] = segment.codes_at(positions)
        return found

    def _vectors_of(self, ids: Ids) -> npt.NDArray:
        state = self.state
        if state.vectors is None:
            raise ValueError("index has no vectors yet; add codes first")
        found = np.empty((len(ids), state.vectors["dim"]), state.vectors["dtype"])
        for segment, places, positions in state.located(ids):
            found[places] = segment.vectors_at(positions)
        return found

    def _attributes_of(self, ids: Ids) -> pa.Table | None:
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
            "kept": self.vector_facts(self.state),
            "removed": sum(len(segment.removed) for segment in segments),
            "segments": len(segments),
            "bytes": self.stored_bytes,
        }

    @property
    def stored_bytes(self) -> int:
        """The size of the files that the index is read from."""
        return sum(file["bytes"] for segment in self.state.segments for file in files_of(segment.entry))

    def load(self) -> None:
        """Read all files now, and compare their checksums; what searches need stays in memory."""
        for segment in self.state.segments:
            segment.load()

    def verify(self) -> None:
        """Read all files and compare their checksums; ``ValueError`` if one has changed since it was written."""
        state = self.state
        segments = state.segments
        if self.path is not None:  # what is in memory may be older than what is in the folder now
            segments = self._opened(
                self.path, [part.entry for part in segments], state.schema, self.vector_facts(state)
            )
        for segment in segments:
            segment.load()
        if not (np.diff(_ids_of(segments)) > 0).all():
            raise DamagedIndexError("two codes have the same id")

    def _add(self, codes: PackedCodes, ids: MaybeArray, attributes: Columns | None, vectors: MaybeArray) -> None:
        if self.path is None:  # what the caller does to its arrays later must not reach the index
            codes, vectors = codes.copy(), None if vectors is None else np.array(vectors)
        self.insert(codes, ids, attributes, vectors)


def _ids_of(segments: Sequence[Segment]) -> npt.NDArray[np.int64]:
    return np.sort(np.concatenate([np.empty(0, np.int64), *(segment.ids() for segment in segments)]))
