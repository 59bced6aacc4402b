"""Recognition by a vote of the base codes that are nearest to a query."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, as_words, check_codes, check_same_width, check_width
from lbhash.codes.distinct import Words, unique_rows
from lbhash.codes.popcount import popcount
from lbhash.codes.real import Asked, check_outputs, outputs_bits
from lbhash.evaluation.parts import Classes, Part, Share, in_turn
from lbhash.evaluation.ranking import check_lengths, distance_counts
from lbhash.evaluation.ranking.histogram import Counts
from lbhash.evaluation.ranking.kernels import Task, split, tasks
from lbhash.evaluation.ranking.real import Distinct, distinct_rows
from lbhash.utils.compiled import compiled
from lbhash.utils.labels import class_array, one_label_each
from lbhash.utils.threads import in_threads
from lbhash.utils.validation import check_filled, check_int

_GROUP = 64  # codes that are compared together before any of them is
_VOTES = 1 << 25  # counts that are in memory at a time


def knn_predict(
    query_codes: npt.ArrayLike,
    base_codes: npt.ArrayLike,
    base_labels: Any,
    k: int = 100,
    *,
    query_outputs: npt.ArrayLike | None = None,
) -> npt.NDArray[Any]:
    """Predict the class of each query: the class with most votes among the k nearest base codes.

    They are the nearest by Hamming distance, or by the real outputs of the queries, ``[n, bits]``, if given.

    If more codes lie at the k-th distance than places are left, each counts ``places / codes`` of a vote: its average
    over random samples. Among classes with equal votes the lowest wins. Votes are counted in integers, so equal is
    equal. Codes are packed, ``uint8 [n, bytes]``, and each has one label.

    >>> from lbhash.codes import pack
    >>> knn_predict(pack([[1, 1, 1]]), pack([[1, 1, -1], [1, 1, 1], [-1, -1, -1]]), [5, 5, 2], k=3).tolist()
    [5]
    """
    queries, base = check_codes(query_codes, "query_codes"), check_codes(base_codes, "base_codes")
    check_same_width(queries, base, "query_codes", "base_codes")
    labels = one_label_each(base_labels, "base_labels")
    check_lengths(base, labels, "base")
    check_filled(base, "base_codes")
    k = check_int(k, "k", 1, len(base), "the size of the base")
    if query_outputs is not None:
        length = check_width(queries, outputs_bits(query_outputs), "query_codes")
        asked, held = check_outputs(query_outputs, queries, length), distinct_rows([(base, labels.numbers)])
        return class_array(labels.classes)[predict_by_outputs(asked, held, k)]
    share, classes = in_turn([Part(base, labels.numbers)]), np.arange(len(labels.classes))
    total = distance_counts(queries, base, 8 * base.shape[1])
    return class_array(labels.classes)[predict_from_counts(queries, share, classes, total, k)]


def predict_from_counts(
    queries: PackedCodes, share: Share, classes: Classes, total: Counts, k: int
) -> npt.NDArray[np.int64]:
    """Return ``knn_predict`` of checked arguments as positions in ``classes``, from a base in parts.

    ``total`` is how many codes lie at each distance.
    """
    unique, inverse = unique_rows(as_words(queries))  # equal codes have equal neighbors
    asked, total = as_words(queries)[unique], total[unique]
    counted = np.cumsum(total, axis=1)
    radius = np.argmax(counted >= k, axis=1)
    each = np.arange(len(unique))
    tied = total[each, radius]
    limits = np.stack([radius, tied, k - (counted[each, radius] - tied)])
    winners = [np.empty(0, np.int64)]
    step = max(1, _VOTES // len(classes))
    for start in range(0, len(unique), step):
        some = slice(start, start + step)
        votes = np.sum(share(partial(_count_votes, asked[some], limits[:, some], classes)), axis=0)
        winners.append(np.argmax(votes, axis=1))
    return np.concatenate(winners)[inverse]


def predict_by_outputs(asked: Asked, base: Distinct, k: int) -> npt.NDArray[np.int64]:
    """Return ``knn_predict`` by real outputs, of checked arguments, as class numbers."""
    classes, members = np.unique(base.labels, return_inverse=True)
    most = min(k, len(base.codes))  # distinct rows: each stands for one row or more
    found = np.empty(len(asked), np.int64)
    for some, block in asked.blocks(base.codes):
        for query, distances in enumerate(block, some.start):
            near = np.argpartition(distances, most - 1)[:most]
            near = near[np.argsort(distances[near])]
            radius = distances[near[np.searchsorted(np.cumsum(base.sizes[near]), k)]]
            nearer, tied = np.flatnonzero(distances < radius), np.flatnonzero(distances == radius)
            left = k - base.sizes[nearer].sum()
            voters = np.concatenate([nearer, tied])
            each = np.repeat([base.sizes[tied].sum(), left], [len(nearer), len(tied)])
            found[query] = np.bincount(members[voters], base.sizes[voters] * each).argmax()
    return classes[found]


def _count_votes(asked: Words, limits: Counts, classes: Classes, part: Part) -> Counts:
    votes = np.zeros((len(asked), len(classes)), np.int64)
    for words, members, weights in part.compressed(classes):
        # Codes of a class lie together; so put together, most groups of neighbors are too far off as a whole.
        weights = weights if weights.size else np.ones(len(words), np.int32)
        groups = -(-len(words) // _GROUP)
        pivots, reach = np.zeros((groups, words.shape[1]), np.uint64), np.zeros(groups, np.int64)
        _describe_groups(words, pivots, reach)
        block, _ = split(len(asked), len(words))
        vote = partial(_vote, asked, words, weights, members, pivots, reach, limits, votes)
        in_threads(vote, tasks(len(asked), len(words), block))
    return votes


@compiled
def _describe_groups(words: Any, pivots: Any, reach: Any) -> None:
    """Write the bit-wise majority of each group of codes, and the largest distance of one of them from it."""
    for group in range(len(pivots)):
        codes = words[group * _GROUP : (group + 1) * _GROUP]
        for word in range(words.shape[1]):
            ones = np.zeros(64, np.uint64)
            for row in range(len(codes)):
                code = codes[row, word]
                for bit in range(64):
                    ones[bit] += (code >> np.uint64(bit)) & np.uint64(1)
            for bit in range(64):
                if 2 * ones[bit] > np.uint64(len(codes)):
                    pivots[group, word] |= np.uint64(1) << np.uint64(bit)
        for row in range(len(codes)):
            reach[group] = max(reach[group], _distance(codes[row], pivots[group]))


@compiled
def _vote(
    queries: Any, base: Any, weights: Any, members: Any, pivots: Any, reach: Any, limits: Any, votes: Any, task: Task
) -> None:
    """Add ``tied`` votes for a code nearer than the radius, and ``left`` for one at it; ``tied`` of these are one vote.

    No code of a group is nearer than the group's pivot is, less its reach (the triangle inequality).
    """
    _, from_query, to_query, _, _ = task
    for query in range(from_query, to_query):
        mine, radius, tied, left = queries[query], limits[0, query], limits[1, query], limits[2, query]
        for group in range(len(pivots)):
            if _distance(mine, pivots[group]) - reach[group] > radius:
                continue
            for row in range(group * _GROUP, min((group + 1) * _GROUP, len(base))):
                distance = _distance(mine, base[row])
                if distance <= radius:
                    votes[query, members[row]] += weights[row] * (tied if distance < radius else left)


@compiled
def _distance(one: Any, other: Any) -> int:
    distance = 0
    for word in range(one.size):
        distance += popcount(one[word] ^ other[word])
    return distance
