"""Encode data into a file of codes or, if there is much of it, into a folder of shards."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from lbhash.codes.io import check_suffix, write_codes
from lbhash.codes.shards import shards_of
from lbhash.pipeline.encoding.factory import open_source
from lbhash.pipeline.encoding.folder import Engine, encode_folder
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.pipeline.encoding.source import EncodedShard, Source
from lbhash.utils.progress import counted


def encode_data(
    job: EncodingJob,
    out: str | Path,
    *,
    shard_rows: int | None = None,
    engine: Engine | None = None,
    ray_address: str | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Encode the rows of a job into a file (``encode_file``) or a folder (``encode_folder``).

    Args:
        job: what is encoded.
        out: a file that ends in .parquet or .npz; or a folder, which exists, ends in a slash, or has no suffix.
        shard_rows: an option of a folder, as are the rest.
        engine: ``local`` if None.
        ray_address: of a Ray cluster.
        overwrite: start a folder again.

    Raises:
        TypeError, ValueError: what the two functions refuse; or an option of a folder is given with a file.
    """
    if is_folder(str(out)):
        return encode_folder(
            job,
            out,
            shard_rows=shard_rows,
            engine=engine or "local",
            ray_address=ray_address,
            overwrite=overwrite,
        )
    options: dict[str, Any] = {"shard_rows": shard_rows, "batch_size": job.batch_size, "workers": job.workers}
    options |= {"precision": job.precision, "engine": engine, "ray_address": ray_address}
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} is {str(value)!r} and out is {str(out)!r}, a file; it is for a folder of shards")
    return encode_file(job, out)


def is_folder(out: str) -> bool:
    """Return whether codes go into a folder: it exists, or the name ends in a slash or has no suffix."""
    ends = (os.sep, os.altsep) if os.altsep else (os.sep,)
    return out.endswith(ends) or Path(out).is_dir() or not Path(out).suffix


def encode_file(job: EncodingJob, out: str | Path) -> dict[str, Any]:
    """Encode the rows of a job into a file of codes, all in memory at once.

    Images are embedded into the cache first, so that the next run on them starts at once.

    Raises:
        TypeError, ValueError: what ``open_source`` refuses; ``out`` is one of the files of the data, or cannot hold the
            columns.
    """
    check_suffix(out)
    for name in ("data", "base", "query", "labels"):
        file = getattr(job, name)
        if file is not None and Path(file).exists() and Path(out).exists() and Path(out).samefile(file):
            raise ValueError(f"out is {str(out)!r}, which is {name} itself; give another file")
    if job.columns and Path(out).suffix != ".parquet":
        raise ValueError(f"columns is given and out is {str(out)!r}; only a .parquet file holds extra columns")
    source = open_source(job, stream=False, progress=True)
    table = encode_at_once(source, progress=source.unit == "images").table
    write_codes(out, table)
    size = {"codes": len(table.codes), "bits": table.bits, "bytes": table.codes.nbytes}
    return {**size, "split": job.split, "out": str(out)}


def encode_at_once(source: Source, *, vectors: str = "", progress: bool = True) -> EncodedShard:
    """Encode all rows of a source as one shard.

    Args:
        source: the rows.
        vectors: what to return with the codes.
        progress: show a bar on standard error.
    """
    (shard,) = shards_of(len(source.rows), len(source.rows))
    with counted("encoding", len(shard), source.unit, show=progress) as advance:
        (encoded,) = source.encode([shard], advance, vectors=vectors)
    return encoded
