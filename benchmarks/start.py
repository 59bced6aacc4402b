"""How long commands take to start, beside ``import torch``: whole processes, ratios measured side by side in one run.

    python benchmarks/start.py

Each round runs every line once, and ``import torch`` before each of them; the ratio is that of the medians. Files are
warm. "train" is one epoch of 1,437 rows, which is a tenth of a second of it. "encoding" compares the same model, of
384 numbers and a hidden layer of 1,024, in NumPy and as PyTorch's module, on as many threads, in turns.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from lbhash import Hasher
from lbhash.data import load_dataset

LBHASH = (sys.executable, "-m", "lbhash")
ONE_ROW = "from lbhash import Hasher; import numpy as np; Hasher.from_pretrained('model').encode(np.zeros((1, 64)))"


def seconds(*command: str) -> float:
    """The time of a process; status 2 is that of a refused command."""
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 2), done.stderr
    return time.perf_counter() - started


def seconds_to_serve() -> float:
    """The time until a service answers ``/health``."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    started = time.perf_counter()
    command = [*LBHASH, "serve", "--model", "model", "--index", "index", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as service:
        while True:
            assert service.poll() is None
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                break
            time.sleep(0.01)
        took = time.perf_counter() - started
        service.terminate()
    return took


LINES: dict[str, Callable[[], float]] = {
    "from lbhash import Hasher": lambda: seconds(sys.executable, "-c", "from lbhash import Hasher"),
    "load a model, encode one row": lambda: seconds(sys.executable, "-c", ONE_ROW),
    "lbhash search --row 0": lambda: seconds(*LBHASH, "search", "--index", "index", "--model", "model", "--row", "0"),
    "lbhash index info": lambda: seconds(*LBHASH, "index", "info", "index"),
    "a command refused for a wrong path": lambda: seconds(*LBHASH, "encode", "--model", "none", "--out", "c.npz"),
    "lbhash serve, until /health answers": seconds_to_serve,
    "lbhash train --data digits --epochs 1": lambda: seconds(
        *LBHASH, "train", "--data", "digits", "--epochs", "1", "--out", "trained"
    ),
}


def starts(rounds: int) -> None:
    """Processes beside ``import torch``."""
    hasher = Hasher(epochs=1).fit_split(load_dataset("digits").train, 10)
    hasher.model_.metadata |= {"data": "digits", "protocol": "digits", "split_seed": 0}
    hasher.save_pretrained("model")
    seconds(*LBHASH, "index", "build", "--model", "model", "--data", "digits", "--out", "index")
    took: dict[str, list[float]] = {name: [] for name in LINES}
    beside: dict[str, list[float]] = {name: [] for name in LINES}
    for name, line in list(LINES.items()) * (rounds + 1):
        beside[name].append(seconds(sys.executable, "-c", "import torch"))
        took[name].append(line())
    print("| what | seconds | / import torch |\n|:--|--:|--:|")
    for name in LINES:
        ours, torch = (statistics.median(times[name][1:]) for times in (took, beside))  # the first round warms up
        print(f"| {name} | {ours:.2f} | {ours / torch:.2f} |")


def encoding(rows: int, rounds: int) -> None:
    """The same model in NumPy and in PyTorch."""
    import torch
    from threadpoolctl import threadpool_limits

    from lbhash.codes import pack
    from lbhash.models.hash_model import HashModel

    x = np.random.default_rng(0).normal(size=(rows, 384)).astype(np.float32)
    model = HashModel(384, 64).eval()
    encoder = model.encoder()

    def by_torch() -> None:
        with torch.inference_mode():
            for start in range(0, rows, 8192):
                pack(model(torch.from_numpy(x[start : start + 8192])).numpy())

    print("\n| threads | rows | seconds, NumPy | / PyTorch |\n|--:|--:|--:|--:|")
    for threads in (1, os.cpu_count() or 1):
        torch.set_num_threads(threads)
        times: list[tuple[float, float]] = []
        with threadpool_limits(threads):
            for _ in range(rounds):
                started = time.perf_counter()
                encoder.encode(x)
                between = time.perf_counter()
                by_torch()
                times.append((between - started, time.perf_counter() - between))
        ratio = statistics.median(ours / theirs for ours, theirs in times)
        print(f"| {threads} | {rows:,} | {statistics.median(ours for ours, _ in times):.2f} | {ratio:.2f} |")


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", type=int, default=1_000_000, help="that are encoded")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(Path(folder))
        starts(given.rounds)
        encoding(given.rows, given.rounds)


if __name__ == "__main__":
    main()
