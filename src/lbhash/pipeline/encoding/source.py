"""Rows to encode, read and encoded a batch at a time."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes
from lbhash.codes.shards import Shard
from lbhash.data import EmbeddingSplit, check_embeddings
from lbhash.data.images.loading import Damage

if TYPE_CHECKING:
    import pyarrow as pa

    from lbhash.hasher import Hasher
    from lbhash.pipeline.columns import Carried


@dataclass(frozen=True)
class Batch:
    """What has been encoded at once, all of one shard.

    Attributes:
        shard: the shard.
        places: which rows have a code, counted among the rows that are encoded, ``int64 [m]``.
        codes: of these, ``uint8 [m, ceil(bits / 8)]``.
        damaged: the other rows.
    """

    shard: Shard
    places: npt.NDArray[np.int64]
    codes: PackedCodes
    damaged: tuple[Damage, ...] = ()

    def __len__(self) -> int:
        return len(self.places) + len(self.damaged)


class Source(ABC):
    """Rows of a data set and the model that encodes them.

    Args:
        hasher: the model.
        rows: which rows of the data are encoded, ``int64 [n]``, rising.
        labels: of these, ``int64 [n]`` or multi-hot; ``None`` where there are none.
        about: what the data are, for the manifest.
        carried: further columns of the data.

    Attributes:
        unit: what a row is, in the plural.
    """

    unit: ClassVar[str]

    def __init__(
        self,
        hasher: Hasher,
        rows: npt.NDArray[np.int64],
        labels: npt.NDArray | None,
        about: dict[str, Any],
        carried: Carried | None = None,
    ) -> None:
        self.hasher, self.rows, self.labels, self.about, self._carried = hasher, rows, labels, about, carried

    @abstractmethod
    def batches(self, shards: Sequence[Shard]) -> Iterator[Batch]:
        """Encode the rows of these shards, in their order.

        Raises:
            TypeError, ValueError: a row cannot be encoded, and is not to be skipped.
        """

    def further(self, rows: npt.NDArray[np.int64]) -> pa.Table | None:
        """The further columns of these rows of the data."""
        return None if self._carried is None else self._carried.take(rows).replace_schema_metadata(None)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What a folder of codes says that it holds: of two sources that say the same, the codes are the same."""
        return {
            "model": self.hasher.model_.fingerprint(),
            "bits": self.hasher.bits,
            **self.about,
            "rows": len(self.rows),
            "content": digest_of(self.rows, self.labels),
        }


class EmbeddingSource(Source):
    """Embeddings, as files hold them."""

    unit = "rows"
    chunk = 8192
    """Rows that are encoded at a time."""

    def __init__(
        self, hasher: Hasher, part: EmbeddingSplit, about: dict[str, Any], carried: Carried | None = None
    ) -> None:
        if part.dim != hasher.model_.dim:
            raise ValueError(f"embeddings have {part.dim} numbers a row; the model takes {hasher.model_.dim}")
        super().__init__(hasher, part.rows, part.labels, about, carried)
        self._part = part

    def batches(self, shards: Sequence[Shard]) -> Iterator[Batch]:
        """As of every source."""
        for shard in shards:
            for start in range(shard.start, shard.stop, self.chunk):
                places = np.arange(start, min(start + self.chunk, shard.stop))
                embeddings = self._part.embeddings[self.rows[places]]
                check_embeddings(embeddings, "embeddings of data", self.rows[places])
                yield Batch(shard, places, self.hasher.model_.encode(embeddings))


def mark_of(identity: Mapping[str, Any]) -> str:
    """16 hexadecimal digits that stand for the identity of a source in the files of its codes."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


def digest_of(*arrays: npt.NDArray | None) -> str:
    """16 hexadecimal digits that identify arrays: of a SHA-256 of their types, shapes and numbers."""
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none")
        else:
            digest.update(f"{array.dtype} {array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:16]
