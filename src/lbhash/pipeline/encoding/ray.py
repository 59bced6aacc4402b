"""The shards of a folder on a Ray cluster, by Ray Data.

A shard is a row of a data set of Ray's, and a worker turns it into its file. What ran on a machine that is lost, Ray
runs again elsewhere; the file is then written again, or found. What counts in the end are the files
(``lbhash.pipeline.encoding.folder``), and not what Ray says of its tasks: no row is lost, and none is there twice.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lbhash.codes.shards import Shard
from lbhash.pipeline.encoding.job import Job
from lbhash.pipeline.encoding.shards import encode_shards, find_done
from lbhash.pipeline.encoding.source import Source, mark_of

_OBJECTS = 100 * 2**20  # bytes of the object store of a cluster of our own, through which only numbers of shards go
_LOST_STARTS = 8  # workers that may be lost one after the other while they start, as with their machines


class ShardEncoder:
    """A worker: opens the job once, and encodes the shards that it is given.

    Args:
        job: what is to be encoded, with paths that lead there from any machine.
        identity: what the driver's rows are (``Source.identity``).
        folder: where the shards go.
    """

    def __init__(self, job: Job, identity: dict[str, Any], folder: Path) -> None:
        self._job, self._identity, self._folder = job, identity, folder
        self._source: Source | None = None

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Encode the shard of a row, unless it is there; what the user did wrong comes back as a line."""
        shard = Shard(*(int(row[name]) for name in ("number", "count", "start", "stop")))
        said = {"rows": len(shard), "error": ""}
        try:
            if (
                find_done(self._folder, shard, mark_of(self._identity)) is None
            ):  # else another worker was lost after it wrote it
                encode_shards(self._open(), [shard], self._folder)
        except (ValueError, TypeError) as error:
            said["error"] = str(error) or type(error).__name__
        return said

    def _open(self) -> Source:
        from lbhash.pipeline.encoding.factory import open_job

        if self._source is None:
            source = open_job(self._job, check=False)[1]
            for name, theirs in source.identity.items():
                if theirs != self._identity[name]:
                    raise ValueError(
                        f"a worker of the cluster finds other data or another model than this process: its {name} is "
                        f"{theirs!r} and must be {self._identity[name]!r}"
                    )
            self._source = source
        return self._source


def encode_on_ray(
    job: Job,
    identity: dict[str, Any],
    shards: Sequence[Shard],
    folder: Path,
    address: str | None,
    advance: Callable[[int], None],
) -> None:
    """Encode shards on a cluster; each worker has a core, and a GPU where the cluster has any.

    Args:
        job: what is to be encoded.
        identity: what its rows are (``Source.identity``).
        shards: which to encode.
        folder: where they go.
        address: of the cluster; one of this machine is started where it is not given.
        advance: is told how many more rows are encoded.

    Raises:
        ValueError: no cluster answers, or what a worker refuses.
    """
    import ray
    from ray.data import ActorPoolStrategy

    job = job.anywhere()
    if job.images is not None and job.workers is None:
        job = replace(job, workers=0)  # the cores of a machine are workers of Ray's already
    with redirect_stdout(sys.stderr), _connected(address):  # where Ray tells of machines that are lost
        gpus = int(ray.cluster_resources().get("GPU", 0))
        slots = gpus or int(ray.cluster_resources().get("CPU", 1))
        rows = ray.data.from_items([vars(shard) for shard in shards], override_num_blocks=len(shards))
        made = rows.map(
            ShardEncoder,  # type: ignore[arg-type]  # a class is made once a worker
            fn_constructor_args=(job, identity, folder.absolute()),
            compute=ActorPoolStrategy(min_size=1, max_size=max(1, min(slots, len(shards)))),
            num_cpus=1,
            num_gpus=1 if gpus else 0,
        )
        made.context.enable_progress_bars = False
        made.context.print_on_execution_start = False
        made.context.execution_no_progress_timeout_s = -1  # a shard takes as long as it takes
        made.context.max_consecutive_actor_init_deaths = _LOST_STARTS
        for said in made.iter_rows():
            if said["error"]:
                raise ValueError(said["error"])
            advance(said["rows"])


def check_ray() -> None:
    """Raise ``ValueError`` where Ray Data is not installed."""
    if find_spec("ray") is None or find_spec("ray.data") is None:
        raise ValueError("engine is 'ray', which needs the package ray: pip install 'lbhash[ray]'")


@contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """While this process is connected to a cluster: that which it is connected to, that of the address, or its own."""
    import ray
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if ray.is_initialized():
        yield
        return
    _check_answer(address)
    own: dict[str, Any] = {"include_dashboard": False, "object_store_memory": _OBJECTS}
    try:
        with _quiet():
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.ERROR,
                **({} if address else own),
            )
    except (ConnectionError, ValueError, RuntimeError) as error:
        line = " ".join(str(error).split())
        raise ValueError(f"ray_address is {address!r}, and there is no cluster of Ray: {line}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _check_answer(address: str | None) -> None:
    """Raise ``ValueError`` where nothing answers at an address ``HOST:PORT``; Ray itself waits for minutes."""
    host, colon, port = (address or "").rpartition("://")[2].rpartition(":")
    if not colon:  # "auto", or a cluster of our own
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, ValueError, OverflowError) as error:
        raise ValueError(f"ray_address is {address!r}, and there is no cluster of Ray: {error}") from None


@contextmanager
def _quiet() -> Iterator[None]:
    """While Ray's own core, which looks here when it starts, is told to write of nothing but its end."""
    name = "RAY_BACKEND_LOG_LEVEL"
    before = os.environ.get(name)
    os.environ.setdefault(name, "fatal")
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
