"""Runs on disk: a JSON file each, so that no experiment runs again what is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.reproduce.runs.config import CODES, FINAL, SECONDS, TRAJECTORY, RunConfig, distinct
from lbhash.utils.checksums import read_npz, write_npz
from lbhash.utils.parallel import damaged_run, in_processes, print_progress, read_run, write_run

if TYPE_CHECKING:
    from lbhash.reproduce.runs.execution import Outcome

_ENDINGS = {FINAL: ".json", TRAJECTORY: "-epochs.json", CODES: "-codes.npz", SECONDS: "-seconds.json"}


class Runs:
    """A folder of finished runs, whose files are always whole, even if the program was killed."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def missing(self, config: RunConfig, seeds: Iterable[int]) -> list[int]:
        """Return the seeds whose stored runs lack at least one wanted file."""
        wanted = (FINAL, *config.wanted)
        return [seed for seed in seeds if not all(self.file(config, seed, what).exists() for what in wanted)]

    def save(self, config: RunConfig, seed: int, outcome: Outcome) -> None:
        """Write what a run left; its final metrics come last."""
        for what, value in ((TRAJECTORY, outcome.trajectory), (SECONDS, outcome.seconds)):
            if value is not None:
                write_run(self.file(config, seed, what), value)
        if outcome.codes is not None:
            write_npz(self.file(config, seed, CODES), outcome.codes)
        write_run(self.file(config, seed, FINAL), outcome.final)

    def read(self, config: RunConfig, seed: int, what: str = FINAL) -> Any:
        """Return something that a run left: its final metrics, or one of ``EXTRAS``; see ``Outcome``."""
        file = self.file(config, seed, what)
        if what != CODES:
            return read_run(file)
        try:
            return read_npz(file, own=True)
        except ValueError as error:
            raise damaged_run(file, error) from None

    def file(self, config: RunConfig, seed: int, what: str = FINAL) -> Path:
        """Return the file of something that a run left or will leave."""
        return self.folder / f"{config.name(seed)}{_ENDINGS[what]}"


def complete(configs: Iterable[RunConfig], seeds: Sequence[int], folder: str | Path, workers: int) -> Runs:
    """Run what is missing in the folder, and return the folder's runs.

    Several runs are trained at a time, each in a process with one thread; if ``workers`` is 1, in this process.
    """
    runs = Runs(folder)
    tasks: dict[str, tuple[RunConfig, list[int], Path]] = {}
    for config in distinct(configs):
        missing = runs.missing(config, seeds)  # this reads the data, so that their errors come before any training
        if missing:
            names = " ".join(config.name(seed) for seed in missing)  # two kinds of centers may be the same runs
            same = tasks[names][0].wanted if names in tasks else ()
            tasks[names] = (config.wanting(*same), missing, runs.folder)
    if tasks:
        runs.folder.mkdir(parents=True, exist_ok=True)  # this may fail, which is better before a training than after it
    workers = min(workers, len(tasks))
    here = ((name, execute_and_save(*task)) for name, task in tasks.items())
    done = in_processes(tasks, execute_and_save, workers) if workers > 1 else here
    for _ in print_progress(done, len(tasks), lambda _, said: said):
        pass
    return runs


def execute_and_save(config: RunConfig, seeds: Sequence[int], folder: Path) -> str:
    """Train and evaluate a run with these seeds, write its files, and return a line that says how it went."""
    from lbhash.reproduce.runs.execution import execute

    runs = Runs(folder)
    found = execute(config, seeds)
    for seed, outcome in found.items():
        runs.save(config, seed, outcome)
    mean = float(np.mean([outcome.final["report"]["map"] for outcome in found.values()]))
    of_seeds = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    centers = "" if config.centers == "best" else f", {config.centers} centers"
    head = f"{config.source.name}, {config.label}, {config.bits} bits{centers}, {config.epochs} epochs, {of_seeds}"
    return f"{head}: mAP {mean:.4f}"
