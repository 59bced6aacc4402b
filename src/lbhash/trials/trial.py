"""A trial: fit a way, ask it questions, and measure each answer. Finished trials are kept, not repeated."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from lbhash.data.split import EmbeddingSplit
from lbhash.trials.questions import NEAREST, Question, Values
from lbhash.trials.stages import after_stages
from lbhash.trials.stored import Stored, Way
from lbhash.trials.ways import Fit
from lbhash.utils.parallel import read_run, run_missing, write_run
from lbhash.utils.paths import check_folder


@dataclass(frozen=True)
class Measured(Way):
    """A way's answer to a question.

    Attributes:
        question: name of the question.
        by: as in ``Stored``.
        search: milliseconds a query; 0 if the question is not timed.
        figures: figures of each query by name, ``float64 [queries]``; NaN where one is not defined.
    """

    question: str
    by: str
    search: float
    figures: Mapping[str, Values]


@dataclass(frozen=True)
class Trial:
    """A way, the rows that it is fitted to, and the questions that it then answers."""

    fit: Fit
    train: EmbeddingSplit
    questions: tuple[Question, ...]

    def run(self) -> Iterator[Measured]:
        """Fit once, and measure all that the way stores for each question."""
        for store in self.fit(self.train):
            for question in self.questions:
                for stored in store(question):
                    if question.stages:
                        stored = stored.remembered(len(question.query))
                    for one in (stored, *after_stages(stored, question)):
                        yield measured(one, question)


def measured(stored: Stored, question: Question) -> Measured:
    """Return the figures of the question and, if it is timed, the time of a search."""
    searched = 0.0
    if question.timed:
        some, most = slice(0, question.timed), min(NEAREST, len(question.base))
        stored.find(slice(0, 1), most)  # compile before timing
        began = time.perf_counter()
        stored.find(some, most)
        searched = 1000 * (time.perf_counter() - began) / min(question.timed, len(question.query))
    way = {one.name: getattr(stored, one.name) for one in fields(Way)}
    return Measured(**way, question=question.name, by=stored.by, search=searched, figures=question.answers(stored))


def run_trials(
    trials: Mapping[str, Trial],
    folder: Path | None = None,
    workers: int = 1,
    *,
    progress: bool = False,
) -> dict[str, list[Measured]]:
    """Run trials, and return the measurements of each by name.

    Args:
        trials: trials by name.
        folder: keeps a file of each finished trial; trials with a file are not run again.
        workers: number of processes, with one thread each.
        progress: show a bar on standard error.
    """
    tasks = {name: (trial,) for name, trial in trials.items()}
    found = run_missing(tasks, execute, folder, workers, title="comparing", progress=progress)
    return {name: [_from_json(one) for one in held] for name, held in found.items()}


def kept_folder(out: Path, about: Mapping[str, Any], what: str) -> Path:
    """Return the folder ``out/runs`` of kept trials; raise ``ValueError`` if ``out`` holds another ``what``.

    ``about`` identifies the trials; the folder's ``about.json`` holds it.
    """
    check_folder(out, "out")
    if any((out / name).exists() for name in ("config.json", "index.json")):
        raise ValueError(f"out is {str(out)!r}, which holds a model or an index; name another folder")
    folder, file = out / "runs", out / "runs" / "about.json"
    about = json.loads(json.dumps(about, default=str))
    if file.exists() and (before := read_run(file)) != about:
        other = next(name for name in about if before.get(name) != about[name])
        raise ValueError(
            f"out is {str(out)!r}, which holds a {what} with {other} {before.get(other)!r}, and this one has "
            f"{about[other]!r}; name another folder, or remove that one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_run(file, about)
    return folder


def execute(trial: Trial) -> list[dict[str, Any]]:
    """Run a trial, and return its measurements as JSON values."""
    return [_to_json(one) for one in trial.run()]


def _to_json(one: Measured) -> dict[str, Any]:
    figures = {
        name: [None if np.isnan(value) else value for value in values.tolist()] for name, values in one.figures.items()
    }
    return {**vars(one), "figures": figures}


def _from_json(held: dict[str, Any]) -> Measured:
    figures = {name: np.array(values, np.float64) for name, values in held["figures"].items()}
    return Measured(**{**held, "figures": figures})
