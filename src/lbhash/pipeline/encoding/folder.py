"""Encode data of any size into a folder of codes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

from lbhash.codes import code_bytes
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.pipeline.shard_store import CodeShards, check_code_folder
from lbhash.utils.progress import counted
from lbhash.utils.validation import check_choice

Engine = Literal["local", "ray"]


def encode_folder(
    job: EncodingJob,
    out: str | Path,
    *,
    shard_rows: int | None = None,
    engine: Engine = "local",
    ray_address: str | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> dict[str, Any]:
    """Encode rows of any number into a folder of codes, which ``lbhash.codes.io.read_codes`` reads.

    In memory are a few batches, the codes of one shard, and number and label of every row. Each shard is written when
    it is done; the same call again goes on where the last one stopped, and leaves the same files. A manifest says what
    the folder holds codes of, so that another model or other data are refused (files are known by their names, sizes
    and times of change), and at the end that the folder is complete. Rows without a code are named in
    ``_damaged.csv``.

    Args:
        job: what is encoded.
        out: the folder.
        shard_rows: rows of a shard. If None, as the folder has them, and else 65,536.
        engine: ``local``, this process; or ``ray``, a cluster whose machines see the same files by the same paths.
        ray_address: of the cluster. If None, one is started on this machine, and ended.
        overwrite: start again, whatever the folder holds codes of.
        progress: show a bar on standard error.

    Returns:
        The numbers of ``codes``, ``rows``, ``damaged`` rows and ``shards``; how many shards were ``found``; ``bits`` of
        a code, ``bytes`` of all; the ``seconds`` that the other shards took; ``out`` and ``split``.

    Raises:
        TypeError, ValueError: what ``open_source`` refuses; the folder holds something else; another run writes to it;
            or an image is damaged that is not to be skipped, or all are.
    """
    from lbhash.pipeline.encoding.factory import open_source

    check_choice(engine, "engine", ("local", "ray"))
    if ray_address is not None and engine != "ray":
        raise ValueError(f"ray_address is {ray_address!r} and engine is {engine!r}; it is for the engine ray")
    if engine == "ray":
        from lbhash.pipeline.encoding.ray import check_ray

        check_ray()
    check_code_folder(Path(out))
    source = open_source(job, stream=True, progress=progress)
    store = CodeShards(Path(out), source.metadata)
    with store.exclusive():
        shards = store.begin(shard_rows, overwrite)
        missing = store.missing(shards)
        before = len(source.rows) - sum(map(len, missing))
        started = time.perf_counter()
        with counted("encoding", len(source.rows), source.unit, done=before, show=progress) as advance:
            if engine == "local":
                for shard in source.encode(missing, advance):
                    store.write(shard.shard, shard.table, shard.damaged)
            elif missing:
                from lbhash.pipeline.encoding.ray import encode_on_ray

                encode_on_ray(source.job, store, missing, ray_address, advance)
        seconds = time.perf_counter() - started
        codes, damaged = store.finish(shards)
    return {
        "codes": codes,
        "rows": len(source.rows),
        "damaged": damaged,
        "bits": source.hasher.bits,
        "bytes": codes * code_bytes(source.hasher.bits),
        "split": job.split,
        "unit": source.unit,
        "shards": len(shards),
        "found": len(shards) - len(missing),
        "seconds": round(seconds, 3),
        "out": str(out),
    }
