"""Searches by real outputs: against a comparison with every code, bit by bit."""

from __future__ import annotations

import os
import subprocess
import sys

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.codes import hamming_distances, pack, unpack
from lbhash.codes.io import CodeTable
from lbhash.codes.real import signs_of
from lbhash.index import Index, store
from lbhash.index.blocks import Blocks, quantizer
from lbhash.index.factory import build_index


def slow(outputs, codes, ids, k):
    """Return distances, Hamming distances and ids: every bit that differs, and a sort by distance, then id."""
    bits = outputs.shape[1]
    found = []
    for query in outputs:
        signs = np.where(query >= 0, 1, -1)
        sums = [float(np.abs(query.astype(np.float64))[code != signs].sum()) for code in unpack(codes, bits)]
        order = sorted(range(len(ids)), key=lambda i: (sums[i], ids[i]))[:k]
        far = hamming_distances(pack(query[None]), codes)[0]
        found.append(([sums[i] for i in order], [far[i] for i in order], [ids[i] for i in order]))
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
    options = {"nprobe": 100} if kind == "ivf" else None  # which are all lists
    build_index(CodeTable(pack(base), 20, np.arange(1200), labels), tmp_path / "i", kind=kind, options=options)
    index = Index.open(tmp_path / "i", mode="a")
    for where, kept in ((None, labels >= 0), ({"label": [0, 2]}, labels != 1)):
        wanted = slow(outputs, pack(base)[kept], np.flatnonzero(kept), 15)
        found = index.search(outputs=outputs, k=15, where=where)
        np.testing.assert_allclose(found.distances, wanted[0], rtol=1e-4)
        np.testing.assert_array_equal(found.ids, wanted[2])
    few = index.search(outputs=outputs, k=1200, where={"label": [1]})
    assert few.ids.shape == (2, 400)
    assert index.search(outputs=outputs, k=5, where={"label": [7]}).ids.shape == (2, 0)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 1024), st.integers(1000, 1200), st.sampled_from([1, 40, 1200]), st.integers(0, 10**6), st.data())
def test_candidates_are_enough_or_all_are_compared(bits, n, distinct, seed, data):
    rng = np.random.default_rng(seed)
    codes = pack(rng.choice([-1, 1], (distinct, bits)))[rng.integers(0, distinct, n)]
    scale = data.draw(st.sampled_from([[1, 1], [0, 1], [1, 1024], [1e-3, 1e3]]))  # of which tables of 8 bits make one
    outputs = (rng.integers(-64, 65, (3, bits)) * rng.choice(scale, bits)).astype(np.float32)
    ids = rng.permutation(2 * n)[:n]
    index = Index(bits)
    index.add(codes, ids, {"half": ids % 2})
    if data.draw(st.booleans()):
        index.search(outputs=outputs)  # so that codes are removed from what was made for the search
    gone = rng.random(n) < data.draw(st.sampled_from([0.0, 0.2, 0.6]))
    index.remove(ids[gone])
    codes, ids = codes[~gone], ids[~gone]
    k = data.draw(st.sampled_from([1, 10, len(ids)]))
    for where, kept in ((None, ids >= 0), ("half = 1", ids % 2 == 1)):
        found = index.search(outputs=outputs, k=k, where=where)
        parts = found.distances, found.hamming, found.ids
        for got, wanted in zip(parts, slow(outputs, codes[kept], ids[kept], k), strict=True):
            np.testing.assert_array_equal(got, wanted.astype(got.dtype))
    np.testing.assert_array_equal(index.codes_of(ids), codes)
    near = index.search(codes[:2], k)
    far = np.sort(hamming_distances(codes[:2], codes), axis=1)[:, :k]
    np.testing.assert_array_equal(near.distances, far)


@pytest.mark.parametrize("bits", [8, 20, 64, 1024])
def test_blocks_are_faiss_s_own(bits):
    codes = pack(np.random.default_rng(0).choice([-1, 1], (1001, bits)))
    blocks, faiss_s = Blocks(codes), quantizer(8 * codes.shape[1])
    faiss_s.add(signs_of(codes))
    np.testing.assert_array_equal(*(faiss.vector_to_array(one.codes) for one in (blocks._index, faiss_s)))
    np.testing.assert_array_equal(blocks.whole(), codes)


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_queries_a_few_at_a_time_none_and_outputs_of_zero(kind, monkeypatch):
    rng = np.random.default_rng(0)
    index, outputs = Index(24, kind), rng.standard_normal((7, 24))
    index.add(pack(rng.choice([-1, 1], (3000, 24))))
    index.add(index.codes_of(np.arange(100)))
    whole = index.search(outputs=outputs, k=5)
    monkeypatch.setattr(store, "_FOUND", 10)
    for part, again in zip(whole, index.search(outputs=outputs, k=5), strict=True):
        np.testing.assert_array_equal(part, again)
    assert index.search(outputs=outputs[:0], k=5).ids.shape == (0, 5)
    with pytest.raises(ValueError, match=r"^rerank is 'outputs' and the index stores no vectors"):
        index.search(outputs=outputs[:0], k=5, rerank="outputs")
    assert not index.search(outputs=np.zeros((1, 24)), k=5).distances.any()


def test_codes_are_in_memory_once(tmp_path):
    codes = pack(np.random.default_rng(0).choice([-1, 1], (5000, 64)))
    index = Index(64)
    index.add(codes)
    index.search(outputs=np.ones((1, 64)))
    (segment,) = index.state.segments
    assert isinstance(segment.arrays["codes"], Blocks)
    assert len(faiss.vector_to_array(segment.arrays["codes"]._index.codes)) <= 1.1 * codes.nbytes
    index.save(tmp_path / "i")
    np.testing.assert_array_equal(Index.open(tmp_path / "i").codes_of(np.arange(5000)), codes)


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


FORKED = """
import multiprocessing, sys
import numpy as np
from lbhash import Index, pack

def search(index, outputs, answers):
    answers.put([index.search(outputs=outputs, k=5).ids.tolist(), index.search(pack(outputs), k=5).ids.tolist()])

outputs = np.random.default_rng(0).normal(size=(400, 32)).astype(np.float32)
index = Index(32)
index.add(pack(outputs))
context = multiprocessing.get_context("fork")
answers = context.SimpleQueue()
search(index, outputs, answers)
child = context.Process(target=search, args=(index, outputs, answers), daemon=True)
child.start()
child.join(60)
sys.exit(child.exitcode != 0 or answers.get() != answers.get())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no other system forks by default")
def test_a_forked_process_searches():
    """It has none of its parent's threads; once it waited for them for ever."""
    done = subprocess.run([sys.executable, "-c", FORKED], env=os.environ | {"OMP_NUM_THREADS": "2"})
    assert done.returncode == 0
