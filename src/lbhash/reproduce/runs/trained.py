"""Train and evaluate the run behind every row of the tables; each seed leaves a JSON file."""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from lbhash.centers.targets import centers_fingerprint
from lbhash.data import Dataset
from lbhash.evaluation.lower_bound import bound
from lbhash.evaluation.metrics import average_precision, mean_over_queries
from lbhash.evaluation.ranking import RankHistogram
from lbhash.evaluation.recognition import classifier_predict
from lbhash.evaluation.report import evaluate
from lbhash.hasher import Hasher, encode_split, fit_split
from lbhash.losses.registry import uses_centers
from lbhash.models.encoder import Encoder
from lbhash.models.hash_model import HashModel
from lbhash.reproduce.runs.experiment_settings import EPOCHS, LR, METHOD_TITLES, METHODS, Settings
from lbhash.reproduce.runs.sources import Source
from lbhash.reproduce.texts import text
from lbhash.training.loop import Training, Watcher
from lbhash.training.settings import grouped
from lbhash.utils.parallel import read_run, run_missing

BITS = (16, 32, 64)
BATCH = 64  # the paper's

RECIPES: dict[str, tuple[str, dict[str, Any] | None]] = {
    "plain": ("", None),
    "guided": ("_d", {}),
    "replace": ("_replaced", {"mode": "replace"}),
}
"""The suffix that a recipe adds to a method's name, and the guidance's options.

"plain" is the host without guidance, "guided" the paper's X_D; in "replace" the guidance replaces the host's loss.
"""

TRAJECTORY, CODES, SECONDS = "trajectory", "codes", "seconds"
"""Extra results of a run: mAP and ratio by epoch; the codes of the queries; the processor's seconds by epoch."""


@dataclass(frozen=True)
class RunConfig:
    """A training run without its seed: data, host method, one of ``RECIPES``, and settings of ``Hasher``.

    ``wanted`` names extra results that the run must leave; runs that differ only in it are equal.
    """

    source: Source
    method: str
    recipe: str = "plain"
    bits: int = 64
    centers: str = "best"
    epochs: int = EPOCHS
    hidden: int = 1024
    lr: float = LR
    wanted: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def guidance(self) -> dict[str, Any] | None:
        """The guidance's options; ``None`` without guidance."""
        return RECIPES[self.recipe][1]

    @property
    def pull(self) -> str:
        """The pull of codes to the centers: "surrogate", or "none"."""
        return "none" if self.guidance is None else "surrogate"

    @property
    def label(self) -> str:
        """Method and recipe: ``csq``, ``csq_d``, ``csq_replaced``."""
        return self.method + RECIPES[self.recipe][0]

    @property
    def title(self) -> str:
        """The method as the paper writes it: ``CSQ``, ``CSQ_D``."""
        return METHOD_TITLES[self.method] + "_D" * (self.recipe == "guided")

    @property
    def head(self) -> dict[str, Any]:
        """The first cells of the run's row."""
        return {"data": self.source.name, "bits": self.bits, "method": self.title}

    def name(self, seed: int) -> str:
        """Return the name of a run's file, which depends on all settings that decide its content."""
        decisive: list[Any] = [self.source.fingerprint(), self.hidden, self.lr, self.guidance]
        if uses_centers(self.method, self.pull):
            decisive.append(centers_fingerprint(self.source.classes(), self.bits, self.centers, seed))
        mark = zlib.crc32(json.dumps(decisive).encode())
        return f"{self.source.name}-{self.label}-{self.bits}bits-{self.epochs}epochs-seed{seed}-{mark:08x}"


def grid(
    settings: Settings,
    lengths: Sequence[int],
    trained: Iterable[tuple[str, str] | tuple[str, str, str]],
    *wanted: str,
    sources: Iterable[Source] | None = None,
) -> list[RunConfig]:
    """Return a run for each data set, number of bits, and tuple of method, recipe and kind of centers ("best").

    Bits of the settings replace ``lengths``. ``wanted`` names extra results that the runs must leave.
    """
    sources = settings.all_sources() if sources is None else sources
    common: dict[str, Any] = {"wanted": frozenset(wanted), **settings.training()}
    return [
        RunConfig(source, method, recipe, bits, centers[0] if centers else "best", **common)
        for source, bits, (method, recipe, *centers) in product(sources, settings.bits or lengths, trained)
    ]


def pairs(settings: Settings, *default: str) -> list[tuple[str, str]]:
    """Return method and recipe of every host and its guided form, one after the other."""
    return [(method, recipe) for method in settings.methods_or(*(default or METHODS)) for recipe in ("plain", "guided")]


class Done(NamedTuple):
    """A run, and its results for each seed."""

    config: RunConfig
    finals: list[dict[str, Any]]

    def values(self, *keys: str) -> npt.NDArray[np.float64]:
        """Return the numbers under these keys, ``[seeds, …]``; a list on the way adds an axis, and null is NaN."""
        found: Any = self.finals
        for key in keys:
            found = _each(found, key)
        return np.array(found, np.float64)


