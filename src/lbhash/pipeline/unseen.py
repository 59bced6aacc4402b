"""Evaluate a method on trained classes, on classes that are new after training, and within a class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.data import Dataset
from lbhash.data.protocols import trained_classes
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import Hasher, name_of
from lbhash.pipeline.splits import open_embedded
from lbhash.trials.questions import Question
from lbhash.trials.trial import Trial
from lbhash.trials.ways import hashed
from lbhash.utils.validation import check_int

_FIGURES = {
    "seen_map": ("seen", "itself", "map"),
    "unseen_map": ("unseen", "itself", "map"),
    "transfer_accuracy": ("unseen", "itself", "transfer"),
    "within_recall": ("seen", "itself", "within"),
    "seen_map_real": ("seen", "outputs", "map"),
    "unseen_map_real": ("unseen", "outputs", "map"),
}
"""For each figure: the question, the form of the queries in the search, and the question's own figure."""


@dataclass(frozen=True)
class UnseenReport:
    """The quality of codes for trained classes, and for classes that are new after training.

    Attributes:
        method: the full name, such as ``csq_d``.
        bits: length of a code.
        top_k: the k of mAP@k; None for the whole base.
        figures: ``float64 [draws]`` by name: mAP of trained (``seen``) and of new classes (``unseen``), by the queries'
            codes and by their real outputs (``lbhash.codes.real``); ``transfer_accuracy``, the accuracy of a linear
            classifier fitted to the codes of new classes; and ``within_recall``, recall@10 among the rows of a query's
            own class, for trained classes.
    """

    method: str
    bits: int
    top_k: int | None
    figures: dict[str, npt.NDArray[np.float64]]

    def as_dict(self) -> dict[str, Any]:
        """Return each figure's mean and its draws as JSON values, with None for NaN."""
        means = {name: float(values.mean()) for name, values in self.figures.items()}
        plain = {name: None if np.isnan(mean) else mean for name, mean in means.items()}
        draws = {name: [None if np.isnan(v) else v for v in values.tolist()] for name, values in self.figures.items()}
        return {"method": self.method, "bits": self.bits, **plain, "draws": draws}


def evaluate_unseen_files(
    data: str,
    methods: Sequence[str | None] = (),
    *,
    bits: int | None = None,
    epochs: int | None = None,
    head: str | None = None,
    unseen: float | None = None,
    **options: Any,
) -> list[UnseenReport]:
    """Run ``evaluate_unseen`` for each method on a file of embeddings.

    Data and methods are given as for ``lbhash train``. The default methods are that of ``lbhash train`` (None) and ITQ.
    ``bits``, ``epochs``, ``head`` and ``unseen`` are settings of ``Hasher``; the last three go only to methods that
    train a network. The options are those of ``evaluate_unseen``.

    Raises:
        TypeError, ValueError: a setting of a network is given but no method trains one, or ``evaluate_unseen`` fails.
    """
    from lbhash.training.coders import coder_of

    methods = methods or (None, "itq")
    settings = {"epochs": epochs, "head": head, "unseen": unseen}
    network: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    if network and all(coder_of(method) for method in methods):
        name, value = next(iter(network.items()))
        raise ValueError(f"{name} is {value!r}, and no method given trains a network; leave it out, or add csq")
    dataset, _ = open_embedded(data)
    hashers = []
    for method in methods:
        known = ({} if bits is None else {"bits": bits}) | ({} if coder_of(method) else network)
        hashers.append(Hasher(method=method, progress=False).set_params(**known))
    return [evaluate_unseen(dataset, hasher, **options) for hasher in hashers]


def evaluate_unseen(
    dataset: Dataset[EmbeddingSplit],
    hasher: Hasher,
    *,
    draws: int = 3,
    share: float = 0.5,
    seed: int = 0,
    top_k: int | None = None,
) -> UnseenReport:
    """Train on some classes, and evaluate the codes of these and of the left-out classes, in several draws.

    Args:
        dataset: embeddings with one label per row. Its splits are kept; train rows of left-out classes are not used.
        hasher: an unfitted hasher; its settings train a new one for each draw.
        draws: how often classes are drawn and a hasher is trained; each draw raises both seeds by one.
        share: share of the classes to leave out of training. At least two are left out, and two stay.
        seed: seed of the first draw. ``lbhash train --protocol unseen`` draws the same half of the classes with it.
        top_k: the k of mAP@k; if None or if the classes' base is smaller, the whole base is ranked.

    Raises:
        TypeError, ValueError: an argument is not as above, or training fails.
    """
    from sklearn.base import clone

    check_int(draws, "draws", 1)
    top_k = None if top_k is None else check_int(top_k, "top_k", 1)
    if dataset.train.labels is None:
        raise ValueError(f"{dataset.name} has no labels; the protocol unseen needs some")
    draws_of: dict[str, list[float]] = {name: [] for name in _FIGURES}
    for draw in range(draws):
        classes = trained_classes(np.asarray(dataset.train.labels), seed + draw, share)
        part, _ = dataset.train.where(np.isin(dataset.train.labels, classes)).compact()
        own = clone(hasher).set_params(seed=hasher.seed + draw)
        fit = partial(hashed, hasher=own, by=("itself", "outputs"))
        trial = Trial(fit, part, _questions(dataset, classes, top_k))
        found = {(one.question, one.by): one.figures for one in trial.run()}
        for name, (question, by, figure) in _FIGURES.items():
            values = found[question, by][figure]
            draws_of[name].append(float("nan") if np.isnan(values).all() else float(np.nanmean(values)))
    figures = {name: np.array(values) for name, values in draws_of.items()}
    return UnseenReport(name_of(own), own.bits, top_k, figures)


def _questions(dataset: Dataset[EmbeddingSplit], classes: npt.NDArray, top_k: int | None) -> tuple[Question, Question]:
    """Return the questions about trained classes and about left-out classes."""

    def question(name: str, seen: bool, *figures: str) -> Question:
        splits = dataset.base, dataset.query
        base, query = (part.where(np.isin(np.asarray(part.labels), classes, invert=not seen)) for part in splits)
        return Question(name, base, query, figures, top_k)

    return question("seen", True, "map", "within"), question("unseen", False, "map", "transfer")
