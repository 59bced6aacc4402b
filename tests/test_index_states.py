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
from lbhash.index import Index
from lbhash.index import store as store_module
from lbhash.index.factory import build_index
from lbhash.index.kinds import KINDS

BITS = 10
EXHAUSTIVE = {"flat": {}, "ivf": {"nprobe": 100}}
"""Options with which every kind finds the nearest; among tied codes a structure picks as it likes."""
IDS = {
    "rows": int,
    "negative": lambda number: number - 150,
    "wide": lambda number: number * (2**63 // 500) * (-1) ** number,
    "texts": lambda number: f"sku {number}, é",
}
"""What a shop calls its products."""


class Changes(RuleBasedStateMachine):
    """An index in a folder, or in memory, and the dict of what it must hold: code, label and vector by id."""

    @initialize(
        kind=st.sampled_from(sorted(KINDS)),
        in_folder=st.booleans(),
        keep=st.sampled_from(["", "outputs"]),
        values=st.sampled_from([256, 2]),
        called=st.sampled_from(sorted(IDS)),
        seed=st.integers(0, 2**32 - 1),
    )
    def begin(self, kind, in_folder, keep, values, called, seed):
        self.rng = np.random.default_rng(seed)
        self.folder = Path(tempfile.mkdtemp())
        self.held = {}
        self.largest = -1
        self.called = called
        self.keep = keep
        self.values = values  # of a byte: with few of them, most codes are equal to others and stored once
        options = EXHAUSTIVE[kind]
        self.index = Index(BITS, kind, vectors=keep, options=options)
        if in_folder:
            none = CodeTable(np.empty((0, 2), np.uint8), BITS, np.empty(0, np.int64))
            vectors = np.empty((0, 3)) if keep else None
            where = self.folder / "i"
            self.index = build_index(none, where, kind, store=keep, vectors=vectors, metadata={}, options=options)

    def codes(self, count):
        values = [self.rng.integers(0, most, count) for most in (self.values, 4)]
        return np.stack(values, axis=1).astype(np.uint8) << np.array([0, 6], np.uint8)  # the last six bits pad

    @rule(count=st.integers(1, 12) | st.just(0), named=st.booleans())
    def add(self, count, named):
        codes, labels = self.codes(count), self.rng.integers(0, 3, count)
        ids, names = None, range(self.largest + 1, self.largest + 1 + count)
        if named or self.called == "texts":
            free = [name for name in map(IDS[self.called], range(200)) if name not in self.held]
            self.rng.shuffle(free)
            ids = names = free[:count]
            codes, labels = codes[: len(ids)], labels[: len(ids)]
        vectors = self.rng.integers(0, 9, (len(codes), 3)).astype(np.float16) if self.keep else None
        self.index.add(codes, ids, {"label": labels}, vectors=vectors)
        for at, name in enumerate(names):
            self.held[name] = codes[at], int(labels[at]), None if vectors is None else vectors[at]
            self.largest = max(self.largest, name) if isinstance(name, int) else -1

    @precondition(lambda self: self.held)
    @rule(few=st.integers(1, 3) | st.just(200))
    def remove(self, few):
        ids = list(self.held)
        self.rng.shuffle(ids)
        ids = ids[:few]
        assert self.index.remove(ids) == len(ids)
        for name in ids:
            del self.held[name]
        with pytest.raises(ValueError, match="which the index does not have"):
            self.index.codes_of(ids[:1])

    @precondition(lambda self: self.held)
    @rule()
    def refuse_what_is_there(self):
        name, unknown = next(iter(self.held)), IDS[self.called](499)
        generation = self.index.generation
        vectors = np.zeros((1, 3)) if self.keep else None
        with pytest.raises(ValueError, match=f"ids holds {name!r}, which the index already has"):
            self.index.add(self.codes(1), [name], {"label": [0]}, vectors=vectors)
        with pytest.raises(ValueError, match=f"ids holds {unknown!r}, which the index does not have"):
            self.index.remove([name, unknown])
        assert self.index.generation == generation

    @rule()
    def compact(self):
        self.index.compact()
        assert self.index.info()["segments"] <= 1
        assert self.index.info()["removed"] == 0

    @precondition(lambda self: self.index.path is not None)
    @rule()
    def reopen(self):
        self.index = Index.open(self.index.path, mode="a")

    @rule()
    def copy(self):
        shutil.rmtree(self.folder / "copy", ignore_errors=True)
        self.index.save(self.folder / "copy")
        copied = Index.open(self.folder / "copy", mode="a")
        copied.verify()
        assert sorted(copied.ids().tolist()) == sorted(self.held)

    @invariant()
    def holds_what_the_dict_holds(self):
        if not hasattr(self, "index"):
            return
        ids = np.array(sorted(self.held))
        assert len(self.index) == len(ids)
        listed = self.index.ids().tolist()
        assert (sorted(listed) if self.called == "texts" else listed) == ids.tolist()
        if not len(ids):
            return
        codes = np.stack([self.held[name][0] for name in ids.tolist()])
        labels = np.array([self.held[name][1] for name in ids.tolist()])
        asked = self.rng.permutation(len(ids))
        np.testing.assert_array_equal(self.index.codes_of(ids[asked]), codes[asked])
        assert self.index.metadata_of(ids[asked])["label"].to_pylist() == labels[asked].tolist()
        assert self.index.metadata_of(ids[asked])["id"].to_pylist() == ids[asked].tolist()
        if self.keep:
            vectors = np.stack([self.held[name][2] for name in ids.tolist()])
            np.testing.assert_array_equal(self.index.vectors_of(ids[asked]), vectors[asked])
        queries = self.codes(2)
        distances = hamming_distances(queries, codes)
        k = int(self.rng.integers(1, len(ids) + 1))
        few = ids[asked[:3]].tolist()
        found = self.index.search(queries, k)
        for row in range(2):
            self.check(ids, distances[row], k, found.distances[row], found.ids[row], self.index.kind == "flat")
            for where, passed in ({"label": 1}, labels == 1), ({"id": few}, np.isin(ids, few)):
                filtered = self.index.search(queries, k, where=where)
                self.check(ids[passed], distances[row, passed], k, filtered.distances[row], filtered.ids[row])
            near = distances[row] <= 3
            self.check(ids[near], distances[row, near], len(ids), *self.index.range_search(queries, 3).of(row))

    def check(self, ids, distances, k, found, names, exact=True):
        """Whether the names are those of the k nearest; unless they are texts, of ties those of the least ids."""
        order = np.lexsort((ids, distances))[:k]
        assert found.tolist() == distances[order].tolist()
        assert [distances[ids == name].tolist() for name in names] == [[distance] for distance in found]
        assert len(set(names)) == len(names)
        if exact and self.called != "texts":
            assert names.tolist() == ids[order].tolist()

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
