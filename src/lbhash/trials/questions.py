"""A question: the stored rows, the queries, and the figures of each query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.metrics import average_precision
from lbhash.evaluation.neighbors import expected_recall, nearest_by_cosine
from lbhash.evaluation.ranking import ranking_of
from lbhash.evaluation.recognition import linear_probe_predict
from lbhash.trials.stored import Kept, Stage, Stored
from lbhash.utils.arrays import unit_rows
from lbhash.utils.labels import share_a_label

Values: TypeAlias = "npt.NDArray[np.float64]"

NEAREST = 10
"""How many rows a timed search asks for, and how many count as nearest items."""
_PAIRS = 10_000_000  # pairs of a query and a base row at a time


@dataclass(frozen=True)
class Question:
    """Stored rows, queries, and the figures to measure.

    Attributes:
        name: name of the question.
        base: rows that are stored.
        query: rows that are searched with. If both have labels, they are numbered alike.
        figures: ``map``, the average precision of rows that share a label; ``recall``, the share of the ten nearest by
            cosine among the first ten; ``within``, the same among the rows of a query's own class; and ``transfer``,
            whether a linear classifier, fitted to the base's codes, predicts the query's class.
        top_k: number of first rows for average precision; the whole base if None or if the base is smaller.
        stages: second stages, after each of which every way is measured again.
        timed: number of queries asked at once, to time a search.
    """

    name: str
    base: EmbeddingSplit
    query: EmbeddingSplit
    figures: tuple[str, ...] = ("map", "recall")
    top_k: int | None = None
    stages: tuple[Stage, ...] = ()
    timed: int = 0

    @cached_property
    def unit(self) -> dict[str, npt.NDArray[np.float32]]:
        """Queries and base as embeddings of length 1, ``float32 [n, dim]``: inner products are then cosines."""
        return {name: unit_rows(getattr(self, name).take(slice(None))) for name in ("query", "base")}

    @cached_property
    def nearest(self) -> npt.NDArray[np.int64]:
        """The base rows whose embeddings are nearest to each query's by cosine, ``int64 [queries, ≤ NEAREST]``."""
        most = min(NEAREST, len(self.base))
        return nearest_by_cosine(self.query.take(slice(None)), self.base.take(slice(None)), most)

    @property
    def labels(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
        """The labels of queries and base; None if there are none."""
        if self.query.labels is None or self.base.labels is None:
            return None
        return np.asarray(self.query.labels), np.asarray(self.base.labels)

    @property
    def most(self) -> int:
        """The most rows of a ranking that recall looks at."""
        return max([NEAREST, *(one.candidates for one in self.stages)])

    @cached_property
    def kept(self) -> dict[str, Kept]:
        """The base's vectors for the second stages, by kind."""
        return {one.vectors: Kept.of(self.base, self.unit["query"], one.vectors) for one in self.stages}

    def answers(self, stored: Stored) -> dict[str, Values]:
        """Return each figure of each query, ``float64 [queries]``; NaN where it is not defined.

        Without labels, the figures that need labels are missing.
        """
        found: dict[str, list[Values]] = {}
        most = None if self.top_k is None else min(self.top_k, len(self.base))
        step = max(1, _PAIRS // len(self.base))
        for start in range(0, len(self.query), step):
            some = slice(start, start + step)
            scores = stored.scores(some)
            if "map" in self.figures and self.labels is not None:
                relevant = share_a_label(self.labels[0][some], self.labels[1])
                found.setdefault("map", []).append(average_precision(ranking_of(scores, relevant), most))
            if "recall" in self.figures:
                found.setdefault("recall", []).append(expected_recall(scores, self.nearest[some]))
        values = {name: np.concatenate(parts) for name, parts in found.items()}
        if self.labels is not None and self.labels[0].ndim == 1:
            others: dict[str, Callable[[Stored], Values]] = {"within": self._within, "transfer": self._transfer}
            values |= {name: answer(stored) for name, answer in others.items() if name in self.figures}
        return values

    def _within(self, stored: Stored) -> Values:
        assert self.labels is not None
        wanted, labels = self.labels
        found = np.full(len(wanted), np.nan)
        for label in np.intersect1d(wanted, labels):
            ours, theirs = np.flatnonzero(wanted == label), np.flatnonzero(labels == label)
            if len(theirs) > NEAREST:
                rows = self.unit["query"][ours], self.unit["base"][theirs]
                found[ours] = expected_recall(stored.scores(ours)[:, theirs], nearest_by_cosine(*rows, NEAREST))
        return found

    def _transfer(self, stored: Stored) -> Values:
        assert self.labels is not None
        if stored.codes is None:
            return np.full(len(self.query), np.nan)
        query, base, bits = stored.codes
        return np.equal(linear_probe_predict(query, base, self.labels[1], bits), self.labels[0]).astype(float)
