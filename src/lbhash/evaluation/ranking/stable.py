"""Rankings without ties, base codes at equal distance in the order of the base, as other programs often rank them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import as_words, check_codes, check_same_width
from lbhash.evaluation.ranking.histogram import Ranking, Relevance, check_grades, check_lengths
from lbhash.evaluation.ranking.kernels import KERNELS, all_distances, by_word
from lbhash.utils.labels import check_label_pair

_PAIRS = 1 << 22  # pairs of a query and a base code that are ranked at a time


def stable_rankings(
    query_codes: npt.ArrayLike,
    query_labels: Any,
    base_codes: npt.ArrayLike,
    base_labels: Any,
    relevance: Relevance | None = None,
) -> Iterator[Ranking]:
    """Rank the whole base for every query, ties in the order of the base (a stable sort by distance).

    The arguments and errors are those of ``RankHistogram.from_codes``. Yields rankings of consecutive blocks of
    queries, so that memory stays bounded; they have a group for each base code, and metrics by rank take them.
    """
    queries, base = check_codes(query_codes, "query_codes"), check_codes(base_codes, "base_codes")
    check_same_width(queries, base, "query_codes", "base_codes")
    if relevance is None:
        query_labels, base_labels = check_label_pair(query_labels, base_labels)
    check_lengths(queries, query_labels, "query")
    check_lengths(base, base_labels, "base")
    words, base_words = as_words(queries), by_word(as_words(base))
    step = max(1, _PAIRS // max(len(base), 1))
    for start in range(0, len(queries), step):
        some = slice(start, start + step)
        distances = np.empty((len(queries[some]), len(base)), np.uint16)
        with KERNELS:
            all_distances(words[some], base_words, distances)
        if relevance is not None:
            grades = relevance(query_labels[some], base_labels)
        elif query_labels.ndim == 1:
            grades = query_labels[some, None] == base_labels
        else:
            grades = (query_labels[some].astype(np.float32) @ base_labels.T.astype(np.float32)).astype(np.int64)
        order = np.argsort(distances, axis=1, kind="stable")
        ranked = np.take_along_axis(check_grades(grades, *distances.shape), order, axis=1)
        levels = np.arange(1, max(1, int(ranked.max(initial=1))) + 1)
        yield Ranking(np.ones(ranked.shape, np.int64), (ranked[:, None, :] == levels[None, :, None]).astype(np.int64))
