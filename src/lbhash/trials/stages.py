"""The second stage of a search: vectors on disk re-rank a way's candidates, by the same rule for all ways."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes.real import first_places
from lbhash.index.rerank import DISTANCE_WEIGHT
from lbhash.trials.questions import Question
from lbhash.trials.stored import EMBEDDINGS, Floats, Kept, Positions, Rows, Scores, Stored


def after_stages(stored: Stored, question: Question) -> Iterator[Stored]:
    """Yield the stored base with each of the question's second stages.

    The score of a candidate is 1 − cosine. A way that learns classes adds 4 times ``Stored.apart``, as ``Index.search``
    does with ``rerank="embeddings"``. All other rows follow the candidates in the way's order.
    """
    if not question.stages or stored.name == EMBEDDINGS:
        return
    base, queries = len(question.base), question.unit["query"]
    most = min(base, max(one.candidates for one in question.stages))

    @cache
    def first(start: int, stop: int) -> Positions:
        return first_places(stored.scores(slice(start, stop)), most)

    for stage in question.stages:
        kept, count = question.kept[stage.vectors], min(stage.candidates, base)

        def again(some: Rows, found: Positions, cosines: Floats, there: npt.NDArray[np.bool_]) -> Positions:
            """Return candidates in their new order; if a way found too few, the missing ones stay last."""
            scores = np.where(there, -cosines, np.inf)
            if stored.apart is not None:
                scores += DISTANCE_WEIGHT * stored.apart(some, found)
            return np.take_along_axis(found, np.argsort(scores, axis=1, kind="stable"), 1)

        def scores(some: Rows, kept: Kept = kept, count: int = count) -> Scores:
            assert isinstance(some, slice)
            whole = stored.scores(some)
            found = first(*some.indices(len(queries))[:2])[:, :count]
            there = np.isfinite(np.take_along_axis(whole, found, 1))
            found = again(some, found, np.take_along_axis(kept.cosines[some], found, 1), there)
            whole = whole.astype(np.float64)
            np.put_along_axis(whole, found, whole.min(axis=1, keepdims=True) + np.arange(-count, 0), 1)
            return whole

        def find(some: Rows, k: int, kept: Kept = kept, count: int = count) -> Positions:
            found = stored.find(some, count)
            vectors = kept.rows[found].astype(np.float32)
            products = np.matmul(vectors, (queries[some] * kept.scales)[:, :, None])[:, :, 0]
            cosines = products / np.maximum(kept.lengths[found], 1e-30)
            return again(some, found, cosines, found >= 0)[:, :k]

        second: dict[str, Any] = {"vectors": stage.vectors, "rerank": stage.candidates, "disk": kept.rows[:1].nbytes}
        yield replace(stored, **second, scores=scores, find=find)
