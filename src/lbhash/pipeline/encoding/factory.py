"""Open the data and the model of an encoding job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from lbhash.data import TRAIN_TEST_PROTOCOLS, EmbeddingSplit, load_dataset, load_table
from lbhash.data.images import ImageTable
from lbhash.data.images.corrupt import check_missing, damaged_line, fault_of, find_unreadable, refuse_or_skip
from lbhash.hasher import Hasher, load_hasher
from lbhash.pipeline.columns import column_schema, open_columns
from lbhash.pipeline.embeddings import ImageOptions, data_image_options
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.pipeline.encoding.source import EmbeddingSource, ImageSource, Source, default_workers
from lbhash.pipeline.splits import check_images_alone, split_of_training


def open_source(
    job: EncodingJob, hasher: Hasher | None = None, *, stream: bool, check: bool = True, progress: bool = False
) -> Source:
    """Open the data of a job, with the model that encodes it.

    Args:
        job: the job; that of the source says what was found out about the data, so that nobody needs to look again.
        hasher: the job's model. If None, it is loaded.
        stream: whether rows are read while they are encoded, so that any number of them takes the same memory. If not,
            embeddings are read at once, and images are embedded into the cache.
        check: whether to look for missing images before any is encoded.
        progress: show a bar if images must be checked first.

    Raises:
        TypeError, ValueError: what the model, the data and their readers refuse; or settings of images are given, and
            the data are embeddings.
    """
    column_schema(job.data, job.columns, one_file=job.base is None and job.query is None)
    hasher = load_hasher(job.model) if hasher is None else hasher
    images = data_image_options(job.data, job.images)
    if images is None:
        return _open_embeddings(job, hasher, stream)
    check_images_alone(job.base, job.query, job.labels)
    # The embeddings of a fine-tuned backbone are not cached, so that only the rows of the split are embedded.
    if stream or (hasher.model_.has_tuned_backbone and job.split != "all"):
        return _open_images(job, images, hasher, stream, check, progress)
    embedded = images.embed(job.data, hasher)
    split = embedded.split()
    if job.split != "all":
        split = embedded.dataset(*split_of_training(hasher, job.protocol, job.split_seed)).split(job.split)
    columns = open_columns(job.data, job.columns, embedded.images)
    return EmbeddingSource(job, hasher, _with_label_columns(hasher, split), columns)


def _open_embeddings(job: EncodingJob, hasher: Hasher, stream: bool) -> EmbeddingSource:
    for name in ("batch_size", "precision", "workers"):
        value = getattr(job, name)
        if value is not None:
            raise ValueError(f"{name} is {value!r} and data are embeddings; it is for images, which a backbone embeds")
    files = job.base is not None or job.query is not None or Path(job.data).is_dir()
    if job.split == "all":
        if files:
            what = f"data is the folder {str(job.data)!r}" if Path(job.data).is_dir() else "base or query is given"
            raise ValueError(f"split is 'all' and {what}; all takes one file, and of several split must be one of them")
        table = load_table(job.data, job.labels, stream=stream)
        split = EmbeddingSplit(table.embeddings, np.arange(len(table.embeddings)), table.labels)
    else:
        protocol, seed = split_of_training(hasher, job.protocol, job.split_seed)
        protocol = job.protocol if files else protocol
        files_of = {"base": job.base, "query": job.query, "labels": job.labels}
        dataset = load_dataset(job.data, **files_of, protocol=protocol, seed=seed, stream=stream)
        if protocol is None and dataset.protocol not in ("flags", "files"):
            raise ValueError(
                f"split is {job.split!r}, and neither the model nor the data say which rows that is; "
                "give a protocol, or split all"
            )
        split = dataset.split(job.split)
    columns = open_columns(job.data, job.columns)
    return EmbeddingSource(job, hasher, _with_label_columns(hasher, split), columns)


def _open_images(
    job: EncodingJob, images: ImageOptions, hasher: Hasher, stream: bool, check: bool, progress: bool
) -> ImageSource:
    table, backbone = images.open(job.data, hasher)
    job = replace(job, images=replace(images, backbone=backbone.name))
    rows = np.arange(len(table))
    if job.split != "all":
        protocol, seed = split_of_training(hasher, job.protocol, job.split_seed)
        readable = np.ones(len(table), bool)
        if not stream or is_sampled(table, protocol):
            if job.unreadable is None:
                workers = default_workers(backbone.model.device.type) if job.workers is None else job.workers
                job = replace(job, unreadable=tuple(find_unreadable(table, workers, progress=progress)))
            readable[list(job.unreadable or ())] = False
        rows = table.split_rows(protocol, seed, readable)[1][job.split]
    if check and images.damaged == "refuse":
        check_missing(table, rows)
    if check and job.unreadable:
        line = damaged_line(fault_of(table, job.unreadable[0]), len(job.unreadable), len(table))
        refuse_or_skip(f"{line}, which changes how splits are sampled", images.damaged)
    labels = None if table.labels is None else table.labels[rows]
    split = _with_label_columns(hasher, EmbeddingSplit(np.empty((0, 0)), rows, labels))
    columns = open_columns(job.data, job.columns, table)
    return ImageSource(job, hasher, split, columns, table, backbone)


def is_sampled(table: ImageTable, protocol: str | None) -> bool:
    """Return whether the splits of a table depend on which of its images can be read, as random samples do."""
    if protocol is None and table.flags:
        return False
    rule = None if table.test_rows is None else TRAIN_TEST_PROTOCOLS.get(protocol or table.protocol)
    return rule is None or rule.train is not None or rule.query is not None


def _with_label_columns(hasher: Hasher, split: EmbeddingSplit) -> EmbeddingSplit:
    """Give multi-hot labels as many columns as in training, so that files that are encoded one by one go together."""
    return split.widened(hasher.model_.metadata.get("label_columns", len(hasher.classes_)))
