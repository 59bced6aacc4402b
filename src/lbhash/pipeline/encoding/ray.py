"""Encode the shards of a folder on a Ray cluster, by Ray Data.

A shard is a row of a Ray data set, and a worker turns it into its file. Ray runs a task again if its machine is lost;
what counts in the end are the files (``lbhash.pipeline.shard_store``), so that no row is lost or there twice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cached_property
from typing import Any

from lbhash.codes.shards import Shard
from lbhash.pipeline.cluster import connected
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.pipeline.encoding.source import Source
from lbhash.pipeline.shard_store import CodeShards

_LOST_STARTS = 8  # workers that may be lost in a row while they start, for instance with their machines


class ShardEncoder:
    """A worker that opens the data of a job once, and encodes the shards that it is given.

    The job has absolute paths, and the store the metadata of the rows as the main process sees them.
    """

    def __init__(self, job: EncodingJob, store: CodeShards) -> None:
        self._job, self._store = job, store

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Encode the shard of a row unless it is stored; an error of the user is returned as a line."""
        shard = Shard(*(int(row[name]) for name in ("number", "count", "start", "stop")))
        error = ""
        try:
            if self._store.find(shard) is None:  # else another worker wrote it, and was lost
                for encoded in self._source.encode([shard]):
                    self._store.write(shard, encoded.table, encoded.damaged)
        except (ValueError, TypeError) as raised:
            error = str(raised) or type(raised).__name__
        return {"rows": len(shard), "error": error}

    @cached_property
    def _source(self) -> Source:
        from lbhash.pipeline.encoding.factory import open_source

        source = open_source(self._job, stream=True, check=False)
        for name, theirs in self._store.metadata.items():
            ours = source.metadata[name]
            if ours != theirs:
                what = "a worker of the cluster finds other data or another model than this process"
                raise ValueError(f"{what}: its {name} is {ours!r} and must be {theirs!r}")
        return source


def encode_on_ray(
    job: EncodingJob, store: CodeShards, shards: Sequence[Shard], address: str | None, advance: Callable[[int], None]
) -> None:
    """Encode shards on the cluster at an address, or on a new one of this machine, and write them to a store.

    Each worker has a core, and a GPU if the cluster has any. What a worker refuses is raised here, as a ``ValueError``.
    """
    import ray
    from ray.data import ActorPoolStrategy

    job = job.absolute()
    if job.images is not None and job.workers is None:
        job = replace(job, workers=0)  # Ray already has a worker for each core of a machine
    with redirect_stdout(sys.stderr), connected(address):  # Ray prints there which machines are lost
        gpus = int(ray.cluster_resources().get("GPU", 0))
        slots = gpus or int(ray.cluster_resources().get("CPU", 1))
        rows = ray.data.from_items([vars(shard) for shard in shards], override_num_blocks=len(shards))
        made = rows.map(
            ShardEncoder,  # type: ignore[arg-type]  # a class is made once a worker
            fn_constructor_args=(job, CodeShards(store.folder.absolute(), store.metadata)),
            compute=ActorPoolStrategy(min_size=1, max_size=max(1, min(slots, len(shards)))),
            num_cpus=1,
            num_gpus=1 if gpus else 0,
        )
        made.context.enable_progress_bars = False
        made.context.print_on_execution_start = False
        made.context.execution_no_progress_timeout_s = -1  # a shard takes as long as it takes
        made.context.max_consecutive_actor_init_deaths = _LOST_STARTS
        for answer in made.iter_rows():
            if answer["error"]:
                raise ValueError(answer["error"])
            advance(answer["rows"])
