"""Encode the parts of a folder on a Ray cluster, with Ray Data: each task encodes a part and writes its file.

Ray runs a task again if its machine is lost. The files decide which parts are complete, so no row is missing or there
twice.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from lbhash.pipeline.cluster import connected
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.pipeline.encoding.source import Source
from lbhash.utils.parts import Parts, difference

_LOST_STARTS = 8  # workers that may be lost in a row at startup


class PartEncoder:
    """A worker that opens the data of a job once, and writes the parts it receives.

    The job's paths are relative to ``folder``. ``parts`` has the facts about the rows that the main process found; the
    worker must find the same.
    """

    def __init__(self, job: EncodingJob, parts: Parts, folder: str) -> None:
        self._job, self._parts = job, parts
        with suppress(OSError):  # paths that begin at the root need no folder
            os.chdir(folder)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list]:
        """Encode a part unless it exists; return a user's error as one line."""
        part = range(int(batch["start"][0]), int(batch["stop"][0]))
        error = ""
        try:
            if self._parts.find(part) is None:  # otherwise a lost worker wrote it
                self._source.write([part], self._parts)
        except (ValueError, TypeError) as raised:
            error = str(raised) or type(raised).__name__
        return {"rows": [len(part)], "error": [error]}

    @cached_property
    def _source(self) -> Source:
        from lbhash.pipeline.encoding.factory import open_source

        source = open_source(self._job, stream=True, check=False)
        if what := difference({key: self._parts.facts[key] for key in source.facts}, source.facts):
            raise ValueError(f"a worker of the cluster finds other data or another model than this process ({what})")
        return source


def encode_on_ray(
    job: EncodingJob, parts: Parts, missing: Sequence[range], address: str | None, advance: Callable[[int], None]
) -> None:
    """Encode the missing parts of a folder on the cluster at an address, or on a new one of this machine.

    Each worker gets a core, and a GPU if the cluster has any. A worker's error is raised here as a ``ValueError``.
    """
    import ray

    if job.images is not None and job.workers is None:
        job = replace(job, workers=0)  # Ray already has a worker for each core of a machine
    with redirect_stdout(sys.stderr), connected(address):  # Ray prints lost machines to stdout
        gpus = int(ray.cluster_resources().get("GPU", 0))
        slots = gpus or int(ray.cluster_resources().get("CPU", 1))
        rows = [{"start": part.start, "stop": part.stop} for part in missing]
        made = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            PartEncoder,
            fn_constructor_args=(job, Parts(parts.folder.absolute(), parts.facts), os.getcwd()),
            concurrency=(1, max(1, min(slots, len(rows)))),
            batch_size=1,
            num_cpus=1,
            num_gpus=1 if gpus else 0,
        )
        made.context.enable_progress_bars = False
        made.context.print_on_execution_start = False
        made.context.execution_no_progress_timeout_s = -1  # a part may take long
        made.context.max_consecutive_actor_init_deaths = _LOST_STARTS
        for answer in made.iter_rows():
            if answer["error"]:
                raise ValueError(answer["error"])
            advance(answer["rows"])
