"""Real outputs against all codes of an index: against a product with every code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.codes import hamming_distances, pack, unpack
from lbhash.codes.io import CodeTable
from lbhash.index import Index, build_index


def slow(outputs, codes, ids, k):
    """Return scores, distances and ids: every product, and a sort by score, then id."""
    bits = outputs.shape[1]
    found = []
    for query in outputs:
        products = [
            -float(sum(a * b for a, b in zip(query.tolist(), code, strict=True))) for code in unpack(codes, bits)
        ]
        order = sorted(range(len(ids)), key=lambda i: (products[i], ids[i]))[:k]
        far = hamming_distances(pack(query[None]), codes)[0]
        found.append(([products[i] for i in order], [far[i] for i in order], [ids[i] for i in order]))
    return [np.array(part) for part in zip(*found, strict=True)]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 10**6), st.data())
def test_the_best_of_all_codes(bits, n, seed, data):
    rng = np.random.default_rng(seed)
    # Integers, whose sums are exact, and few codes: many scores are equal, and then the ids decide.
    outputs = rng.integers(-2, 3, (3, bits)).astype(np.float32)
    codes = pack(rng.choice([-1, 1], (4, bits)))[rng.integers(0, 4, n)]
    ids = rng.permutation(100)[:n]
    index = Index(bits)
    for part in np.array_split(np.arange(n), 3):  # several segments
        index.add(codes[part], ids[part])
    gone = data.draw(st.integers(0, n - 1))
    index.remove(ids[:gone])
    k = data.draw(st.integers(1, n - gone))
    found = index.search(outputs=outputs, k=k)
    parts = found.distances, found.hamming, found.ids
    for got, wanted in zip(parts, slow(outputs, codes[gone:], ids[gone:], k), strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert [part.dtype for part in parts] == [np.float32, np.int32, np.int64]


@pytest.mark.parametrize(("kind", "distinct"), [("flat", 30), ("ivf", 1200)])  # 30 are stored once each
def test_every_kind_in_a_folder_is_exact_and_filters(tmp_path, kind, distinct):
    rng = np.random.default_rng(0)
    base = rng.standard_normal((distinct, 20))[np.arange(1200) * 7 % distinct]
    outputs = rng.integers(-1000, 1000, (2, 20)).astype(np.float32)
    labels = np.arange(1200) % 3
    build_index(CodeTable(pack(base), 20, np.arange(1200), labels), tmp_path / "i", kind=kind)
    index = Index.open(tmp_path / "i", mode="a")
    for where, kept in ((None, labels >= 0), ({"label": [0, 2]}, labels != 1)):
        wanted = slow(outputs, pack(base)[kept], np.flatnonzero(kept), 15)
        found = index.search(outputs=outputs, k=15, where=where)
        np.testing.assert_allclose(found.distances, wanted[0], rtol=1e-4)
        np.testing.assert_array_equal(found.ids, wanted[2])
    few = index.search(outputs=outputs, k=1200, where={"label": [1]})
    assert few.ids.shape == (2, 400)
    assert index.search(outputs=outputs, k=5, where={"label": [7]}).ids.shape == (2, 0)


def test_what_cannot_be_searched_is_refused():
    index = Index(12)
    index.add(pack(np.ones((4, 12))))
    for outputs, k, said in (
        (np.ones((2, 8)), 1, "^outputs has 8 numbers a row; the codes have 12 bits"),
        (np.full((2, 12), np.inf), 1, "^outputs is NaN or infinite in row 0; every"),
        (np.ones(12), 1, r"^outputs has shape \(12,\); it must be \[n, dim\]"),
        (np.ones((2, 12)), 0, "^k is 0; it must be at least 1"),
    ):
        with pytest.raises(ValueError, match=said):
            index.search(outputs=outputs, k=k)
    with pytest.raises(ValueError, match=r"^where names the column 'color'"):
        index.search(outputs=np.ones((2, 12)), k=1, where={"color": 1})
