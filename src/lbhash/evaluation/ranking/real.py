"""Rankings of a base by the real outputs of queries (``lbhash.codes.real``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lbhash.codes import PackedCodes
from lbhash.codes.real import Asked
from lbhash.evaluation.ranking.histogram import Ranking, ranking_of
from lbhash.utils.labels import Numbers, share_a_label


def real_rankings(
    asked: Asked, query_labels: Numbers, parts: Sequence[tuple[PackedCodes, Numbers]]
) -> Iterator[Ranking]:
    """Yield rankings of consecutive blocks of queries, with a group for each distance; a code of a shared label counts.

    Labels are checked; the base may be in parts. Rows of one code and one label, of which trained codes have many, are
    looked at once.
    """
    codes, labels = (np.concatenate([np.asarray(part[one]) for part in parts]) for one in (0, 1))
    both = np.hstack([codes, np.ascontiguousarray(labels.reshape(len(labels), -1)).view(np.uint8)])
    _, first, sizes = np.unique(both, axis=0, return_index=True, return_counts=True)
    codes, labels = codes[first], labels[first]
    for some, distances in asked.blocks(codes):
        yield ranking_of(distances, share_a_label(query_labels[some], labels), sizes)
