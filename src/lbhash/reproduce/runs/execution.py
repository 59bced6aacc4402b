"""Training and evaluating a run."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import lightning as L
import numpy as np
from lightning.pytorch.callbacks import Callback

from lbhash.codes import PackedCodes
from lbhash.data import Dataset
from lbhash.evaluation.bound import bound
from lbhash.evaluation.metrics import mean_average_precision
from lbhash.evaluation.ranking import RankHistogram
from lbhash.evaluation.recognition import classifier_predict
from lbhash.evaluation.report import evaluate
from lbhash.hasher import Hasher
from lbhash.models.hash_model import HashModel
from lbhash.reproduce.runs.config import CODES, RECIPES, SECONDS, TRAJECTORY, RunConfig
from lbhash.training.module import HashingModule


@dataclass(frozen=True)
class Outcome:
    """The result of a run: its final metrics as JSON can hold them, and the extras that were wanted.

    The metrics are ``report`` (``lbhash.Report.as_dict``) and ``recognition``. ``trajectory`` has the ``loss`` of each
    epoch and its ``epoch_metrics``, and ``seconds`` the processor's seconds for its steps.
    """

    final: dict[str, Any]
    trajectory: list[dict[str, Any]] | None = None
    codes: dict[str, PackedCodes] | None = None
    seconds: list[float] | None = None


def execute(config: RunConfig, seeds: Sequence[int]) -> dict[int, Outcome]:
    """Train and evaluate a run with each of these seeds, one after the other."""
    guidance = RECIPES[config.recipe]
    source, watched = config.source, TRAJECTORY in config.wanted
    head = (config.bits, config.method, guidance is not None, config.epochs)
    options = {name: getattr(config, name) for name in ("hidden", "centers", "batch_size", "lr")}
    hasher = Hasher(*head, **options, guidance=guidance, recipe="paper", device="cpu")
    outcomes = {}
    for seed in seeds:
        split, classes = source.training(seed)
        watch = EpochWatch(source.dataset(seed), source.top_k(), watched)
        hasher.set_params(seed=seed).fit_split(split, len(classes), callbacks=[watch])
        seconds = watch.seconds if SECONDS in config.wanted else None
        outcomes[seed] = _outcome(config, hasher, watch.epochs if watched else None, seconds)
    return outcomes


def _outcome(
    config: RunConfig, hasher: Hasher, trajectory: list[dict[str, Any]] | None, seconds: list[float] | None
) -> Outcome:
    data = config.source.dataset(hasher.seed)
    query, base = hasher.encode_split(data.query), hasher.encode_split(data.base)
    report = evaluate(query, data.query.labels, base, data.base.labels, config.source.top_k(), bits=config.bits)
    recognition = report.knn_accuracy
    if hasher.model_.classifier is not None and not data.multi_label:  # then the method's own classifier decides
        _, classes = config.source.training(hasher.seed)
        found = classes[classifier_predict(query, hasher.model_.classifier.weight.detach().numpy())]
        recognition = float(np.mean(found == data.query.labels))
    run = {**asdict(config), "wanted": sorted(config.wanted), "seed": hasher.seed, "source": config.source.name}
    final = {"run": run, "report": report.as_dict(), "recognition": recognition}
    return Outcome(final, trajectory, {"query": query, "base": base} if CODES in config.wanted else None, seconds)


@dataclass(eq=False)
class EpochWatch(Callback):
    """Time each epoch and, if wanted, evaluate the codes after it, which does not change the training."""

    data: Dataset
    top_k: int | None
    evaluates: bool
    epochs: list[dict[str, Any]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Start the clock."""
        self._started = time.process_time()

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Stop the clock, and evaluate."""
        self.seconds.append(time.process_time() - self._started)
        if self.evaluates:
            trained = cast(HashingModule, module)  # it logs its loss only after its callbacks
            metrics = epoch_metrics(cast(HashModel, trained.model), self.data, self.top_k)
            self.epochs.append({"loss": trained.mean_loss, **metrics})


def epoch_metrics(model: HashModel, data: Dataset, top_k: int | None) -> dict[str, float | None]:
    """Return mAP, and min D_inter and max D_intra of the base's codes, of all and of the paper's 99.9 %."""
    query, base = (
        np.concatenate([model.encode(chunk) for chunk in split.chunks()]) for split in (data.query, data.base)
    )
    histogram = RankHistogram.from_codes(query, data.query.labels, base, data.base.labels, model.bits)
    found = bound(base, data.base.labels, bits=model.bits)
    most = found.at_percentile()
    distances = {"inter": found.inter, "intra": found.intra, "inter_99.9": most.inter, "intra_99.9": most.intra}
    finite = {name: float(value) if math.isfinite(value) else None for name, value in distances.items()}
    return {"map": mean_average_precision(histogram, top_k), **finite}
