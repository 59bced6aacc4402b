"""The experiments by name; a module is imported only when its experiment is run."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbhash.reproduce.runs import Settings, UnsuitableData, command_line
from lbhash.utils.paths import check_folder
from lbhash.utils.validation import did_you_mean

if TYPE_CHECKING:
    from lbhash.reproduce.results.experiment_result import Result

TRAINS = ("sources", "epochs", "lr", "bits")
HOSTS = (*TRAINS, "methods")
"""Settings that not every experiment can use."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper: its name, a line about it, and which of ``HOSTS`` it can use.

    The module of its name has ``run(settings)``; a shared ``module`` has ``run(settings, name)``. ``in_docs`` says
    whether docs/reproduce shows its results.
    """

    name: str
    summary: str
    uses: Collection[str] = ()
    module: str = ""
    in_docs: bool = True

    def run(self, settings: Settings) -> Result:
        """Return the table and the figure; it may take minutes."""
        module = import_module(f"lbhash.reproduce.{self.module or self.name.replace('-', '_')}")
        return module.run(settings, self.name) if self.module else module.run(settings)

    def run_and_write(self, settings: Settings, out: str | Path) -> Result:
        """Run it, and write its tables and figures to files of its name."""
        from lbhash.reproduce.results.write import write_result

        result = self.run(settings)
        write_result(self.name, result, out, command_line(self.name, settings))
        return result

    def check(self, settings: Settings) -> None:
        """Raise ``ValueError`` if there is a setting that the experiment cannot use."""
        for name in HOSTS:
            value = getattr(settings, name)
            if not value or name in self.uses:
                continue
            if name == "sources":
                files = ", ".join(source.file for source in value)
                raise ValueError(f"data is {files!r}, and {self.name} makes its own; leave it out")
            listed = ", ".join(map(str, value)) if isinstance(value, tuple) else value
            raise ValueError(f"{name} is {listed}, and {self.name} has no use for it; leave it out")

    def suited(self, settings: Settings) -> Settings:
        """Return the settings that it can use."""
        unused: dict[str, Any] = {name: getattr(Settings, name) for name in HOSTS if name not in self.uses}
        return replace(settings, **unused)


_ALL = (
    Experiment(
        "map",
        "mAP of the methods, host and guided, for each number of bits and set of data",
        HOSTS,
        "host_guided",
    ),
    Experiment("recognition", "accuracy of recognition, host and guided", HOSTS, "host_guided"),
    Experiment(
        "imagenet",
        "mAP on the 1,000 classes of the full ImageNet protocol, host and guided",
        HOSTS,
        "host_guided",
        in_docs=False,
    ),
    Experiment("ratio", "mAP against min D_inter / max D_intra at each epoch of CSQ_D", TRAINS),
    Experiment("ratio-methods", "mAP against the ratio over all methods, host to guided", HOSTS),
    Experiment("convergence", "mAP and ratio by epoch of guidance, BCE and Cauchy alone in the same model", TRAINS),
    Experiment("cost", "training seconds an epoch of guidance, BCE and Cauchy, alone on one thread", TRAINS),
    Experiment("centers", "CSQ_D with Reed-Solomon, BCH, Hadamard and the best centers", TRAINS),
    Experiment("curves", "precision against recall, precision at K, and within a radius of 2 bits", HOSTS),
    Experiment("tsne", "t-SNE of the queries' codes before and after guidance", HOSTS),
    Experiment("posterior-8", "the surrogate and other estimates of 256 random joint probabilities of 8 bits"),
    Experiment("posterior-16", "a surrogate of two blocks of 8 bits for 65,536 random joint probabilities of 16 bits"),
    Experiment("posterior-2bits", "marginals and joint probabilities of two bits of CSQ on two classes", ("sources",)),
    Experiment("theory", "the lowest average precision: the closed form beside all orders of small lists"),
)


LEAVE_MORE = ("ratio", "convergence", "tsne")
"""Experiments whose runs leave more than a report. They run first, so that others can use these runs."""


def experiments() -> dict[str, Experiment]:
    """Return all experiments by name."""
    return {experiment.name: experiment for experiment in _ALL}


def run_experiment(name: str, settings: Settings, out: str | Path) -> Result:
    """Run an experiment, and write its tables and figures to files of its name.

    Raises ``ValueError`` if the name is unknown, a setting or the data do not suit it, or a file is in a folder's
    place.
    """
    known = experiments()
    if (name := name.lower()) not in known:
        raise ValueError(f"name is {name!r}; it must be one of {', '.join(known)}, or all{did_you_mean(name, known)}")
    known[name].check(settings)
    check_folder(out, "out")
    check_folder(settings.runs, "runs")
    return known[name].run_and_write(settings, out)


def run_all(settings: Settings, out: str | Path) -> dict[str, Result | str]:
    """Run every experiment with the settings that it can use, and write each one's files.

    They share their runs. After an interruption, a new call makes only the missing runs.

    Returns:
        The results by name; for an experiment that the data do not suit, a line that says what it needs.
    """
    check_folder(out, "out")
    check_folder(settings.runs, "runs")
    known = experiments()
    for source in settings.all_sources():
        source.dataset()  # errors in the data come first
    found: dict[str, Result | str] = {}
    for name in sorted(known, key=lambda name: name not in LEAVE_MORE):
        print(f"{name}: {known[name].summary}", file=sys.stderr, flush=True)
        try:
            found[name] = known[name].run_and_write(known[name].suited(settings), out)
        except UnsuitableData as error:
            found[name] = str(error)
    return {name: found[name] for name in known}
