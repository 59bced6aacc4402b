"""The experiments by name; a module is imported only when its experiment is run."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lbhash.reproduce.settings import Settings

if TYPE_CHECKING:
    from lbhash.reproduce.result import Result


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes:
        summary: what it shows, in a line.
        module: which has ``run(settings)``.
        takes_data: whether it runs on data of one's own.
    """

    summary: str
    module: str
    takes_data: bool = False

    def run(self, settings: Settings) -> Result:
        """The table and the figure; it may take minutes."""
        return importlib.import_module(self.module).run(settings)


def experiments() -> dict[str, Experiment]:
    """All experiments by name."""
    return {
        "posterior-8": Experiment(
            "8 bits, 256 random joint probabilities: how near the surrogate and other estimates come",
            "lbhash.reproduce.posterior_8",
        ),
        "posterior-16": Experiment(
            "16 bits, 65,536 random joint probabilities, a surrogate of two blocks of 8",
            "lbhash.reproduce.posterior_16",
        ),
        "posterior-2bits": Experiment(
            "two bits of CSQ on two classes: their marginals, their joint and the surrogate's",
            "lbhash.reproduce.posterior_2bits",
            takes_data=True,
        ),
        "theory": Experiment(
            "the lowest average precision: the closed form beside all orders of small lists",
            "lbhash.reproduce.theory",
        ),
    }


def run_experiment(name: str, settings: Settings, out: str | Path) -> Result:
    """Run an experiment, and write its table and its figure as files of its name.

    Raises:
        ValueError: there is no such experiment, it takes no data, or ``out`` is a file.
    """
    known = experiments()
    if name not in known:
        raise ValueError(f"name is {name!r}; it must be one of {', '.join(known)}")
    if settings.data is not None and not known[name].takes_data:
        takers = ", ".join(other for other, experiment in known.items() if experiment.takes_data)
        raise ValueError(f"data is {settings.data!r}, and {name} draws its own; only {takers} takes data")
    if Path(out).exists() and not Path(out).is_dir():
        raise ValueError(f"out is {str(out)!r}, which is a file; it must be a folder")
    from lbhash.reproduce.write import write_result

    result = known[name].run(settings)
    write_result(name, result, out)
    return result
