"""Every answer is the one of brute force, also of equal codes, which a large segment stores once."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.codes import hamming_distances
from lbhash.index import Index
from lbhash.index import postings as postings_module
from lbhash.index.postings import group


def repeated(rng, count, distinct, width):
    """Codes of which so many differ."""
    return rng.integers(0, 256, (distinct, width), np.uint8)[rng.integers(0, distinct, count)]


def assert_exact(index, queries, codes, ids, k, radius, tied=False):
    """The ranking is by distance, then id; with ``tied``, any of the equally distant codes will do."""
    distances = hamming_distances(queries, codes)
    order = np.lexsort((np.broadcast_to(ids, distances.shape), distances), axis=1)
    found, near = index.search(queries, k), index.range_search(queries, radius)
    np.testing.assert_array_equal(found.distances, np.take_along_axis(distances, order, 1)[:, :k])
    if not tied:
        np.testing.assert_array_equal(found.ids, ids[order[:, :k]])
    for row, names in enumerate(found.ids):
        assert len(set(names.tolist())) == k
        at = index.codes_of(names)
        np.testing.assert_array_equal(hamming_distances(queries[row : row + 1], at)[0], found.distances[row])
        within = order[row][distances[row, order[row]] <= radius]
        np.testing.assert_array_equal(near.of(row)[1], ids[within])
        np.testing.assert_array_equal(near.of(row)[0], distances[row, within])


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 60) | st.integers(1000, 1300),
    width=st.integers(1, 17) | st.just(70),
    distinct=st.integers(1, 450),
    removed=st.integers(0, 240),
    few=st.booleans(),
)
def test_search_is_that_of_brute_force(seed, count, width, distinct, removed, few):
    rng = np.random.default_rng(seed)
    codes, ids = repeated(rng, count, distinct, width), rng.permutation(5 * count)[:count]
    index = Index(8 * width)
    index.add(codes, ids, {"label": rng.integers(0, 3, count)})
    assert (index.state.segments[0].postings is not None) == (count >= 1000)
    gone = rng.permutation(count)[: min(removed, count - 1)]
    index.remove(ids[gone])
    codes, ids = np.delete(codes, gone, axis=0), np.delete(ids, gone)
    queries = np.concatenate([codes[:2], rng.integers(0, 256, (2, width), np.uint8)])
    k, radius = (
        int(rng.integers(1, min(30, len(ids)) + 1 if few else len(ids) + 1)),
        int(rng.integers(0, 8 * width + 1)),
    )
    with mock.patch.object(postings_module, "_MOST", 64 if few else 1 << 22):  # so that queries come in several parts
        assert_exact(index, queries, codes, ids, k, radius)
    labels = index.metadata_of(ids)["label"].to_numpy()
    some = Index(8 * width)
    some.add(codes[labels == 1], ids[labels == 1])
    if k := min(k, len(some)):
        for found, wanted in zip(index.search(queries, k, where={"label": 1}), some.search(queries, k), strict=True):
            np.testing.assert_array_equal(found, wanted)


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    copies=st.sampled_from([1, 2, 400, 1100]),  # of one code; with 1,100 the distinct ones are stored
    width=st.integers(1, 72),
    removed=st.integers(0, 40),
    k=st.integers(1, 30),
)
def test_one_list_is_enough_to_find_the_code_that_is_asked_for(seed, copies, width, removed, k):
    """Also if some are removed, and if others equal it."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 256, (2200, width), np.uint8)
    codes[rng.permutation(2200)[:copies]] = codes[0]
    index = Index(8 * width, "ivf", options={"nprobe": 1})
    index.add(codes)
    gone = np.flatnonzero((codes == codes[0]).all(axis=1))[:removed]
    index.remove(gone)
    left = np.delete(codes, gone, axis=0)
    queries = np.concatenate([codes[:1], left[:60], rng.integers(0, 256, (3, width), np.uint8)])
    equal = (hamming_distances(queries, left) == 0).sum(axis=1)
    found = index.search(queries, k)
    np.testing.assert_array_equal((found.distances == 0).sum(axis=1), np.minimum(equal, k))
    for query, ids, distances in zip(queries, found.ids, found.distances, strict=True):
        assert len(set(ids.tolist())) == k
        np.testing.assert_array_equal(hamming_distances(query[None], codes[ids])[0], distances)
        assert not np.isin(ids, gone).any()


def test_what_repeats_seldom_is_stored_as_it_is():
    rng = np.random.default_rng(0)
    assert group(rng.integers(0, 256, (1000, 8), np.uint8)) is None
    index = Index(64)
    index.add(repeated(rng, 999, 3, 8))
    assert index.state.segments[0].postings is None
