"""The experiments by name; a module is imported only when its experiment is run."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbhash.reproduce.runs.settings import Settings
from lbhash.reproduce.runs.sources import Source, UnsuitableData
from lbhash.utils.files import check_folder

if TYPE_CHECKING:
    from lbhash.reproduce.results.result import Result
    from lbhash.reproduce.runs.config import Cell

TRAINED = frozenset({"sources", "epochs", "lr", "bits"})
"""What most experiments that train can be told."""

CHOICES = {"sources": "data", "data": "data", "epochs": "epochs", "lr": "lr", "bits": "bits", "methods": "methods"}
"""Settings that not every experiment can use, and what they are called."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes:
        summary: what it shows, in a line.
        module: which has ``run(settings)``, and ``cells(settings)`` where its trainings can serve others too.
        uses: which of ``CHOICES`` it can be told; with "data" it takes one set of data, with "sources" several.
    """

    summary: str
    module: str
    uses: frozenset[str] = frozenset()

    def run(self, settings: Settings) -> Result:
        """The table and the figure; it may take minutes."""
        return importlib.import_module(self.module).run(settings)

    def cells(self, settings: Settings) -> Sequence[Cell]:
        """Its trainings with what of the settings it can use; none where it has none, or the data do not suit it."""
        try:
            return getattr(importlib.import_module(self.module), "cells", lambda _: ())(self.suited(settings))
        except UnsuitableData:
            return ()

    def checked(self, name: str, settings: Settings) -> Settings:
        """The settings, or ``ValueError`` with a line where something was given that the experiment cannot use."""
        if "data" in self.uses and len(settings.sources) == 1:
            settings = replace(settings, data=settings.sources[0].file, sources=())
        if "sources" in self.uses and settings.data is not None:
            settings = replace(settings, data=None, sources=(*settings.sources, Source.of(settings.data)))
        for field, said in CHOICES.items():
            value = getattr(settings, field)
            if not value or field in self.uses:
                continue
            if said != "data":
                listed = ", ".join(map(str, value)) if isinstance(value, tuple) else value
                raise ValueError(f"{said} is {listed}, and {name} has no use for it; leave it out")
            if "data" in self.uses:
                raise ValueError(f"data is given {len(value)} times, and {name} takes one set of data")
            given = value if field == "data" else ", ".join(source.file for source in value)
            takers = [other for other, experiment in experiments().items() if experiment.uses & {"data", "sources"}]
            raise ValueError(f"data is {given!r}, and {name} draws its own; only {', '.join(takers)} take data")
        return settings

    def suited(self, settings: Settings) -> Settings:
        """What of the settings it can use; where it takes one set of data, the first that has one label a row.

        Raises:
            UnsuitableData: none has.
        """
        nothing: dict[str, Any] = {name: getattr(Settings, name) for name in CHOICES if name not in self.uses}
        own = replace(settings, **nothing)
        if "data" not in self.uses:
            return own
        from lbhash.reproduce.runs.grid import single_label

        return replace(own, data=single_label(settings, "this experiment")[0].file)


def experiments() -> dict[str, Experiment]:
    """All experiments by name."""
    return {
        "map": Experiment(
            "mAP of the methods, host and guided, at each length of code and on each set of data",
            "lbhash.reproduce.map_table",
            TRAINED | {"methods"},
        ),
        "recognition": Experiment(
            "accuracy of recognition, host and guided",
            "lbhash.reproduce.recognition",
            TRAINED | {"methods"},
        ),
        "imagenet": Experiment(
            "mAP on the 1,000 classes of the full ImageNet protocol, host and guided",
            "lbhash.reproduce.imagenet",
            TRAINED | {"methods"},
        ),
        "ratio": Experiment(
            "mAP against min D_inter / max D_intra at each epoch of CSQ_D",
            "lbhash.reproduce.ratio",
            TRAINED,
        ),
        "ratio-methods": Experiment(
            "mAP against the ratio over all methods, host to guided",
            "lbhash.reproduce.ratio_methods",
            TRAINED | {"methods"},
        ),
        "convergence": Experiment(
            "guidance, BCE and Cauchy alone in the same model: mAP and ratio by epoch",
            "lbhash.reproduce.convergence",
            TRAINED,
        ),
        "cost": Experiment(
            "training seconds an epoch of guidance, BCE and Cauchy, alone on one thread",
            "lbhash.reproduce.cost",
            TRAINED,
        ),
        "centers": Experiment(
            "the center ablation: CSQ_D with Reed-Solomon, BCH, Hadamard and the best centers",
            "lbhash.reproduce.center_ablation",
            TRAINED,
        ),
        "curves": Experiment(
            "precision against recall, precision at K, and precision within a radius of 2 bits",
            "lbhash.reproduce.curves",
            TRAINED | {"methods"},
        ),
        "tsne": Experiment(
            "t-SNE of the queries' codes before and after guidance",
            "lbhash.reproduce.tsne",
            TRAINED | {"methods"},
        ),
        "guidance": Experiment(
            "the paper's guidance, with arranged centers, and in balance with the host, on rows held out of training",
            "lbhash.reproduce.guidance",
            TRAINED | {"methods"},
        ),
        "guidance-queries": Experiment(
            "the same on the data's own queries",
            "lbhash.reproduce.guidance_queries",
            TRAINED | {"methods"},
        ),
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
            frozenset({"data"}),
        ),
        "theory": Experiment(
            "the lowest average precision: the closed form beside all orders of small lists",
            "lbhash.reproduce.theory",
        ),
    }


def run_experiment(name: str, settings: Settings, out: str | Path) -> Result:
    """Run an experiment, and write its table and its figure as files of its name.

    Raises:
        ValueError: there is no such experiment, it cannot use a setting or the data, or a folder's place holds a file.
    """
    known = experiments()
    if name not in known:
        raise ValueError(f"name is {name!r}; it must be one of {', '.join(known)}, or all")
    settings = known[name].checked(name, settings)
    check_folder(out, "out")
    check_folder(settings.runs, "runs")
    from lbhash.reproduce.results.write import write_result
    from lbhash.reproduce.runs.settings import command_line

    result = known[name].run(settings)
    write_result(name, result, out, command_line(name, settings))
    return result
