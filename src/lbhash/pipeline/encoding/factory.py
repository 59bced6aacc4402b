"""Open the data and the model of an encoding job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lbhash.data import load_table
from lbhash.data.images import ImageTable, holds_images, load_images
from lbhash.data.images.corrupt import find_unreadable, report_damaged, report_missing
from lbhash.data.loading import is_split_folder, load_files
from lbhash.data.protocols import TRAIN_TEST_PROTOCOLS
from lbhash.data.table import Table
from lbhash.hasher import Hasher, load_hasher
from lbhash.pipeline.batches import workers_of
from lbhash.pipeline.columns import column_schema
from lbhash.pipeline.embeddings import ImageOptions, TextOptions, embed_dataset, in_cache
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.pipeline.encoding.source import Source
from lbhash.pipeline.splits import check_images_alone, split_of_training


def open_source(
    job: EncodingJob, hasher: Hasher | None = None, *, stream: bool, check: bool = True, progress: bool = False
) -> Source:
    """Open the data of a job and its model; if ``hasher`` is None, load it.

    The source's job also has the facts found about the data. With ``stream``, rows are read while they are encoded, so
    memory does not grow with their number. Otherwise embeddings are read at once, and images are embedded into the
    cache. ``check`` looks for missing images first.
    """
    column_schema(job.data, job.metadata, one_file=job.base is None and job.query is None)
    hasher = load_hasher(job.model) if hasher is None else hasher
    images = job.images
    if images is None and holds_images(job.data):
        images = ImageOptions(damaged=job.damaged)
    if images is None:
        return _open_embeddings(job, hasher, stream, progress)
    check_images_alone(base=job.base, query=job.query, labels=job.labels)
    if job.split is None:
        job = replace(job, split=_own_split(job, load_images(job.data)))
    # A fine-tuned backbone's embeddings are not cached, so embed only the rows of the split.
    if stream or (hasher.model_.has_tuned_backbone and job.split != "all"):
        return _open_images(job, images, hasher, stream, check, progress)
    table, backbone = images.open(job.data, hasher)
    cache = not hasher.model_.has_tuned_backbone  # no other model can use a fine-tuned backbone's embeddings
    embedded = embed_dataset(table, backbone, damaged=images.damaged, cache=cache, progress=True)
    rows = None
    if job.split != "all":
        wanted = split_of_training(hasher, job.protocol, job.split_seed)
        rows = embedded.split_rows(*wanted)[1][str(job.split)]
    return Source(job, hasher, embedded.split(rows), table, class_names=table.class_names)


def _open_embeddings(job: EncodingJob, hasher: Hasher, stream: bool, progress: bool) -> Source:
    for name in ("batch_size", "precision", "workers"):
        value = getattr(job, name)
        if value is not None:
            raise ValueError(f"{name} is {value!r} and data are embeddings; it is for images, which a backbone embeds")
    given: dict[str, Any] = {"base": job.base, "query": job.query, "labels": job.labels}
    if job.split == "all" and (job.base is not None or job.query is not None or is_split_folder(job.data)):
        what = f"data is the folder {str(job.data)!r}" if Path(job.data).is_dir() else "base or query is given"
        raise ValueError(f"split is 'all' and {what}; all takes one file; with several, split must name one of them")
    # Labels decide which rows a split has, so the training's data are read with the training's columns.
    texts = TextOptions() if job.texts is None else job.texts
    reading: dict[str, Any] = {"stream": stream, "damaged": job.damaged, "need_labels": False}
    reading |= texts.reading(job.data, hasher)
    for name in ("embedding_column", "label_column"):
        if getattr(job, name) is not None:
            reading[name] = getattr(job, name)
    if job.embedding_column is not None and job.texts is None:  # the data already have the encoder's embeddings
        reading = {name: value for name, value in reading.items() if name not in ("encoder", "text_column")}
    files = load_files(job.data, **given, protocol=job.protocol, **reading)
    if files is not None:
        job = replace(job, split=job.split or "base")
        table = files[str(job.split)]
        if not stream:
            table = replace(table, content=in_cache(table.embeddings, progress=progress))
        return Source(job, hasher, table.split(), class_names=table.class_names)
    table = load_table(job.data, job.labels, **reading)
    job = replace(job, split=job.split or _own_split(job, table))
    rows = None
    if job.split != "all":
        protocol, seed = split_of_training(hasher, job.protocol, job.split_seed)
        if table.flags and hasher.model_.metadata.get("data") != table.name:
            protocol = job.protocol  # flags of new data override the training's protocol
        if protocol is None and not table.has_splits:
            what = "neither the model nor the data say which rows that is"
            raise ValueError(f"split is {job.split!r}, and {what}; give a protocol, or split all")
        rows = table.split_rows(protocol, seed)[1][str(job.split)]
        if not len(rows):
            raise ValueError(f"split is {job.split!r}, and no row of {table.name} is in it")
    if not stream:
        table = replace(table, content=in_cache(table.embeddings, progress=progress))
    return Source(job, hasher, table.split(rows), class_names=table.class_names)


def _own_split(job: EncodingJob, table: Table[Any]) -> str:
    """Return the default split: base if there are splits, otherwise all rows."""
    return "base" if table.has_splits or job.protocol is not None else "all"


def _open_images(
    job: EncodingJob, images: ImageOptions, hasher: Hasher, stream: bool, check: bool, progress: bool
) -> Source:
    table, backbone = images.open(job.data, hasher)
    job = replace(job, images=replace(images, backbone=backbone.name))
    rows, unreadable = np.arange(len(table)), dict[int, str]()
    if job.split != "all":
        protocol, seed = split_of_training(hasher, job.protocol, job.split_seed)
        if job.unreadable is None and (not stream or is_sampled(table, protocol)):
            unreadable = find_unreadable(table, workers_of(job.workers, backbone), progress=progress)
            job = replace(job, unreadable=tuple(unreadable))
        rows = table.without(job.unreadable or ()).split_rows(protocol, seed)[1][str(job.split)]
    if check and images.damaged == "refuse":
        report_missing(table, rows=rows)
    if check:
        report_damaged(table, unreadable, images.damaged, ", which changes how splits are sampled")
    return Source(job, hasher, table.split(rows), table, backbone, table.class_names)


def is_sampled(table: ImageTable, protocol: str | None) -> bool:
    """Return whether the splits of a table depend on which images can be read, as random samples do."""
    if protocol is None and table.flags:
        return False
    rule = None if table.test_rows is None else TRAIN_TEST_PROTOCOLS.get(protocol or table.protocol)
    return rule is None or rule.train is not None or rule.query is not None
