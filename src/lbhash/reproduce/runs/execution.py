"""Training the runs of a cell."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import lightning as L
import numpy as np
import numpy.typing as npt
from lightning.pytorch.callbacks import Callback

from lbhash.codes import PackedCodes
from lbhash.data import Dataset
from lbhash.evaluation.bound import Bound, bound
from lbhash.evaluation.metrics import mean_average_precision
from lbhash.evaluation.ranking import RankHistogram
from lbhash.evaluation.recognition import classifier_predict
from lbhash.evaluation.report import evaluate
from lbhash.hasher import Hasher
from lbhash.models.hash_model import HashModel
from lbhash.reproduce.runs.config import CODES, RECIPES, SECONDS, TRAJECTORY, Cell
from lbhash.training.module import HashingModule


@dataclass(frozen=True)
class Outcome:
    """What a run leaves.

    Attributes:
        final: the last model's figures, as JSON can hold them.
        trajectory: figures after each epoch, where they are wanted.
        codes: packed codes by split, where they are wanted.
        seconds: of the processor for each epoch's steps, where they are wanted.
    """

    final: dict[str, Any]
    trajectory: list[dict[str, Any]] | None = None
    codes: dict[str, PackedCodes] | None = None
    seconds: list[float] | None = None


def execute(cell: Cell, seeds: Sequence[int]) -> dict[int, Outcome]:
    """Train and evaluate the cell with each of these seeds: all as one computation, but one by one to time them."""
    options = RECIPES[cell.recipe]
    hasher = Hasher(
        cell.bits,
        cell.method,
        options is not None,
        cell.epochs,
        hidden=cell.hidden,
        centers=cell.centers,
        batch_size=cell.batch_size,
        lr=cell.lr,
        guidance=options,
        device="cpu",
    )
    if SECONDS in cell.wanted:
        return {seed: _timed(cell, hasher.set_params(seed=seed)) for seed in seeds}
    trajectories: list[list[dict[str, Any]]] = [[] for _ in seeds]

    def look(epoch: int, models: Sequence[HashModel], losses: Sequence[float]) -> None:
        for trajectory, seed, model, loss in zip(trajectories, seeds, models, losses, strict=True):
            trajectory.append({"loss": loss, **snapshot(model, cell.source.dataset(seed), cell.source.at())})

    looks = TRAJECTORY in cell.wanted
    parts, (classes, *_) = zip(*(cell.source.training(seed) for seed in seeds), strict=True)
    hashers = hasher.fit_seeds(parts, len(classes), seeds, after_epoch=look if looks else None)
    return {
        trained.seed: _outcome(cell, trained, classes, trajectory if looks else None)
        for trained, trajectory in zip(hashers, trajectories, strict=True)
    }


def _timed(cell: Cell, hasher: Hasher) -> Outcome:
    part, classes = cell.source.training(hasher.seed)
    watch = EpochWatch(cell.source.dataset(hasher.seed), cell.source.at(), TRAJECTORY in cell.wanted)
    hasher.fit_split(part, len(classes), callbacks=[watch])
    return _outcome(cell, hasher, classes, watch.epochs if TRAJECTORY in cell.wanted else None, watch.seconds)


def _outcome(
    cell: Cell,
    hasher: Hasher,
    classes: npt.NDArray[np.int64],
    trajectory: list[dict[str, Any]] | None,
    seconds: list[float] | None = None,
) -> Outcome:
    """What a trained hasher leaves."""
    data = cell.source.dataset(hasher.seed)
    query, base = hasher.encode_split(data.query), hasher.encode_split(data.base)
    report = evaluate(query, data.query.labels, base, data.base.labels, cell.source.at(), bits=cell.bits)
    recognition = report.knn_accuracy
    if hasher.model_.classifier is not None and not data.multi_label:
        found = classes[classifier_predict(query, hasher.model_.classifier.weight.detach().numpy())]
        recognition = float(np.mean(found == data.query.labels))
    final = {
        "run": {**asdict(cell), "wanted": sorted(cell.wanted), "seed": hasher.seed} | {"source": cell.source.name},
        "report": report.as_dict(),
        "recognition": recognition,  # by the method's own classifier where it has one, else by a vote
    }
    return Outcome(final, trajectory, {"query": query, "base": base} if CODES in cell.wanted else None, seconds)


@dataclass(eq=False)
class EpochWatch(Callback):
    """Times each epoch, and looks at the codes behind it; the training goes on as if nobody had looked."""

    data: Dataset
    at: int | None
    looks: bool
    epochs: list[dict[str, Any]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def on_train_epoch_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Start the clock."""
        self._started = time.process_time()

    def on_train_epoch_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        """Stop it, and evaluate."""
        self.seconds.append(time.process_time() - self._started)
        if self.looks:
            trained = cast(HashingModule, module)  # which logs its loss only after its callbacks
            found = snapshot(cast(HashModel, trained.model), self.data, self.at)
            self.epochs.append({"loss": trained.mean_loss, **found})


def snapshot(model: HashModel, data: Dataset, at: int | None) -> dict[str, Any]:
    """mAP of a model as it is, and the bound of the base's codes."""
    query, base = (np.concatenate([model.encode(chunk) for chunk in part.chunks()]) for part in (data.query, data.base))
    histogram = RankHistogram.from_codes(query, data.query.labels, base, data.base.labels, model.bits)
    found = bound(base, data.base.labels, bits=model.bits)
    return {"map": mean_average_precision(histogram, at), **distances(found)}


def distances(found: Bound) -> dict[str, float | None]:
    """min D_inter, max D_intra, and the 99.9th percentile of D_intra; ``None`` for what there is none of."""
    values = {"inter": found.inter, "intra": found.intra, "intra_99.9": found.at_percentile(99.9).intra}
    return {name: float(value) if math.isfinite(value) else None for name, value in values.items()}
