"""Rankings of a base by the real outputs of queries (``lbhash.codes.real``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lbhash.codes import PackedCodes
from lbhash.codes.real import Asked
from lbhash.evaluation.ranking.histogram import Ranking
from lbhash.utils.labels import Numbers, share_a_label

_PAIRS = 1 << 22  # of a query and a base code, at a time


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
    step = max(1, _PAIRS // len(labels))
    for start in range(0, len(asked), step):
        some = slice(start, start + step)
        distances = asked.some(some).distances(codes)
        relevant = share_a_label(query_labels[some], labels)
        order = np.argsort(distances, axis=1)
        ordered = np.take_along_axis(distances, order, 1)
        groups = np.zeros(order.shape, np.int64)
        np.cumsum(ordered[:, 1:] != ordered[:, :-1], axis=1, out=groups[:, 1:])
        count = int(groups.max()) + 1
        cells = (groups + count * np.arange(len(order))[:, None]).ravel()
        shape, weights = (len(order), count), sizes[order]
        total = np.bincount(cells, weights.ravel(), len(order) * count).reshape(shape)
        hits = np.take_along_axis(relevant, order, 1) * weights
        found = np.bincount(cells, hits.ravel(), len(order) * count).reshape(len(order), 1, count)
        yield Ranking(total.astype(np.int64), found.astype(np.int64))
