"""A writer that fails leaves the old index or the new one (``tests.faults`` kills writers), and several take turns."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest

from lbhash.codes.io import CodeTable
from lbhash.index import Index
from lbhash.index.factory import build_index


def numbered(start, stop):
    codes = np.arange(start, stop, dtype=np.uint32).view(np.uint8).reshape(-1, 4)
    return CodeTable(codes, 32, np.arange(start, stop))


def begin(folder, kind="flat"):
    table = numbered(0, 1000)
    return build_index(table, folder, kind, metadata={"label": range(1000)})


class Failing:
    """Fails at the n-th call of anything that touches the disk, as a full disk or a kill would.

    Only in the thread that makes it: a service of another test file may work beside it.
    """

    def __init__(self, monkeypatch, at, error):
        self.calls, self.at, self.error = 0, at, error
        self.thread = threading.get_ident()
        for name in ("os.fsync", "os.replace", "os.open", "pathlib.Path.open", "pathlib.Path.unlink"):
            self.wrap(monkeypatch, name)

    def wrap(self, monkeypatch, name):
        module, _, column = name.rpartition(".")
        owner = {"os": os, "pathlib.Path": Path}[module]
        original = getattr(owner, column)

        def wrapped(*arguments, **options):
            if threading.get_ident() == self.thread:
                self.calls += 1
                if self.calls == self.at:
                    raise self.error
            return original(*arguments, **options)

        monkeypatch.setattr(owner, column, wrapped)


@pytest.mark.parametrize("change", ["add", "remove", "compact"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "stop"])
def test_a_change_that_fails_at_any_step(tmp_path, change, error):
    def work(index):
        if change == "add":
            index.add(numbered(1000, 2040).codes, None, {"label": range(1000, 2040)})
        elif change == "remove":
            index.remove(range(990, 1000))
        else:
            index.compact()

    begin(tmp_path / "i", "ivf")
    at, after = 0, {"add": 2040, "remove": 990, "compact": 999}[change]
    if change == "compact":
        Index.open(tmp_path / "i", mode="a").remove([999])
    before = len(Index.open(tmp_path / "i", mode="a"))
    while True:
        at += 1
        assert at < 60
        index = Index.open(tmp_path / "i", mode="a")
        generation = index.generation
        with pytest.MonkeyPatch.context() as patch:
            failing = Failing(patch, at, error)
            try:
                work(index)
            except type(error):
                done = False
            else:
                done = True
        opened = Index.open(tmp_path / "i", mode="a")
        opened.verify()
        if opened.generation != generation:  # it failed after the commit, or not at all
            assert len(opened) == after
            break
        assert not done
        assert len(opened) == len(index) == before
        np.testing.assert_array_equal(
            index.search(numbered(3, 4).codes, 2).ids, opened.search(numbered(3, 4).codes, 2).ids
        )
    assert at > 5
    assert failing.calls >= at
    if not done:  # the writer goes on where its folder is
        index.refresh()
        assert len(index) == after
    index.add(numbered(5000, 5001).codes, [5000], {"label": [5000]})
    assert 5000 in Index.open(tmp_path / "i", mode="a").ids()


def test_a_reader_begins_again_when_a_writer_has_removed_its_files(tmp_path, monkeypatch):
    begin(tmp_path / "i")
    opened = Index._opened

    def late(self, *given):
        monkeypatch.undo()
        Index.open(tmp_path / "i", mode="a").remove(range(900))  # so many that the rest is written anew
        return opened(self, *given)

    monkeypatch.setattr(Index, "_opened", late)
    assert len(Index.open(tmp_path / "i", mode="a")) == 100


def test_a_writer_does_not_wait_for_ever(tmp_path):
    from lbhash.index import store

    index = begin(tmp_path / "i")
    index.patience = 0.05
    with (
        store.locked(tmp_path / "i"),
        pytest.raises(ValueError, match=r"which another writer has kept locked for 0\.05 s"),
    ):
        index.remove([1])
    assert index.search(numbered(1, 2).codes, 1).ids.tolist() == [[1]]
    assert index.remove([1]) == 1
