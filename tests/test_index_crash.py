"""A writer that is killed, or fails, leaves the old index or the new one."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from lbhash.codes.io import CodeTable
from lbhash.index import build_index, open_index

WRITER = """
import sys
import numpy as np
from lbhash.index import open_index
index = open_index(sys.argv[1])
print("ready", flush=True)
step = 0
while True:
    start, step = index.info()["codes"], step + 1
    codes = np.arange(start, start + 40, dtype=np.uint32).view(np.uint8).reshape(40, 4)
    index.add(codes, None, {"label": range(start, start + 40)})
    if step % 5 == 0:
        index.compact()
    print(len(index), flush=True)
"""
"""Adds 40 codes at a time, for ever, and says what is committed. A code is the bytes of its id, its label the id."""


def numbered(start, stop):
    codes = np.arange(start, stop, dtype=np.uint32).view(np.uint8).reshape(-1, 4)
    return CodeTable(codes, 32, np.arange(start, stop))


def begin(folder, kind="flat"):
    table = numbered(0, 1000)
    return build_index(table, folder, kind, attributes={"label": range(1000)})


def assert_whole(folder, committed):
    """The index holds all that was committed, and of the rest all of a step or nothing."""
    index = open_index(folder)
    index.verify()
    count = len(index)
    assert count in (committed, committed + 40)
    ids = np.arange(count)
    np.testing.assert_array_equal(index.ids(), ids)
    np.testing.assert_array_equal(index.codes_of(ids), numbered(0, count).codes)
    assert index.attributes_of(ids)["label"].to_pylist() == ids.tolist()
    last = numbered(count - 1, count).codes
    assert index.search(last, 1).ids.tolist() == [[count - 1]]
    return count


def kill_in_the_middle(folder, rng, committed, environment):
    """Start a writer, let it commit once or twice, kill it at some moment, and look at what it left."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout.readline() == "ready\n"
        for _ in range(rng.randrange(3)):
            committed = int(process.stdout.readline())
        time.sleep(rng.random() * 0.03)
    finally:
        process.kill()
    said = process.stdout.read().split()
    process.wait()
    process.stdout.close()
    # The last line may have been cut, or the kill may have come between a commit and its line.
    committed = max([committed, *(int(line) for line in said[:-1])])
    if said and int(said[-1]) == committed + 40:
        committed += 40
    manifest = (folder / "index.json").read_text()
    left_over = [file.name for file in folder.glob("0*") if file.name not in manifest]
    return assert_whole(folder, committed), bool(left_over) or (folder / "index.json.new").exists()


@pytest.mark.parametrize(
    ("kills", "seed"), [pytest.param(5, 0, id="5"), pytest.param(60, 1, id="60", marks=pytest.mark.slow)]
)
def test_killed_writers(tmp_path, kills, seed):
    rng = random.Random(seed)
    begin(tmp_path / "i").save(tmp_path / "copy")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    committed, interrupted = 1000, 0
    for _ in range(kills):
        committed, half_done = kill_in_the_middle(tmp_path / "i", rng, committed, environment)
        interrupted += half_done
    if kills > 5:  # of so few, all may fall between two changes
        assert interrupted > kills // 8  # that many left files behind that no manifest names
    index = open_index(tmp_path / "i")
    index.add(numbered(committed, committed + 1).codes, None, {"label": [committed]})  # no lock is left behind
    named = {path.name for path in (tmp_path / "i").iterdir()}
    assert not any(name.endswith(".new") for name in named)
    assert len({name for name in named if name.endswith("codes.npy")}) == index.info()["segments"]  # all swept


class Failing:
    """Fails at the n-th call of anything that touches the disk, as a full disk or a kill would."""

    def __init__(self, monkeypatch, at, error):
        self.calls, self.at, self.error = 0, at, error
        for name in ("os.fsync", "os.replace", "os.open", "pathlib.Path.open", "pathlib.Path.unlink"):
            self.wrap(monkeypatch, name)

    def wrap(self, monkeypatch, name):
        module, _, attribute = name.rpartition(".")
        owner = {"os": os, "pathlib.Path": Path}[module]
        original = getattr(owner, attribute)

        def wrapped(*arguments, **options):
            self.calls += 1
            if self.calls == self.at:
                raise self.error
            return original(*arguments, **options)

        monkeypatch.setattr(owner, attribute, wrapped)


@pytest.mark.parametrize("kind", ["flat", "ivf"])
@pytest.mark.parametrize("change", ["add", "remove", "compact"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "stop"])
def test_a_change_that_fails_at_any_step(tmp_path, kind, change, error):
    def work(index):
        if change == "add":
            index.add(numbered(1000, 2040).codes, None, {"label": range(1000, 2040)})
        elif change == "remove":
            index.remove(range(990, 1000))
        else:
            index.compact()

    begin(tmp_path / "i", kind)
    at, after = 0, {"add": 2040, "remove": 990, "compact": 999}[change]
    if change == "compact":
        open_index(tmp_path / "i").remove([999])
    before = len(open_index(tmp_path / "i"))
    while True:
        at += 1
        assert at < 60
        index = open_index(tmp_path / "i")
        generation = index.generation
        with pytest.MonkeyPatch.context() as patch:
            failing = Failing(patch, at, error)
            try:
                work(index)
            except type(error):
                done = False
            else:
                done = True
        opened = open_index(tmp_path / "i")
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
    assert 5000 in open_index(tmp_path / "i").ids()


def test_two_writers(tmp_path):
    begin(tmp_path / "i")
    script = """
import sys
import numpy as np
from lbhash.index import open_index
index, first = open_index(sys.argv[1]), int(sys.argv[2])
for start in range(first, first + 100, 10):
    codes = np.arange(start, start + 10, dtype=np.uint32).view(np.uint8).reshape(10, 4)
    index.add(codes, range(start, start + 10), {"label": range(start, start + 10)})
"""
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "i"), first]) for first in ("1000", "1100")
    ]
    reader, seen = open_index(tmp_path / "i"), 1000
    while any(writer.poll() is None for writer in writers):  # a reader never sees half a change
        reader.refresh()
        assert len(reader) >= seen
        assert (len(reader) - 1000) % 10 == 0
        seen = len(reader)
        np.testing.assert_array_equal(reader.codes_of(reader.ids()).view(np.uint32)[:, 0], reader.ids())
    assert [writer.wait() for writer in writers] == [0, 0]
    index = open_index(tmp_path / "i")
    index.verify()
    assert (len(index), index.generation) == (1200, 21)
    np.testing.assert_array_equal(index.codes_of(np.arange(1200)), numbered(0, 1200).codes)


def test_a_writer_does_not_wait_for_ever(tmp_path, monkeypatch):
    from lbhash.index import store

    index = begin(tmp_path / "i")
    monkeypatch.setattr(store, "PATIENCE", 0.05)
    with (
        store.locked(tmp_path / "i"),
        pytest.raises(ValueError, match=r"which another writer has kept locked for 0\.05 s"),
    ):
        index.remove([1])
    assert index.search(numbered(1, 2).codes, 1).ids.tolist() == [[1]]
    assert index.remove([1]) == 1
