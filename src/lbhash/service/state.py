"""The parts of a running service."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from lbhash.service.admission import Admission
from lbhash.service.background import Background
from lbhash.service.decoding import Decoder
from lbhash.service.engine import Engine
from lbhash.service.monitor import Monitor
from lbhash.service.settings import DECODE_SECONDS, MAX_BODY, MAX_PIXELS, QUEUE, QUEUE_SECONDS, RELOAD_SECONDS, Settings
from lbhash.utils.system import usable_cores

log = logging.getLogger("lbhash.service")


class Service:
    """Everything that the routes use: engine, admission, background work and metrics."""

    def __init__(self, settings: Settings) -> None:
        threads = settings.concurrency or usable_cores()
        self.decoder = Decoder(threads, DECODE_SECONDS, MAX_BODY, MAX_PIXELS)
        self.engine = Engine(settings, self.decoder)
        self.admission = Admission(threads, QUEUE, QUEUE_SECONDS)
        # Changes wait for each other and for other programs that change the index; searches never wait for them.
        self.writing = Admission(1, QUEUE, QUEUE_SECONDS)
        self.background = Background(self.engine)
        self.monitor = Monitor(self.engine, self.admission)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the background work during the block, then end threads and child processes."""
        tasks = [asyncio.create_task(work) for work in (self.background.run(), self._check(), self._reload())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for admission in (self.admission, self.writing):
                admission.pool.shutdown(wait=False, cancel_futures=True)
            self.decoder.close()

    async def _check(self) -> None:
        """Compare the index's files with their checksums, if not done yet, and log the result."""
        index, started = self.engine.index, time.perf_counter()
        size = f"{index.stored_bytes / 2**20:,.1f} MiB"
        try:
            if self.engine.check == "running":
                log.info("checking the files of the index, %s", size)
                await asyncio.to_thread(self.engine.check_index)
                log.info("the files of the index are intact, after %.1f s", time.perf_counter() - started)
            elif index.stored_bytes:
                log.info("the files of the index are intact, %s", size)
        except Exception as error:  # requests that need a damaged file get status 503
            log.error("%s", error)

    async def _reload(self) -> None:
        """Load a newer index whenever there is one; running requests keep their index."""
        reported, pause = "", RELOAD_SECONDS
        while True:
            await asyncio.sleep(pause)
            started, pause = time.perf_counter(), RELOAD_SECONDS
            try:
                if await asyncio.to_thread(self.engine.refresh):
                    reported = ""
                    self.monitor.reloads.labels("loaded").inc()
                    log.info("generation %d of the index is loaded", self.engine.index.generation)
                    self.background.changed.set()
            except Exception as error:  # the old index still serves
                pause = max(pause, 10 * (time.perf_counter() - started))  # the failed attempt may have read much
                if str(error) not in (reported, self.engine.damage):
                    reported = str(error)
                    self.monitor.reloads.labels("failed").inc()
                    log.warning("a newer index could not be loaded: %s", reported)
