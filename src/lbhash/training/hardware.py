"""PyTorch's threads and random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def draw_from(*seeds: int) -> None:
    """Seed PyTorch's generators with these numbers."""
    state = np.random.SeedSequence(seeds).generate_state(1, np.uint64).item()
    torch.default_generator.manual_seed(state)  # torch.manual_seed does the same in twenty times the time
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(state)


@contextmanager
def cpu_settings(threads: int) -> Iterator[None]:
    """Set the number of threads and flush denormal numbers to 0, until the block ends.

    Adam's moments of a converged surrogate become denormal, and a step then takes many times as long.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(before)
