"""What all experiments can be told."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path

from lbhash.reproduce.runs.sources import DIGITS, Source
from lbhash.utils.system import usable_cores
from lbhash.utils.validation import check_int

METHODS = ("hashnet", "dbdh", "dsdh", "dch", "greedyhash", "csq")
"""The paper's six host methods, in its order."""

EPOCHS = 30
LR = 1e-3  # the paper's


@dataclass(frozen=True)
class Settings:
    """How an experiment is run; what is left out is each experiment's own choice.

    Attributes:
        seeds: repetitions of what is random.
        seed: of the first; the others follow it.
        data: a file or a name of data, for an experiment that takes one set of data.
        sources: sets of data, for an experiment that takes several.
        epochs: of each training.
        lr: of each training, Adam's learning rate at first.
        bits: lengths of codes.
        methods: host methods.
        workers: trainings at a time, one thread each; as many as there are cores where it is not given.
        runs: folder of the finished trainings, which all experiments share.
        hidden: width of the heads' hidden layer.
    """

    seeds: int = 5
    seed: int = 0
    data: str | None = None
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
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise TypeError(f"seed is {self.seed!r}; it must be an integer of at least 0")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be at least 0")
        for name in ("epochs", "workers"):
            if getattr(self, name) is not None:
                check_int(getattr(self, name), name, 1)
        if self.lr is not None:
            if isinstance(self.lr, bool) or not isinstance(self.lr, Real):
                raise TypeError(f"lr is {self.lr!r}; it must be a number above 0")
            if not 0 < self.lr < math.inf:
                raise ValueError(f"lr is {self.lr}; it must be above 0 and finite")
        for length in self.bits:
            check_int(length, "bits", 1, 1024, "the longest code")
        for method in self.methods:
            if method not in METHODS:
                raise ValueError(f"methods has {method!r}; it must name some of {', '.join(METHODS)}")
        names = [source.name for source in self.sources]
        for given, what in ((self.bits, "bits"), (self.methods, "methods"), (names, "data")):
            twice = [value for value in given if list(given).count(value) > 1]
            if twice:
                raise ValueError(f"{what} has {twice[0]!r} twice; give each once")

    def all_seeds(self) -> range:
        """The seeds of the repetitions."""
        return range(self.seed, self.seed + self.seeds)

    def all_sources(self) -> tuple[Source, ...]:
        """The sets of data; the digits where none is given."""
        return self.sources or (DIGITS,)

    def all_epochs(self) -> int:
        """Epochs of each training."""
        return EPOCHS if self.epochs is None else self.epochs

    def rate(self) -> float:
        """Adam's learning rate at first."""
        return LR if self.lr is None else self.lr

    def lasting(self, epochs: int) -> Settings:
        """The same with trainings of so many epochs."""
        return replace(self, epochs=epochs)

    def repeated(self, seeds: int) -> Settings:
        """The same with so many seeds."""
        return replace(self, seeds=seeds)

    def bits_or(self, *default: int) -> Sequence[int]:
        """The lengths of codes, or those that the experiment has of its own."""
        return self.bits or default

    def methods_or(self, *default: str) -> Sequence[str]:
        """The host methods in the paper's order, or those that the experiment has of its own."""
        return [method for method in METHODS if method in (self.methods or default)]

    def all_workers(self) -> int:
        """Trainings at a time."""
        return usable_cores() if self.workers is None else self.workers


def command_line(name: str, settings: Settings) -> str:
    """The command of an experiment; of files it has the names alone."""
    words = ["lbhash", "reproduce", name]
    if settings.data is not None:
        words += ["--data", Path(settings.data).name]
    for source in settings.sources:
        file = Path(source.file).name
        words += ["--data", file if source.name == Path(file).stem else f"{source.name}={file}"]
    words += ["--seeds", str(settings.seeds), *["--seed", str(settings.seed)] * (settings.seed > 0)]
    if settings.epochs is not None:
        words += ["--epochs", str(settings.epochs)]
    if settings.lr is not None:
        words += ["--lr", f"{settings.lr:g}"]
    for length in settings.bits:
        words += ["--bits", str(length)]
    for method in settings.methods:
        words += ["--methods", method]
    return shlex.join(words)
