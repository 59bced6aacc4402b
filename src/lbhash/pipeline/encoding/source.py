"""Rows of a data set and the model that encodes them, a batch at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.codes.io import CodeTable
from lbhash.codes.shards import Shard, shards_of
from lbhash.data import DATASETS, EmbeddingSplit, Split, check_embeddings
from lbhash.data.images import ImageTable
from lbhash.data.images.loading import Damage, ImageReader, in_workers
from lbhash.data.images.stores import file_facts
from lbhash.data.images.table import ImageSplit
from lbhash.hasher import Hasher
from lbhash.models.backbone import Backbone
from lbhash.pipeline.columns import open_columns
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.utils.fingerprint import fingerprint, sampled
from lbhash.utils.progress import counted
from lbhash.utils.system import usable_cores
from lbhash.utils.table_files import SUFFIXES, suffix_of


class Batch(NamedTuple):
    """Rows of a shard that are encoded at once: m places among all rows, embeddings ``[m, dim]``, damaged rows."""

    shard: Shard
    places: npt.NDArray[np.int64]
    embeddings: npt.NDArray
    damaged: tuple[Damage, ...] = ()


class EncodedShard(NamedTuple):
    """A shard with its codes, the rows without a code, and vectors ``[n, bits or dim]`` if they were asked for."""

    shard: Shard
    table: CodeTable
    damaged: list[Damage]
    vectors: npt.NDArray | None


class Source(ABC):
    """Rows of a data set, in ascending order, and the model that encodes them.

    The job has all that was found out about its data. Of images there are the table and the backbone too.
    """

    unit: ClassVar[str]
    """What a row is, in the plural."""

    def __init__(
        self,
        job: EncodingJob,
        hasher: Hasher,
        split: Split,
        images: ImageTable | None = None,
        backbone: Backbone | None = None,
        class_names: Sequence[Any] = (),
    ) -> None:
        dim = split.input_dim(backbone)
        if dim != hasher.model_.dim:
            said = f"embeddings have {dim} numbers a row; the model takes {hasher.model_.dim}"
            raise ValueError(f"{said} (data is {str(job.data)!r})")
        self.split, self.job, self.hasher, self.rows, self.labels = split, job, hasher, split.rows, split.labels
        self.backbone, self.model, self.class_names = backbone, hasher.model_.fingerprint(), class_names
        self._columns = open_columns(job.data, job.columns, images)

    @abstractmethod
    def batches(self, shards: Sequence[Shard]) -> Iterator[Batch]:
        """Read the rows of these shards, in their order; raise ``ValueError`` if one can be neither read nor skipped.

        A batch never crosses shards, so that the codes of a shard do not depend on who encodes it, or when.
        """

    @abstractmethod
    def data_metadata(self) -> dict[str, Any]:
        """Return the fingerprint of the data, that of a sample of their bytes, and what else the codes depend on."""

    def encode(
        self, shards: Sequence[Shard], advance: Callable[[int], None] = lambda rows: None, vectors: str = ""
    ) -> Iterator[EncodedShard]:
        """Encode shards one after the other, with the memory of a few batches and the codes of one shard.

        ``advance`` is told how many more rows are done. The vectors are ``outputs``, ℓ; ``embeddings``; or nothing.
        """
        model = self.hasher.model_
        arrays: list[npt.NDArray] = []  # places, codes and vectors of the shard
        filled = 0  # rows of the arrays
        damaged: list[Damage] = []
        for batch in self.batches(shards):
            made: list[npt.NDArray] = [batch.places, model.encode(batch.embeddings)]
            if vectors == "outputs":
                made.append(model.outputs(batch.embeddings).astype(np.float16))
            elif vectors == "embeddings":
                made.append(batch.embeddings)
            arrays = arrays or [np.empty((len(batch.shard), *values.shape[1:]), values.dtype) for values in made]
            for array, values in zip(arrays, made, strict=True):
                array[filled : filled + len(values)] = values
            filled += len(batch.places)
            damaged += batch.damaged
            advance(len(batch.places) + len(batch.damaged))
            if filled + len(damaged) == len(batch.shard):
                places, codes, *stored = (array[:filled] for array in arrays)
                rows = self.rows[places]
                labels = None if self.labels is None else self.labels[places]
                columns = None if self._columns is None else self._columns.take(rows).replace_schema_metadata(None)
                table = CodeTable(codes, self.hasher.bits, rows, labels, self.model, columns, self.class_names)
                yield EncodedShard(batch.shard, table, damaged, stored[0] if stored else None)
                arrays, filled, damaged = [], 0, []

    def encode_all(self, vectors: str = "", *, progress: bool) -> EncodedShard:
        """Encode all rows as one shard."""
        (shard,) = shards_of(len(self.rows), len(self.rows))
        with counted("encoding", len(shard), self.unit, show=progress) as advance:
            (encoded,) = self.encode([shard], advance, vectors)
        return encoded

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """The description of the codes in a manifest: sources with the same metadata give the same codes."""
        data = self.data_metadata()
        content: list[Any] = []
        for array in (self.rows, self.labels):
            content += ["none"] if array is None else [f"{array.dtype} {array.shape}", array]
        content += map(str, self.class_names)
        return {
            "model": self.model,
            "bits": self.hasher.bits,
            "data": Path(self.job.data).name,
            "fingerprint": data.pop("fingerprint"),
            "split": self.job.split,
            "carry": list(self.job.columns),
            **data,
            "rows": len(self.rows),
            "content": fingerprint(*content),
        }


class EmbeddingSource(Source):
    """Embeddings, in memory or read from a file as they are needed."""

    unit = "rows"
    chunk = 8192
    """Rows that are encoded at a time."""

    split: EmbeddingSplit

    def batches(self, shards: Sequence[Shard]) -> Iterator[Batch]:
        """Read the rows of these shards."""
        for shard, start, stop in _cut(shards, self.chunk):
            rows = self.rows[start:stop]
            embeddings = self.split.embeddings[rows]
            check_embeddings(embeddings, "embeddings of data", rows)
            yield Batch(shard, np.arange(start, stop), embeddings)

    def data_metadata(self) -> dict[str, Any]:
        """Return the fingerprints of the files' names, sizes and times of change, and of a sample of their bytes.

        Of a data set by name it is that of its rows.
        """
        job = self.job
        if str(job.data) in DATASETS:
            return {"fingerprint": self.split.fingerprint()}
        facts: list[bytes] = []
        files: list[Path] = []
        for path in (Path(name) for name in (job.data, job.base, job.query, job.labels) if name is not None):
            inside = sorted(file for file in path.iterdir() if suffix_of(file) in SUFFIXES) if path.is_dir() else [path]
            facts += [file_facts(file.parent, file.name) for file in inside]
            files += inside
        return {"fingerprint": fingerprint(*facts), "sample": fingerprint(sampled(Path(), files))}


class ImageSource(Source):
    """Images: decoded and preprocessed beside the model, embedded by a backbone, and encoded."""

    unit = "images"

    split: ImageSplit
    backbone: Backbone

    def batches(self, shards: Sequence[Shard]) -> Iterator[Batch]:
        """Read and embed the images of these shards."""
        job, backbone = self.job, self.backbone
        reader = ImageReader(self.split.images.store.in_order(), backbone.processor, backbone.name)
        size = job.batch_size or 32
        rows = (self.rows[start:stop] for _, start, stop in _cut(shards, size))
        made = in_workers(reader, rows, workers_of(job, backbone))
        for (shard, start, _), (pixels, read, damaged) in zip(_cut(shards, size), made, strict=True):
            if damaged and (job.images is None or job.images.damaged == "refuse"):
                advice = "mend or remove it, or skip damaged images (--damaged skip)"
                raise ValueError(f"{damaged[0].fault}; {advice}: the shards that are done are not lost")
            embeddings = np.empty((0, backbone.dim), np.float32)
            if pixels is not None:
                embeddings = backbone.embed_pixels(pixels, job.precision or "32")
            yield Batch(shard, start + read, embeddings, damaged)

    def data_metadata(self) -> dict[str, Any]:
        """Return the fingerprints of images and backbone, and the backbone's precision."""
        store = self.split.images.store
        facts = {"fingerprint": store.fingerprint(), "sample": fingerprint(store.sample())}
        return {**facts, "backbone": self.backbone.fingerprint(), "precision": self.job.precision or "32"}


def workers_of(job: EncodingJob, backbone: Backbone) -> int:
    """Return how many processes decode images: as the job says, or one less than the usable cores, up to 8.

    On a CPU of two cores there are none: the model's threads wait for each other, and a third process makes them wait
    longer than it saves (``benchmarks/encode.py``).
    """
    if job.workers is not None:
        return job.workers
    cores = usable_cores()
    return 0 if backbone.model.device.type == "cpu" and cores <= 2 else min(cores - 1, 8)


def _cut(shards: Sequence[Shard], size: int) -> Iterator[tuple[Shard, int, int]]:
    """Yield each batch as its shard, its first row and the row after its last."""
    for shard in shards:
        for start in range(shard.start, shard.stop, size):
            yield shard, start, min(start + size, shard.stop)
