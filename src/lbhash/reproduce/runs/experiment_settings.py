"""The settings that all experiments share."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from lbhash.reproduce.runs.sources import DIGITS, Source, UnsuitableData
from lbhash.utils.system import usable_cores
from lbhash.utils.validation import check_float, check_int

METHOD_TITLES = {title.lower(): title for title in ("HashNet", "DBDH", "DSDH", "DCH", "GreedyHash", "CSQ")}
"""The paper's six host methods in its order, as it writes them."""
METHODS = tuple(METHOD_TITLES)

EPOCHS = 30
LR = 1e-3  # the paper's


@dataclass(frozen=True)
class Settings:
    """How an experiment is run; each experiment has its own defaults for missing settings.

    There are ``seeds`` repetitions, with the seeds from ``seed`` on; ``sources`` are the data sets. ``workers``
    trainings run at a time, with one thread each (None: one per core). All experiments share the folder ``runs`` of
    finished runs.
    """

    seeds: int = 5
    seed: int = 0
    sources: tuple[Source, ...] = ()
    epochs: int | None = None
    lr: float | None = None
    bits: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()
    workers: int | None = None
    runs: Path = Path("runs/reproduce/runs")
    hidden: int = 1024

    def __post_init__(self) -> None:
        check_int(self.seeds, "seeds", 1)
        check_int(self.seed, "seed")
        for name in ("epochs", "workers"):
            if getattr(self, name) is not None:
                check_int(getattr(self, name), name, 1)
        if self.lr is not None:
            check_float(self.lr, "lr", above=0)
        for length in self.bits:
            check_int(length, "bits", 1, 1024, "the longest code")
        for method in self.methods:
            if method not in METHODS:
                raise ValueError(f"methods has {method!r}; it must name some of {', '.join(METHODS)}")
        lists = {"bits": self.bits, "methods": self.methods, "data": [source.name for source in self.sources]}
        for what, given in lists.items():
            if len(set(given)) < len(given):
                raise ValueError(f"{what} has {max(given, key=list(given).count)!r} twice; give each once")

    def all_seeds(self) -> range:
        """Return the seeds of the repetitions."""
        return range(self.seed, self.seed + self.seeds)

    def all_sources(self) -> tuple[Source, ...]:
        """Return the sets of data; the digits if none are given."""
        return self.sources or (DIGITS,)

    def seeds_text(self) -> str:
        """Return the seeds in words."""
        return f"seed {self.seed}" if self.seeds == 1 else f"seeds {self.seed} to {self.seed + self.seeds - 1}"

    def single_label(self, name: str) -> list[Source]:
        """Return the sets of data with one label a row; raise ``UnsuitableData`` if there is none."""
        sources = [source for source in self.all_sources() if not source.dataset().multi_label]
        if not sources:
            raise UnsuitableData(f"{name} needs data with one label a row, and these have several")
        return sources

    def training(self) -> dict[str, Any]:
        """Return epochs, learning rate and head of each training."""
        epochs = EPOCHS if self.epochs is None else self.epochs
        return {"epochs": epochs, "lr": LR if self.lr is None else self.lr, "hidden": self.hidden}

    def methods_or(self, *default: str) -> Sequence[str]:
        """Return the host methods, or the experiment's default, in the paper's order."""
        return [method for method in METHODS if method in (self.methods or default)]

    def all_workers(self) -> int:
        """Return how many trainings run at a time."""
        return usable_cores() if self.workers is None else self.workers


def command_line(name: str, settings: Settings) -> str:
    """Return the command that runs an experiment, with the names of files but not their folders."""
    data = []
    for source in settings.sources:
        file = Path(source.file)
        data.append(file.name if source.name == file.stem else f"{source.name}={file.name}")
    options: dict[str, Sequence[Any]] = {
        "--data": data,
        "--seeds": [settings.seeds],
        "--seed": [settings.seed or None],
        "--epochs": [settings.epochs],
        "--lr": [None if settings.lr is None else f"{settings.lr:g}"],
        "--bits": settings.bits,
        "--method": settings.methods,
    }
    given = [(option, str(value)) for option, values in options.items() for value in values if value is not None]
    return shlex.join(["lbhash", "reproduce", name, *chain.from_iterable(given)])
