"""The service under load: requests a second, latency, memory and errors; then at twice what it can do.

It trains a small model of the digits, starts ``lbhash serve`` on it and searches over the loopback, by the embedding of
a random row at a time. First one client asks for one answer after the other, on a connection that it keeps, and then on
a new one for each. Then as many connections as given ask as fast as they are answered. Then requests arrive at twice
that rate, whether the earlier ones are answered or not; their latency counts from when they were due. "errors" are
requests that found no connection, and other statuses.

    python benchmarks/service.py --seconds 300 --connections 16
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import psutil

from lbhash import TrainingArguments
from lbhash.hasher import encode_split, fit_split
from side_by_side import print_head, print_row

BITS, ROWS, K = 64, 1797, 10
MOST_CONNECTIONS = 500


class Answers:
    """Statuses, and the latencies in seconds of each."""

    def __init__(self) -> None:
        self.latencies: dict[int, list[float]] = {}
        self.errors = 0

    def add(self, status: int, latency: float) -> None:
        """Count an answer."""
        self.latencies.setdefault(status, []).append(latency)

    def __len__(self) -> int:
        return sum(map(len, self.latencies.values()))

    def milliseconds(self, status: int, percentile: float) -> float:
        """A percentile of the latency of the answers of one status."""
        return 1e3 * float(np.percentile(self.latencies.get(status) or [float("nan")], percentile))


class Connection:
    """One kept connection that asks and waits for the answer, with no more of HTTP than that takes."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes) -> int:
        """Send a request; the status of its answer."""
        if self.reader is None or self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        await self.reader.readexactly(int(length[1]) if length else 0)
        return int(head[9:12])

    def close(self) -> None:
        """Close it; the next request opens it anew."""
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


def search_request() -> bytes:
    """A search by the embedding of a random row."""
    body = json.dumps({"queries": [{"embedding": random.choice(embeddings())}], "k": K}).encode()
    head = "POST /v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return (head % len(body)).encode() + body


@cache
def embeddings() -> list[list[int]]:
    """All rows of the digits."""
    from lbhash.data import load_table

    return load_table("digits").embeddings.tolist()


async def timed(connection: Connection, request: bytes, since: float, answers: Answers) -> None:
    """Ask, and count the answer."""
    try:
        answers.add(await connection.ask(request), time.perf_counter() - since)
    except (OSError, asyncio.IncompleteReadError):
        answers.errors += 1
        connection.close()


async def one_after_the_other(port: int, seconds: float, kept: bool) -> Answers:
    """One client, with one connection for all of its requests or a new one for each."""
    answers, connection = Answers(), Connection(port)
    ended = time.perf_counter() + seconds
    while (now := time.perf_counter()) < ended:
        await timed(connection, search_request(), now, answers)
        if not kept:
            connection.close()
    connection.close()
    return answers


async def as_fast_as_answered(port: int, seconds: float, connections: int) -> Answers:
    """Every connection asks again when it has its answer."""
    answers, ended = Answers(), time.perf_counter() + seconds

    async def one() -> None:
        connection = Connection(port)
        while (now := time.perf_counter()) < ended:
            await timed(connection, search_request(), now, answers)
        connection.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return answers


