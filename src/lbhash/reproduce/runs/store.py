"""Runs on disk: a JSON file each, so that what is there is not run again, whoever asks for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.reproduce.runs.config import CODES, SECONDS, TRAJECTORY, Cell, distinct
from lbhash.utils.files import replacing, write_json
from lbhash.utils.parallel import in_processes, read_run

if TYPE_CHECKING:
    from lbhash.reproduce.runs.execution import Outcome

FINAL = "final"
_ENDINGS = {
    FINAL: ".json",
    TRAJECTORY: f"-{TRAJECTORY}.json",
    CODES: f"-{CODES}.npz",
    SECONDS: f"-{SECONDS}.json",
}


class Runs:
    """A folder of finished runs.

    Each file is written beside its place and renamed, so that whatever has its name is whole, also behind a kill.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def missing(self, cell: Cell, seeds: Iterable[int]) -> list[int]:
        """The seeds of which not everything is there that the cell wants."""
        wanted = (FINAL, *cell.wanted)
        return [seed for seed in seeds if not all(self.file(cell, seed, part).exists() for part in wanted)]

    def save(self, cell: Cell, seed: int, outcome: Outcome) -> None:
        """Write what a run left; its final figures come last."""
        for part, value in ((TRAJECTORY, outcome.trajectory), (SECONDS, outcome.seconds)):
            if value is not None:
                write_json(self.file(cell, seed, part), value)
        if outcome.codes is not None:
            with replacing(self.file(cell, seed, CODES)) as temporary, temporary.open("wb") as opened:
                np.savez(opened, **outcome.codes)  # type: ignore[arg-type]
        write_json(self.file(cell, seed, FINAL), outcome.final)

    def final(self, cell: Cell, seed: int) -> dict[str, Any]:
        """Figures of the last model: ``report``, as ``lbhash.Report.as_dict`` has it, and ``recognition``."""
        return self._read(cell, seed, FINAL)

    def trajectory(self, cell: Cell, seed: int) -> list[dict[str, Any]]:
        """Of each epoch ``loss``, ``map``, ``inter``, ``intra`` and ``intra_99.9``."""
        return self._read(cell, seed, TRAJECTORY)

    def seconds(self, cell: Cell, seed: int) -> list[float]:
        """Of the processor for each epoch's steps."""
        return self._read(cell, seed, SECONDS)

    def codes(self, cell: Cell, seed: int) -> Mapping[str, npt.NDArray[np.uint8]]:
        """Packed codes of ``query`` and ``base``."""
        with np.load(self.file(cell, seed, CODES), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}

    def file(self, cell: Cell, seed: int, part: str = FINAL) -> Path:
        """Where a part of a run is, or will be."""
        return self.folder / f"{cell.name(seed)}{_ENDINGS[part]}"

    def _read(self, cell: Cell, seed: int, part: str) -> Any:
        return read_run(self.file(cell, seed, part))


def complete(cells: Iterable[Cell], seeds: Sequence[int], folder: str | Path, workers: int) -> Runs:
    """Run what is missing, a cell's seeds together, and several cells at a time.

    Args:
        cells: which; the same run may be wanted several times.
        seeds: of each.
        folder: of the runs.
        workers: cells at a time, each in a process with one thread; a single one is run in this process.

    Returns:
        The folder's runs, these among them.
    """
    runs = Runs(folder)
    tasks: dict[str, tuple[Cell, list[int], Path]] = {}
    for cell in distinct(cells):
        missing = runs.missing(cell, seeds)  # which reads the data, so that faults of theirs are said before a training
        if missing:
            names = " ".join(cell.name(seed) for seed in missing)  # two kinds of centers may be the same runs
            same = tasks[names][0].wanted if names in tasks else ()
            tasks[names] = (cell.wanting(*same), missing, runs.folder)
    if tasks:
        runs.folder.mkdir(parents=True, exist_ok=True)  # which may fail, and better before a training than behind it
    workers = min(workers, len(tasks))
    started = time.perf_counter()
    done = in_processes(tasks, execute_and_save, workers) if workers > 1 else _here(tasks)
    for count, (_, said) in enumerate(done, start=1):
        minutes = (time.perf_counter() - started) / 60
        print(f"[{count}/{len(tasks)}] {said}, {minutes:.1f} minutes", file=sys.stderr, flush=True)
    return runs


def execute_and_save(cell: Cell, seeds: Sequence[int], folder: Path) -> str:
    """Run a cell, leave its files, and say in a line how it went."""
    from lbhash.reproduce.runs.execution import execute

    runs = Runs(folder)
    found = execute(cell, seeds)
    for seed, outcome in found.items():
        runs.save(cell, seed, outcome)
    mean = float(np.mean([outcome.final["report"]["map"] for outcome in found.values()]))
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
    kind = "" if cell.centers == "best" else f", {cell.centers} centers"
    return f"{cell.source.name}, {cell.label}, {cell.bits} bits{kind}, {cell.epochs} epochs, {which}: mAP {mean:.4f}"


def _here(tasks: Mapping[str, tuple[Cell, list[int], Path]]) -> Iterator[tuple[str, str]]:
    for name, task in tasks.items():
        yield name, execute_and_save(*task)
