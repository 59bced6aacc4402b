"""Encode data into a file of codes or, for large data, into a folder of parts."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from lbhash.codes import code_bytes
from lbhash.codes.io import check_suffix, write_codes
from lbhash.pipeline.cluster import Engine, check_engine
from lbhash.pipeline.encoding.factory import open_source
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.utils.files import check_new, check_replaceable
from lbhash.utils.parts import PART_ROWS, Parts
from lbhash.utils.paths import check_folder
from lbhash.utils.progress import counted


def encode(job: EncodingJob, out: str | Path, *, overwrite: bool = False, **options: Any) -> dict[str, Any]:
    """Encode the rows of a job into a file (``encode_file``) or a folder (``encode_folder``).

    A file ends in .parquet or .npz; the other options are for a folder.
    """
    if is_folder(str(out)):
        return encode_folder(job, out, overwrite=overwrite, **options)
    options |= {name: getattr(job, name) for name in ("batch_size", "workers", "precision")}
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} is {str(value)!r} and out is {str(out)!r}, a file; it is for a folder of parts")
    return encode_file(job, out, overwrite=overwrite)


def is_folder(out: str) -> bool:
    """Return whether codes go into a folder: it exists, or the name ends in a slash or has no suffix."""
    return out.endswith(("/", os.sep)) or Path(out).is_dir() or not Path(out).suffix


def encode_file(job: EncodingJob, out: str | Path, *, overwrite: bool = False) -> dict[str, Any]:
    """Encode the rows of a job into a file of codes, all in memory at once.

    Images are embedded into the cache first, so the next run on them starts at once. An existing file is refused unless
    ``overwrite``.
    """
    check_replaceable(check_suffix(out))
    for name in ("data", "base", "query", "labels"):
        file = getattr(job, name)
        if file is not None and Path(file).exists() and Path(out).exists() and Path(out).samefile(file):
            raise ValueError(f"out is {str(out)!r}, which is {name} itself; give another file")
    check_new(out, "out", overwrite)
    if job.metadata and Path(out).suffix != ".parquet":
        raise ValueError(f"metadata is given and out is {str(out)!r}; only a .parquet file holds metadata")
    source = open_source(job, stream=False, progress=True)
    table = source.encode_all(progress=source.unit == "images").table
    write_codes(out, table)
    facts = {"codes": len(table.codes), "bits": table.bits, "bytes": table.codes.nbytes}
    return {**facts, "split": job.split, "out": str(out)}


def encode_folder(
    job: EncodingJob,
    out: str | Path,
    *,
    engine: Engine | None = None,
    ray_address: str | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> dict[str, Any]:
    """Encode any number of rows into a folder of codes, which ``lbhash.codes.io.read_codes`` reads.

    Memory holds a few batches, the codes of one part, and the number and label of every row. Each part is written when
    it is complete. Repeating an interrupted call continues it and gives the same files; damaged parts are encoded
    again. A manifest records the model and the data, so others are refused; files are identified by names, sizes,
    modification times and a sample of their bytes. ``_damaged.csv`` lists the rows without a code.

    The engine is ``local`` (this process) or ``ray``: a cluster whose machines see the same files at the same paths, or
    if ``ray_address`` is None, a new cluster on this machine. ``overwrite`` starts again, even if the folder has codes
    of another model or other data.

    Returns:
        The numbers of ``codes``, ``rows``, ``damaged`` rows and ``parts``; how many parts were ``found`` complete; the
            ``bits`` of a code and the ``bytes`` of all codes; the ``seconds`` for the other parts; ``out``, ``split``
            and ``unit``.
    """
    engine = check_engine(engine)
    check_folder(out, "out", ", or end in .parquet or .npz")
    source = open_source(job, stream=True, progress=progress)
    rows, bits = len(source.rows), source.hasher.bits
    parts = Parts(Path(out), {**source.facts, "part_rows": PART_ROWS[source.unit]})
    with parts.locked(f"out is {str(out)!r}, which another run writes to; wait for it, or end it"):
        missing = parts.begin("out", overwrite)
        started = time.perf_counter()
        done = rows - sum(map(len, missing))
        with counted("encoding", rows, source.unit, done=done, show=progress) as advance:
            if engine == "local":
                source.write(missing, parts, advance)
            elif missing:
                from lbhash.pipeline.encoding.ray import encode_on_ray

                encode_on_ray(source.job, parts, missing, ray_address, advance)
        seconds = round(time.perf_counter() - started, 3)
        codes, damaged = parts.finish("out")
        if not codes:
            raise ValueError(f"no image could be read: {damaged[0].fault}")
    size = {"codes": codes, "rows": rows, "damaged": len(damaged), "bits": bits, "bytes": codes * code_bytes(bits)}
    found = len(parts.ranges) - len(missing)
    files = {"parts": len(parts.ranges), "found": found, "seconds": seconds, "out": str(out)}
    return {**size, "split": job.split, "unit": source.unit, **files}