async def at_a_rate(port: int, seconds: float, rate: float) -> tuple[Answers, Answers]:
    """Requests that are due at a rate, and beside them ``/health`` ten times a second."""
    searches, health = Answers(), Answers()
    idle = [Connection(port) for _ in range(MOST_CONNECTIONS)]
    tasks: set[asyncio.Task[None]] = set()

    async def one(due: float) -> None:
        if not idle:
            searches.errors += 1  # all connections wait: what comes now would wait in the system before the service
            return
        connection = idle.pop()
        await timed(connection, search_request(), due, searches)
        idle.append(connection)

    async def look() -> None:
        connection = Connection(port)
        while True:
            await timed(connection, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", time.perf_counter(), health)
            await asyncio.sleep(0.1)

    looking = asyncio.create_task(look())
    started, sent = time.perf_counter(), 0
    while (now := time.perf_counter()) < started + seconds:
        while sent < (now - started) * rate:
            task = asyncio.create_task(one(started + sent / rate))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            sent += 1
        await asyncio.sleep(0.002)
    await asyncio.gather(*tasks)
    looking.cancel()
    for connection in idle:
        connection.close()
    return searches, health


def prepare(folder: Path) -> None:
    """A model of the digits and an index of their base."""
    from lbhash import Hasher
    from lbhash.codes.io import CodeTable
    from lbhash.data import load_dataset
    from lbhash.index.factory import build_index

    dataset = load_dataset("digits")
    hasher = fit_split(Hasher(BITS, epochs=2, training=TrainingArguments(hidden=64, batch_size=16)), dataset.train, 10)
    hasher.model_.metadata |= {"data": "digits", "protocol": "digits", "split_seed": 0}
    hasher.save_pretrained(folder / "model")
    codes = encode_split(hasher, dataset.base)
    table = CodeTable(codes, BITS, dataset.base.rows, dataset.base.labels, hasher.model_.fingerprint())
    build_index(table, folder / "index")


@contextlib.contextmanager
def serving(folder: Path, concurrency: int) -> Iterator[tuple[psutil.Process, int]]:
    """Yield the service in a process of its own, and its port."""
    options = {"model": folder / "model", "data": "digits", "port": 0}
    options["concurrency"] = concurrency
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "lbhash", "serve", str(folder / "index"), *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            address = re.search(r"http://[^:]+:(\d+)", line)
            if address is None:
                raise SystemExit(line + process.stderr.read())
            yield psutil.Process(process.pid), int(address[1])
        finally:
            process.terminate()


def settle(port: int, seconds: float) -> None:
    """Wait until the map and the numbers are computed, so that they take no part in what is measured."""
    from urllib.request import urlopen

    ended = time.monotonic() + seconds
    while time.monotonic() < ended:
        with (
            urlopen(f"http://127.0.0.1:{port}/page/map") as drawn,
            urlopen(f"http://127.0.0.1:{port}/page/summary") as computed,
        ):
            if not json.load(drawn)["pending"] and json.load(computed)["state"] != "computing":
                return
        time.sleep(0.5)


def report(load: str, answers: Answers, seconds: float, process: psutil.Process) -> None:
    """Print the line of a load."""
    counts = {status: len(held) for status, held in answers.latencies.items()}
    asked = len(answers) + answers.errors
    shares = (
        f"{count / max(asked, 1):.1%}"
        for count in (counts.get(503, 0), asked - counts.get(200, 0) - counts.get(503, 0))
    )
    times = (f"{answers.milliseconds(200, percentile):.2f}" for percentile in (50, 99))
    memory = f"{process.memory_info().rss / 2**20:.0f}"
    print_row(load, f"{asked:,}", f"{counts.get(200, 0) / seconds:,.0f}", *times, *shares, memory)


def main() -> None:
    """Print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of each of the two loads")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--concurrency", type=int, default=1, help="of the service")
    given = parser.parse_args()
    alone = min(20.0, given.seconds)
    with tempfile.TemporaryDirectory() as name:
        prepare(Path(name))
        with serving(Path(name), given.concurrency) as (process, port):
            settle(port, 300)
            asyncio.run(as_fast_as_answered(port, min(5.0, given.seconds), given.connections))
            print(f"{ROWS} rows, codes of {BITS} bits, k = {K}, concurrency {given.concurrency}\n")
            names = "answered a second", "p50, ms", "p99, ms", "refused (503)", "errors", "memory after, MiB"
            print_head("load", "asked", *names)
            for load, kept in (("one client, connection kept", True), ("one client, new connections", False)):
                report(load, asyncio.run(one_after_the_other(port, alone, kept)), alone, process)
            answers = asyncio.run(as_fast_as_answered(port, given.seconds, given.connections))
            report(f"{given.connections} connections", answers, given.seconds, process)
            rate = 2 * len(answers.latencies.get(200, [])) / given.seconds
            searches, health = asyncio.run(at_a_rate(port, given.seconds, rate))
            report(f"twice that rate, {rate:,.0f} a second", searches, given.seconds, process)
            report("/health meanwhile", health, given.seconds, process)


if __name__ == "__main__":
    main()
