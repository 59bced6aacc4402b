"""Three questions about a method: classes that it learned, classes that it never saw, and the items of one class."""

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
"""Each figure: the question, what a query is to the search, and the question's own figure."""


@dataclass(frozen=True)
class UnseenReport:
    """The quality of codes for classes that the training had, and for classes that it had not.

    Attributes:
        method: its full name, such as ``csq_d``.
        bits: of a code.
        top_k: how many rows mAP looks at; None for the whole base.
        figures: of each draw by name, ``float64 [draws]``: mAP of classes seen and of the others, by codes and with the
            queries' real outputs in the place of their codes (``lbhash.codes.real``); ``transfer_accuracy``, the
            accuracy of a linear classifier that is fitted to the codes of new classes; and ``within_recall``, recall@10
            among the rows of a query's own class, of classes seen.
    """

    method: str
    bits: int
    top_k: int | None
    figures: dict[str, npt.NDArray[np.float64]]

    def as_dict(self) -> dict[str, Any]:
        """Return the figures, each as its mean and its draws, as JSON holds them: None for NaN."""
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
    """Return what ``evaluate_unseen`` finds for each method on a file of embeddings, as ``lbhash train`` takes both.

    Without methods they are the default of ``lbhash train`` (None) and ITQ. ``bits`` is a setting of ``Hasher``, and so
    are ``epochs``, ``head`` and ``unseen``, which go to the methods that train a network, one at least; the options
    are those of ``evaluate_unseen``.

    Raises:
        TypeError, ValueError: a setting of a network is given and no method trains one, or what ``evaluate_unseen``
            refuses.
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
    """Train on some classes, and evaluate the codes of these classes and of the others, in several draws.

    Args:
        dataset: embeddings with one label a row; its splits stay, so that train rows of the classes left out are not
            used at all.
        hasher: not fitted; its settings train a hasher for each draw.
        draws: how often classes are drawn and a hasher is trained; the seeds of both grow by one.
        share: share of the classes that is left out of training. At least two are left out, and two stay.
        seed: seed of the first draw. ``lbhash train --protocol unseen`` draws the same half of the classes by it.
        top_k: mAP@k; by default, and if the base of these classes is smaller, over all of it.

    Raises:
        TypeError, ValueError: an argument is not as above, or what ``Hasher.fit_split`` refuses.
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
    """Return the questions about the classes that were trained on, and about the others."""

    def question(name: str, seen: bool, *figures: str) -> Question:
        splits = dataset.base, dataset.query
        base, query = (part.where(np.isin(np.asarray(part.labels), classes, invert=not seen)) for part in splits)
        return Question(name, base, query, figures, top_k)

    return question("seen", True, "map", "within"), question("unseen", False, "map", "transfer")
