"""From a job to the rows and the model that it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.data import DATASETS, TRAIN_TEST_PROTOCOLS, EmbeddingSplit
from lbhash.data.images.corrupt import check_missing, damaged_line, fault_of, find_unreadable, refuse_or_skip
from lbhash.data.images.stores import file_facts
from lbhash.data.readers import SUFFIXES
from lbhash.data.streamed import ParquetRows
from lbhash.hasher import load_hasher
from lbhash.pipeline.columns import Carried, ImagePaths, check_carry
from lbhash.pipeline.embeddings import ImageOptions, data_image_options
from lbhash.pipeline.encoding.images import BATCH_SIZE, ImageSource
from lbhash.pipeline.encoding.job import Job, default_workers
from lbhash.pipeline.encoding.source import EmbeddingSource, Source
from lbhash.pipeline.splits import (
    check_images_alone,
    model_split,
    split_of_training,
    with_columns,
)

if TYPE_CHECKING:
    from lbhash.data.images import ImageTable
    from lbhash.hasher import Hasher


def open_job(job: Job, *, check: bool = True, progress: bool = False) -> tuple[Job, Source]:
    """Load the model of a job and open its data, of which no row is held but its label.

    Args:
        job: the job.
        check: whether to look for missing images before any is encoded.
        progress: show a bar where images must be checked first.

    Returns:
        The job with what was found out about its data, so that nobody need look again; and the rows.

    Raises:
        TypeError, ValueError: what the model, the data and their readers refuse; or settings of images are given and
            the data are embeddings.
    """
    columns = check_carry(job.data, job.carry, alone=job.base is None and job.query is None)
    parquet = Path(job.data).suffix == ".parquet"
    carried = ParquetRows([Path(job.data)], columns, batch_rows=2048) if columns and parquet else None
    hasher = load_hasher(job.model)
    images = data_image_options(job.data, job.images)
    if images is not None:
        return _open_images(job, images, hasher, carried, check, progress)
    for name, value in (("batch_size", job.batch_size), ("precision", job.precision), ("workers", job.workers)):
        if value is not None:
            raise ValueError(f"{name} is {value!r} and data are embeddings; it is for images, which a backbone embeds")
    part = model_split(
        hasher,
        job.data,
        job.split,
        base=job.base,
        query=job.query,
        labels=job.labels,
        protocol=job.protocol,
        split_seed=job.split_seed,
        stream=True,
    )
    files = [Path(name) for name in (job.data, job.base, job.query, job.labels) if name is not None]
    marks = part.fingerprint() if job.data in DATASETS else _marks_of(files)
    return job, EmbeddingSource(hasher, part, _about(job, marks), carried)


def _open_images(
    job: Job, images: ImageOptions, hasher: Hasher, carried: Carried | None, check: bool, progress: bool
) -> tuple[Job, Source]:
    check_images_alone(job.base, job.query, job.labels)
    table, backbone = images.open(job.data, hasher)
    if job.carry and carried is None:
        carried = ImagePaths(table)
    job = replace(job, images=replace(images, backbone=backbone.name))
    workers = default_workers(backbone.model.device.type) if job.workers is None else job.workers
    if job.split == "all":
        rows = np.arange(len(table))
    else:
        protocol, seed = split_of_training(hasher, job.protocol, job.split_seed)
        kept = np.ones(len(table), bool)
        if is_drawn(table, protocol):
            if job.unreadable is None:
                job = replace(job, unreadable=tuple(find_unreadable(table, workers, progress=progress)))
            kept[list(job.unreadable or ())] = False
        rows = table.split_rows(protocol, seed, kept)[1][job.split]
    if check and images.damaged == "refuse":
        check_missing(table, rows)
    if check and job.unreadable:
        said = damaged_line(fault_of(table, job.unreadable[0]), len(job.unreadable), len(table))
        refuse_or_skip(f"{said}, which changes how splits are drawn", images.damaged)
    labels = None if table.labels is None else table.labels[rows]
    part = with_columns(hasher, EmbeddingSplit(np.empty((0, 0)), rows, labels))
    facts = _about(job, table.store.fingerprint())
    facts |= {"backbone": backbone.fingerprint(), "precision": job.precision or "32"}
    return job, ImageSource(
        hasher,
        table,
        backbone,
        rows,
        part.labels,
        facts,
        carried,
        damaged=images.damaged,
        batch_size=job.batch_size or BATCH_SIZE,
        precision=job.precision or "32",
        workers=workers,
    )


def is_drawn(table: ImageTable, protocol: str | None) -> bool:
    """Whether the splits of a table depend on which of its images can be read, as a draw of some of them does.

    Args:
        table: the images.
        protocol: as of ``Table.split_rows``.
    """
    if protocol is None and table.flags:
        return False
    rule = None if table.test_rows is None else TRAIN_TEST_PROTOCOLS.get(protocol or table.protocol)
    return rule is None or rule.train is not None or rule.query is not None


def _about(job: Job, marks: str) -> dict[str, Any]:
    """What the manifest says of the data."""
    return {"data": Path(job.data).name, "fingerprint": marks, "split": job.split, "carry": list(job.carry)}


def _marks_of(paths: Sequence[Path]) -> str:
    """16 hexadecimal digits of the names, sizes and times of change of files of embeddings, and of those in folders."""
    digest = sha256()
    for path in paths:
        inside = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES) if path.is_dir() else [path]
        for file in inside:
            digest.update(file_facts(file.parent, file.name))
    return digest.hexdigest()[:16]
