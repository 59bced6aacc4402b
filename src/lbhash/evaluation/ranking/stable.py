"""Rankings without ties, base codes at equal distance in the order of the base, as other programs often rank them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lbhash.codes import PackedCodes, as_words
from lbhash.evaluation.ranking.histogram import Ranking
from lbhash.evaluation.ranking.kernels import all_distances, by_word
from lbhash.utils.labels import Numbers, shared_labels

_PAIRS = 1 << 22  # pairs of a query and a base code that are ranked at a time


def stable_rankings(
    queries: PackedCodes, query_labels: Numbers, base: PackedCodes, base_labels: Numbers
) -> Iterator[Ranking]:
    """Rank the whole base for every query, ties in the order of the base (a stable sort by distance).

    Codes and labels are checked. Yields rankings of consecutive blocks of queries, so that memory stays bounded; they
    have a group for each base code, and metrics by rank take them.
    """
    words, base_words = as_words(queries), by_word(as_words(base))
    step = max(1, _PAIRS // len(base))
    for start in range(0, len(queries), step):
        some = slice(start, start + step)
        distances = all_distances(words[some], base_words)
        grades = shared_labels(query_labels[some], base_labels).astype(np.int64)
        ranked = np.take_along_axis(grades, np.argsort(distances, axis=1, kind="stable"), axis=1)
        levels = np.arange(1, int(ranked.max(initial=1)) + 1)
        yield Ranking(np.ones(ranked.shape, np.int64), (ranked[:, None, :] == levels[None, :, None]).astype(np.int64))