def _each(found: Any, key: str) -> Any:
    return [_each(one, key) for one in found] if isinstance(found, list) else found[key]


def completed(settings: Settings, configs: Iterable[RunConfig]) -> list[Done]:
    """Return the results of the runs for each seed; missing runs are made first."""
    configs, seeds = list(configs), settings.all_seeds()
    # This reads the data, so their errors come first. Two kinds of centers may share runs.
    tasks = {config.name(seed): (config, seed) for seed, config in product(seeds, configs)}
    for name, (config, seed) in tasks.items():
        file = settings.runs / f"{name}.json"
        if config.wanted and file.exists() and (lacks := config.wanted - (held := read_run(file)).keys()):
            tasks[name] = replace(config, wanted=lacks | (held.keys() & {TRAJECTORY, CODES, SECONDS})), seed
            file.unlink()  # the run is repeated, with the extra results that it had
    found = run_missing(tasks, outcome, settings.runs, settings.all_workers(), title="training")
    return [Done(config, [found[config.name(seed)] for seed in seeds]) for config in configs]


def outcome(config: RunConfig, seed: int) -> dict[str, Any]:
    """Train and evaluate a run, and return its results as JSON values.

    ``report`` is that of ``lbhash.Report.as_dict``, and ``recognition`` the share of queries whose class is recognized.
    ``TRAJECTORY`` has the ``epoch_metrics`` of each epoch.
    """
    source = config.source
    data, top_k = source.dataset(), source.top_k()
    split, classes = source.training()
    options: dict[str, Any] = {name: getattr(config, name) for name in ("bits", "method", "epochs", "hidden", "lr")}
    options |= {"centers": config.centers, "pull": config.pull, "guidance": config.guidance, "batch_size": BATCH}
    hasher = Hasher(**grouped(**options, seed=seed, recipe="paper", device="cpu"))
    watch = EpochWatch(data, top_k, TRAJECTORY in config.wanted)
    fit_split(hasher, split, len(classes), watchers=[watch])
    query, base = encode_split(hasher, data.query), encode_split(hasher, data.base)
    report = evaluate(
        query_codes=query,
        query_labels=data.query.labels,
        base_codes=base,
        base_labels=data.base.labels,
        top_k=top_k,
        bits=config.bits,
    )
    recognition = report.knn_accuracy
    if hasher.model_.classifier is not None and not data.multi_label:  # then the method's own classifier decides
        found = classes[classifier_predict(query, hasher.model_.classifier)]
        recognition = float(np.mean(found == data.query.labels))
    run = {**vars(config), "wanted": sorted(config.wanted), "seed": seed, "source": source.name}
    extras = {TRAJECTORY: watch.epochs, SECONDS: watch.seconds, CODES: query.tolist()}
    kept = {name: value for name, value in extras.items() if name in config.wanted}
    return {"run": run, "report": report.as_dict(), "recognition": recognition, **kept}


@dataclass(eq=False)
class EpochWatch(Watcher):
    """Time each epoch and, if wanted, evaluate the codes after it, which does not change the training."""

    data: Dataset
    top_k: int | None
    evaluates: bool
    epochs: list[dict[str, Any]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def epoch_began(self, training: Training) -> None:
        """Start the clock."""
        self._started = time.process_time()

    def step_done(self, training: Training) -> None:
        """Note the time since the epoch began."""
        self._took = time.process_time() - self._started

    def epoch_ended(self, training: Training) -> None:
        """Store the time up to the last step, and evaluate."""
        self.seconds.append(self._took)
        if self.evaluates:
            self.epochs.append(epoch_metrics(cast(HashModel, training.model).encoder(), self.data, self.top_k))


def epoch_metrics(model: Encoder, data: Dataset, top_k: int | None) -> dict[str, float | None]:
    """Return mAP, and min D_inter and max D_intra of the base codes, over all and over the paper's 99.9 %."""
    query, base = (
        np.concatenate([model.encode(chunk) for chunk in split.chunks()]) for split in (data.query, data.base)
    )
    histogram = RankHistogram.from_codes(query, data.query.labels, base, data.base.labels, model.bits)
    found = bound(base, data.base.labels, bits=model.bits)
    most = found.at_percentile()
    distances = {"inter": found.inter, "intra": found.intra, "inter_99.9": most.inter, "intra_99.9": most.intra}
    finite = {name: float(value) if math.isfinite(value) else None for name, value in distances.items()}
    return {"map": mean_over_queries(average_precision(histogram, top_k)), **finite}


def with_setting(about: str, settings: Settings, sources: Iterable[Source] | None = None) -> str:
    """Return a text with two more paragraphs: the training with its seeds, and the data."""
    own = text("setting", seeds=settings.seeds_text(), **settings.training())
    data = "\n".join(f"- {source}." for source in (settings.all_sources() if sources is None else sources))
    return "\n\n".join([about, own, data])
