"""What the benchmarks share: options, measurements that take turns, processes that measure, and lines of tables."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from statistics import median

import numpy as np


def options(doc: str | None, rounds: int) -> argparse.ArgumentParser:
    """Return a parser with ``--rounds``."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    return parser


def seconds_of(work: Callable[[], object]) -> float:
    """Return the seconds of a call."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def in_turns(measures: Mapping[str, Callable[[], float]], rounds: int, *, warm_up: int = 0) -> dict[str, list[float]]:
    """Return what each measures in every round but those that warm up; they take turns."""
    turns = [{name: measure() for name, measure in measures.items()} for _ in range(warm_up + rounds)][warm_up:]
    return {name: [turn[name] for turn in turns] for name in measures}


def median_ratio(first: list[float], second: list[float]) -> float:
    """Return the median of the rounds' ratios."""
    return median(one / other for one, other in zip(first, second, strict=True))


def of_child(script: str, *arguments: object) -> list[float]:
    """Return the numbers that a Python script prints, in a process of its own."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return list(map(float, subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()))


def print_head(*names: str, words: int = 1) -> None:
    """Print the head of a table, whose first columns hold words, and the others numbers."""
    print_row(*names)
    print(f"|{'|'.join(':--' if at < words else '--:' for at in range(len(names)))}|", flush=True)


def print_row(*cells: object) -> None:
    """Print a line of a table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def noisy_codes(rows: int, bits: int, centers: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return packed codes around a random center each, an eighth of the bits flipped, and which center it is.

    The centers are the same for all seeds.
    """
    words = np.random.default_rng(0).integers(0, 256, (centers, bits // 8), np.uint8)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, centers, rows)
    return words[labels] ^ np.bitwise_and.reduce(rng.integers(0, 256, (3, rows, bits // 8), np.uint8)), labels


def noisy_outputs(rows: int, bits: int, centers: int, seed: int) -> np.ndarray:
    """Return real outputs around the centers of ``noisy_codes``, ``float32 [rows, bits]``; an eighth differ."""
    words = np.random.default_rng(0).integers(0, 256, (centers, bits // 8), np.uint8)
    rng = np.random.default_rng(seed)
    signs = np.unpackbits(words[rng.integers(0, centers, rows)], axis=1) * np.float32(2) - 1
    return signs + rng.standard_normal(signs.shape, np.float32) / np.float32(1.15)
