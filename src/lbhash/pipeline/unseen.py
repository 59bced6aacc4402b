"""Three questions about a method: classes that it learned, classes that it never saw, and the items of one class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, pack
from lbhash.data import Dataset, EmbeddingSplit
from lbhash.data.protocols import trained_classes
from lbhash.evaluation.metrics import average_precision
from lbhash.evaluation.neighbors import recall_within_classes
from lbhash.evaluation.ranking import ranking_of
from lbhash.evaluation.report import Report, evaluate
from lbhash.index.asymmetric import agreeing
from lbhash.pipeline.splits import open_embedded
from lbhash.utils.validation import check_int

if TYPE_CHECKING:
    from lbhash.hasher import Hasher

_QUERIES = 64  # at a time


@dataclass(frozen=True)
class UnseenReport:
    """What codes are worth for classes that their training had, and for classes that it had not.

    Attributes:
        method: its full name, such as ``csq_d``.
        seen: the evaluation of each draw's classes that were trained on, queries against base.
        unseen: the same of the classes that were not; ``probe_accuracy`` is the transfer, the accuracy of a linear
            classifier that was fitted to the codes of the base.
        within: recall@10 of each draw (``lbhash.evaluation.neighbors.recall_within_classes``), of classes seen.
        asymmetric: mAP of classes seen and of the others in each draw, with the queries' real outputs in the place of
            their codes (``lbhash.index.asymmetric``).
    """

    method: str
    seen: tuple[Report, ...]
    unseen: tuple[Report, ...]
    within: tuple[float, ...]
    asymmetric: tuple[tuple[float, float], ...]

    @property
    def figures(self) -> dict[str, npt.NDArray[np.float64]]:
        """The figures of each draw by name, ``[draws]``."""
        return {
            "seen_map": np.array([report.map for report in self.seen]),
            "unseen_map": np.array([report.map for report in self.unseen]),
            "transfer_accuracy": np.array([report.probe_accuracy for report in self.unseen], np.float64),
            "within_recall": np.array(self.within),
            "seen_map_asymmetric": np.array(self.asymmetric)[:, 0],
            "unseen_map_asymmetric": np.array(self.asymmetric)[:, 1],
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the figures, each as its mean and its draws, as JSON holds them: None for NaN."""
        means = {name: float(values.mean()) for name, values in self.figures.items()}
        plain = {name: None if np.isnan(mean) else mean for name, mean in means.items()}
        draws = {name: [None if np.isnan(v) else v for v in values.tolist()] for name, values in self.figures.items()}
        return {"method": self.method, "bits": self.seen[0].bits, **plain, "draws": draws}


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
    from lbhash.hasher import Hasher
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
        raise ValueError(f"{dataset.name} has no labels; classes can be left out only of labeled rows")
    reports: dict[bool, list[Report]] = {True: [], False: []}
    within: list[float] = []
    asymmetric: list[list[float]] = []
    for draw in range(draws):
        classes = trained_classes(np.asarray(dataset.train.labels), seed + draw, share)
        part, _ = dataset.train.where(np.isin(dataset.train.labels, classes)).compact()
        fitted = clone(hasher).set_params(seed=hasher.seed + draw).fit_split(part, len(classes))
        for known in (True, False):
            query, base = (
                split.where(np.isin(np.asarray(split.labels), classes, invert=not known))
                for split in (dataset.query, dataset.base)
            )
            outputs, held = fitted.model_.outputs(query.take(slice(None))), fitted.encode_split(base)
            asked, soft = pack(outputs), fitted.model_.soft(outputs)
            most = None if top_k is None else min(top_k, len(base))
            report = evaluate(asked, query.labels, held, base.labels, most, probe=not known, bits=fitted.bits)
            reports[known].append(report)
            if known:
                within.append(recall_within_classes(asked, query, held, base, bits=fitted.bits))
                asymmetric.append([])
            asymmetric[-1].append(asymmetric_map(soft, np.asarray(query.labels), held, np.asarray(base.labels), most))
    pairs = tuple((seen, unseen) for seen, unseen in asymmetric)
    return UnseenReport(fitted.name, tuple(reports[True]), tuple(reports[False]), tuple(within), pairs)


def asymmetric_map(
    outputs: npt.NDArray[np.float32], wanted: npt.NDArray, codes: PackedCodes, labels: npt.NDArray, top_k: int | None
) -> float:
    """Return mAP@k of real outputs ``[n, bits]`` against codes of classes, in expectation over equal scores."""
    values = []
    for start in range(0, len(outputs), _QUERIES):
        some = slice(start, start + _QUERIES)
        found = agreeing(outputs[some], pack(outputs[some]), codes, len(codes))
        ranking = ranking_of(found.scores, labels[found.ids] == wanted[some, None])
        values.append(average_precision(ranking, top_k))
    return float(np.nanmean(np.concatenate(values)))
