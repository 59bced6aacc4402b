"""Rankings of a base by the real outputs of queries (``lbhash.codes.real``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lbhash.codes import PackedCodes
from lbhash.codes.real import Asked
from lbhash.evaluation.ranking.histogram import Ranking, ranking_of
from lbhash.utils.labels import Numbers, share_a_label

_PAIRS = 1 << 22  # of a query and a base code, at a time


def real_rankings(
    asked: Asked, query_labels: Numbers, parts: Sequence[tuple[PackedCodes, Numbers]]
) -> Iterator[Ranking]:
    """Yield rankings of consecutive blocks of queries, with a group for each distance; a code of a shared label counts.

    Labels are checked; the base may be in parts.
    """
    labels = np.concatenate([part[1] for part in parts])
    step = max(1, _PAIRS // len(labels))
    for start in range(0, len(asked), step):
        some = slice(start, start + step)
        queries = asked.some(some)
        distances = np.hstack([queries.distances(np.asarray(codes)) for codes, _ in parts])
        yield ranking_of(distances, share_a_label(query_labels[some], labels))
