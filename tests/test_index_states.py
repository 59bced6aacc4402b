"""Any sequence of changes, against a dict."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lbhash.codes import hamming_distances
from lbhash.codes.io import CodeTable
from lbhash.index import build_index, open_index
from lbhash.index import store as store_module
from lbhash.index.kinds import KINDS

BITS = 10
EXHAUSTIVE = {"flat": {}, "mih": {"nflip": BITS}, "ivf": {"nprobe": 100}, "hnsw": {"m": 200, "ef_search": 400}}
"""Options with which every kind finds the nearest; among tied codes a structure picks as it likes."""


class Changes(RuleBasedStateMachine):
    """An index in a folder, or in memory, and the dict of what it must hold: code, label and vector by id."""

    @initialize(
        kind=st.sampled_from(sorted(KINDS)),
        in_folder=st.booleans(),
        keep=st.sampled_from(["", "outputs"]),
        values=st.sampled_from([256, 2]),
        seed=st.integers(0, 2**32 - 1),
    )
    def begin(self, kind, in_folder, keep, values, seed):
        self.rng = np.random.default_rng(seed)
        self.folder = Path(tempfile.mkdtemp())
        self.held = {}
        self.largest = -1
        self.keep = keep
        self.values = values  # of a byte: with few of them, most codes are equal to others and stored once
        options = EXHAUSTIVE[kind]
        self.index = KINDS[kind](BITS, store_vectors=keep, options=options)
        if in_folder:
            none = CodeTable(np.empty((0, 2), np.uint8), BITS, np.empty(0, np.int64))
            vectors = np.empty((0, 3)) if keep else None
            where = self.folder / "i"
            self.index = build_index(
                none, where, kind, store_vectors=keep, vectors=vectors, attributes={}, options=options
            )

    def codes(self, count):
        values = [self.rng.integers(0, most, count) for most in (self.values, 4)]
        return np.stack(values, axis=1).astype(np.uint8)

    @rule(count=st.integers(1, 12) | st.just(0), named=st.booleans())
    def add(self, count, named):
        codes, labels = self.codes(count), self.rng.integers(0, 3, count)
        ids = None
        names = np.arange(self.largest + 1, self.largest + 1 + count)
        if named:
            free = np.setdiff1d(np.arange(200), list(self.held))
            ids = names = self.rng.permutation(free)[:count]
            codes, labels = codes[: len(ids)], labels[: len(ids)]
        vectors = self.rng.integers(0, 9, (len(codes), 3)).astype(np.float16) if self.keep else None
        self.index.add(codes, ids, {"label": labels}, vectors=vectors)
        for at, name in enumerate(names.tolist()):
            self.held[name] = codes[at], int(labels[at]), None if vectors is None else vectors[at]
            self.largest = max(self.largest, name)

    @precondition(lambda self: self.held)
    @rule(few=st.integers(1, 3) | st.just(200))
    def remove(self, few):
        ids = self.rng.permutation(list(self.held))[:few]
        assert self.index.remove(ids) == len(ids)
        for name in ids.tolist():
            del self.held[name]
        with pytest.raises(ValueError, match="which the index does not have"):
            self.index.codes_of(ids[:1])

    @precondition(lambda self: self.held)
    @rule()
    def refuse_what_is_there(self):
        name = self.rng.choice(list(self.held))
        generation = self.index.generation
        vectors = np.zeros((1, 3)) if self.keep else None
        with pytest.raises(ValueError, match=f"ids holds {name}, which the index already has"):
            self.index.add(self.codes(1), [name], {"label": [0]}, vectors=vectors)
        with pytest.raises(ValueError, match="ids holds 1000, which the index does not have"):
            self.index.remove([name, 1000])
        assert self.index.generation == generation

    @rule()
    def compact(self):
        self.index.compact()
        assert self.index.info()["segments"] <= 1
        assert self.index.info()["removed"] == 0

    @precondition(lambda self: self.index.path is not None)
    @rule()
    def reopen(self):
        self.index = open_index(self.index.path)

    @rule()
    def copy(self):
        shutil.rmtree(self.folder / "copy", ignore_errors=True)
        self.index.save(self.folder / "copy")
        copied = open_index(self.folder / "copy")
        copied.verify()
        assert copied.ids().tolist() == sorted(self.held)

    @invariant()
    def holds_what_the_dict_holds(self):
        if not hasattr(self, "index"):
            return
        ids = np.array(sorted(self.held), np.int64)
        assert len(self.index) == len(ids)
        assert self.index.ids().tolist() == ids.tolist()
        if not len(ids):
            return
        codes = np.stack([self.held[name][0] for name in ids.tolist()])
        labels = np.array([self.held[name][1] for name in ids.tolist()])
        asked = self.rng.permutation(len(ids))
        np.testing.assert_array_equal(self.index.codes_of(ids[asked]), codes[asked])
        assert self.index.attributes_of(ids[asked])["label"].to_pylist() == labels[asked].tolist()
        if self.keep:
            vectors = np.stack([self.held[name][2] for name in ids.tolist()])
            np.testing.assert_array_equal(self.index.vectors_of(ids[asked]), vectors[asked])
        queries = self.codes(2)
        distances = hamming_distances(queries, codes)
        k = int(self.rng.integers(1, len(ids) + 1))
        found = self.index.search(queries, k)
        filtered = self.index.search(queries, k, where={"label": 1})
        within = self.index.range_search(queries, 3)
        for row in range(2):
            order = np.lexsort((ids, distances[row]))
            if self.index.kind == "flat":
                assert found.ids[row].tolist() == ids[order][:k].tolist()
            at = np.searchsorted(ids, found.ids[row])
            assert len(set(at)) == k
            assert distances[row, at].tolist() == found.distances[row].tolist()
            assert found.distances[row].tolist() == distances[row, order][:k].tolist()
            assert filtered.ids[row].tolist() == ids[order][labels[order] == 1][:k].tolist()
            assert within.of(row)[1].tolist() == ids[order][distances[row, order] <= 3].tolist()

    def teardown(self):
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    """Segments merge and get structures, and disks are not waited for, so that many changes fit into a test."""
    monkeypatch.setattr(store_module, "MERGE", 3)
    monkeypatch.setattr(store_module, "SMALL", 8)
    monkeypatch.setattr(store_module, "MIN_ROWS", 6)
    monkeypatch.setattr(store_module, "REMOVED", 0.6)
    monkeypatch.setattr("os.fsync", lambda handle: None)


@pytest.mark.usefixtures("small_sizes")
class TestChanges(Changes.TestCase):
    settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
