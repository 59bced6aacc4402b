"""From a file of embeddings without labels to an index that answers: seconds of each command.

python benchmarks/unlabeled.py --rows 100000 --dim 384
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def main() -> None:
    """Make the file, run the commands on it, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rng = np.random.default_rng(0)
        centers = rng.standard_normal((1000, given.dim), np.float32)
        x = centers[rng.integers(0, 1000, given.rows)] + rng.standard_normal((given.rows, given.dim), np.float32)
        np.save(folder / "x.npy", x)
        commands = {
            "train": ["--data", "x.npy", "--out", "model", "--threads", str(given.threads)],
            "index build": ["--model", "model", "--data", "x.npy", "--split", "all", "--out", "index"],
            "search": ["--index", "index", "--model", "model", "--data", "x.npy", "--row", "5"],
        }
        print("| command | seconds | of the processor |\n|:--|--:|--:|")
        for command, options in commands.items():
            started, before = time.perf_counter(), _cpu()
            words = [sys.executable, "-m", "lbhash", *command.split(), *options]
            subprocess.run(words, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            print(f"| `lbhash {command}` | {time.perf_counter() - started:.1f} | {_cpu() - before:.1f} |", flush=True)


def _cpu() -> float:
    """Return the processor's seconds of all commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
