"""Rows of a data set and the model that encodes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.codes.io import CodeTable, convert_arrow
from lbhash.data.images import ImageTable
from lbhash.data.images.stores import file_facts
from lbhash.data.loading import DATASETS
from lbhash.data.split import Split
from lbhash.hasher import Hasher
from lbhash.models.backbone import Backbone
from lbhash.pipeline.batches import Batch, embedding_batches, image_batches, joined
from lbhash.pipeline.columns import open_columns
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.utils.fingerprint import fingerprint, sampled
from lbhash.utils.parts import Damage, Parts
from lbhash.utils.progress import counted
from lbhash.utils.table_files import SUFFIXES, suffix_of


class Encoded(NamedTuple):
    """A part with its codes, the rows without a code, and vectors ``[n, bits or dim]`` if requested."""

    part: range
    table: CodeTable
    damaged: list[Damage]
    vectors: npt.NDArray | None


class Source:
    """Rows of a data set, in ascending order, and the model that encodes them.

    The job also has the facts found about its data. A split of images needs the backbone. ``images`` is the table of
    images, also if the split has their embeddings.
    """

    def __init__(
        self,
        job: EncodingJob,
        hasher: Hasher,
        split: Any,
        images: ImageTable | None = None,
        backbone: Backbone | None = None,
        class_names: Sequence[Any] = (),
    ) -> None:
        dim = split.input_dim(backbone)
        if dim != hasher.model_.dim:
            said = f"embeddings have {dim} numbers a row; the model takes {hasher.model_.dim}"
            raise ValueError(f"{said} (data is {str(job.data)!r})")
        self.split: Split = split
        self.job, self.hasher, self.rows, self.labels = job, hasher, split.rows, split.labels
        self.backbone, self.model, self.class_names = backbone, hasher.model_.fingerprint(), class_names
        self._content = split.embeddings if backbone is None else split.images.store
        self.unit = getattr(self._content, "unit", "rows")
        self._columns = open_columns(job.data, job.metadata, images, job.like)

    def encode(
        self, parts: Sequence[range], advance: Callable[[int], None] = lambda rows: None, vectors: str = ""
    ) -> Iterator[Encoded]:
        """Encode parts of the rows one after the other, and call ``advance`` with the number of finished rows.

        ``vectors`` is ``outputs`` (ℓ), ``embeddings`` or empty. Raises ``ValueError`` for a damaged row unless damaged
        rows are skipped.
        """
        for part, places, (codes, *stored), damaged in joined(self._codes(parts, vectors), advance):
            rows = self.rows[places]
            labels = None if self.labels is None else self.labels[places]
            columns = None if self._columns is None else self._columns.take(rows).replace_schema_metadata(None)
            table = CodeTable(codes, self.hasher.bits, rows, labels, self.model, columns, self.class_names)
            yield Encoded(part, table, list(damaged), stored[0] if stored else None)

    def write(self, parts: Sequence[range], folder: Parts, advance: Callable[[int], None] = lambda rows: None) -> None:
        """Encode parts of the rows into a folder."""
        for made in self.encode(parts, advance):
            folder.write(made.part, convert_arrow(made.table), made.damaged)

    def encode_all(self, vectors: str = "", *, progress: bool) -> Encoded:
        """Encode all rows as one part."""
        with counted("encoding", len(self.rows), self.unit, show=progress) as advance:
            (encoded,) = self.encode([range(len(self.rows))], advance, vectors)
        return encoded

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The facts that determine the codes, for a manifest: sources with the same facts give the same codes."""
        of_images: dict[str, Any] = {}
        if self.backbone is not None:
            of_images = {"backbone": self.backbone.fingerprint(), "precision": self.job.precision or "32"}
        content: list[Any] = []
        for array in (self.rows, self.labels):
            content += ["none"] if array is None else [f"{array.dtype} {array.shape}", array]
        return {
            "model": self.model,
            "bits": self.hasher.bits,
            **of_images,
            "data": Path(self.job.data).name,
            "split": self.job.split,
            "metadata": list(self.job.metadata),
            "rows": len(self.rows),
            "files": fingerprint(*self._files()),
            "rows_and_labels": fingerprint(*content, *map(str, self.class_names)),
        }

    def _codes(self, parts: Sequence[range], vectors: str) -> Iterator[Batch]:
        job, model = self.job, self.hasher.model_
        if self.backbone is None:
            batches = embedding_batches(self._content, self.rows, parts)
        else:
            refuse = _refuse if job.images is None or job.images.damaged == "refuse" else None
            how: Any = {"size": job.batch_size, "precision": job.precision, "workers": job.workers}
            batches = image_batches(self._content, self.backbone, self.rows, parts, refuse=refuse, **how)
        for batch in batches:
            (embeddings,) = batch.arrays
            arrays = [model.encode(embeddings)]
            if vectors == "outputs":
                arrays.append(model.outputs(embeddings).astype(np.float16))
            elif vectors == "embeddings":
                arrays.append(embeddings)
            yield batch._replace(arrays=arrays)

    def _files(self) -> Iterator[bytes | str]:
        """Yield names, sizes and modification times of the data's files, and a sample of their bytes.

        For a named data set, yield the fingerprint of its rows.
        """
        job = self.job
        if self.backbone is not None:
            yield self._content.fingerprint()
            yield from self._content.sample()
        elif str(job.data) in DATASETS:
            yield self.split.fingerprint()
        else:
            files: list[Path] = []
            for path in (Path(name) for name in (job.data, job.base, job.query, job.labels) if name is not None):
                files += (
                    sorted(one for one in path.iterdir() if suffix_of(one) in SUFFIXES) if path.is_dir() else [path]
                )
            yield from (file_facts(file.parent, file.name) for file in files)
            yield from sampled(Path(), files)


def _refuse(damage: Damage) -> None:
    advice = "mend or remove it, or skip damaged images (--damaged skip)"
    raise ValueError(f"{damage.fault}; {advice}: the parts that are done are not lost")
