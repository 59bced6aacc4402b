"""An index that is built anew where somebody has another one open."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from lbhash.index import Index
from lbhash.index.manifest import read_manifest
from lbhash.service.engine import Engine

ANEW = "which was built again after it was opened; open it again"


def codes_of(value, count):
    return np.full((count, 2), value, np.uint8)


def index_of(value, count, model="m"):
    index = Index(16, model=model)
    index.add(codes_of(value, count))
    return index


def removed_and_built(index, path):
    shutil.rmtree(path)
    index.save(path)


def overwritten(index, path):
    index.save(path, overwrite=True)


CHANGES = {
    "add": lambda index: index.add(codes_of(9, 1)),
    "remove": lambda index: index.remove([0]),
    "compact": lambda index: index.compact(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("again", [removed_and_built, overwritten])
def test_a_writer_leaves_what_was_built_anew(tmp_path, again, change):
    index_of(0, 3).save(tmp_path / "i")
    writer = Index.open(tmp_path / "i", mode="a")
    again(index_of(1, 3, "another"), tmp_path / "i")
    with pytest.raises(ValueError, match=rf"index is '.*', {ANEW}"):
        change(writer)
    now = Index.open(tmp_path / "i", mode="a")
    now.verify()
    assert (len(now), now.model) == (3, "another")
    np.testing.assert_array_equal(now.codes_of(now.ids()), codes_of(1, 3))
    now.add(codes_of(2, 1))
    assert len(Index.open(tmp_path / "i", mode="a")) == 4


def test_a_writer_leaves_what_takes_the_place_while_it_writes(tmp_path, monkeypatch):
    index_of(0, 3).save(tmp_path / "i")
    writer = Index.open(tmp_path / "i", mode="a")
    segment = Index._segment

    def replaced(self, *arguments):
        removed_and_built(made, tmp_path / "i")
        return segment(self, *arguments)

    made = index_of(1, 3)
    monkeypatch.setattr(Index, "_segment", replaced)
    with pytest.raises(ValueError, match=ANEW):
        writer.add(codes_of(9, 1))
    np.testing.assert_array_equal(Index.open(tmp_path / "i", mode="a").codes_of([0, 1, 2]), codes_of(1, 3))


def test_a_reader_takes_the_new_one_of_the_same_model(tmp_path):
    index_of(0, 3).save(tmp_path / "i")
    reader = Index.open(tmp_path / "i", mode="a")
    before = reader.info()
    removed_and_built(index_of(1, 3), tmp_path / "i")
    assert reader.generation == read_manifest(tmp_path / "i")["generation"]
    assert reader.outdated()
    assert reader.refresh()
    np.testing.assert_array_equal(reader.codes_of([0, 1, 2]), codes_of(1, 3))
    assert (reader.info()["generation"], reader.info()["build"]) == (1, read_manifest(tmp_path / "i")["build"])
    assert reader.info()["build"] != before["build"]
    reader.add(codes_of(2, 1))
    assert not reader.outdated()
    assert (len(Index.open(tmp_path / "i", mode="a")), reader.build) == (4, Index.open(tmp_path / "i", mode="a").build)


def in_place_of_its_copy(path):
    """A folder whose copy, of the same generation, was changed otherwise and took its place; two who had it open."""
    index = Index(16)
    index.add(codes_of(0, 5), metadata={"price": range(5)})
    index.save(path)
    shutil.copytree(path, path.with_name("copy"))
    writer = Index.open(path, mode="a")
    writer.upsert(codes_of(3, 1), ids=[3], metadata={"price": [999]})
    reader = Index.open(path)
    reader.get([3])
    Index.open(path.with_name("copy"), mode="a").upsert(codes_of(3, 2), ids=[3, 4], metadata={"price": [30, 40]})
    path.rename(path.with_name("old"))
    path.with_name("copy").rename(path)
    return writer, reader


def test_a_copy_that_was_changed_apart_is_another_state(tmp_path):
    writer, reader = in_place_of_its_copy(tmp_path / "i")
    assert reader.outdated()
    assert reader.refresh()
    assert reader.get([3, 4])["price"].to_pylist() == [30, 40]
    writer.add(codes_of(7, 1), metadata={"price": [7]})
    writer.compact()
    for index in (writer, Index.open(tmp_path / "i")):
        index.verify()
        assert index.get(index.ids())["price"].to_pylist() == [0, 1, 2, 30, 40, 7]
    np.testing.assert_array_equal(Index.open(tmp_path / "i").codes_of([3, 4, 5]), codes_of([[3], [3], [7]], 3))


def test_files_of_two_folders_are_never_mixed(tmp_path, monkeypatch):
    """A link that moves between the reading of the manifest and that of the files, which have the same names."""
    for name, value in (("one", 0), ("two", 1)):
        index_of(value, 3).save(tmp_path / name)
    (tmp_path / "now").symlink_to("one")
    load = Index._opened

    def moved(*arguments):
        if os.readlink(tmp_path / "now") == "one":
            (tmp_path / "now").unlink()
            (tmp_path / "now").symlink_to("two")
        return load(*arguments)

    monkeypatch.setattr(Index, "_opened", moved)
    index = Index.open(tmp_path / "now", mode="a")
    assert index.build == read_manifest(tmp_path / "two")["build"]
    index.verify()
    np.testing.assert_array_equal(index.codes_of([0, 1, 2]), codes_of(1, 3))


def test_a_service_notices_a_link_that_moves_at_the_same_generation(tmp_path, digits_service):
    first = Index.open(digits_service.index, mode="a")
    first.save(tmp_path / "one")
    second = Index.open(tmp_path / "one", mode="a")
    second.remove(second.ids()[:10])
    second.save(tmp_path / "two")
    index_of(0, 3, "another").save(tmp_path / "three")
    (tmp_path / "now").symlink_to("two")
    shutil.rmtree(tmp_path / "one")
    first.save(tmp_path / "one")
    engine = Engine(replace(digits_service, index=tmp_path / "now"), None)
    assert (len(engine.index), engine.refresh()) == (len(first) - 10, False)

    def move(name):
        (tmp_path / "next").symlink_to(name)
        (tmp_path / "next").replace(tmp_path / "now")

    move("one")
    assert (
        read_manifest(tmp_path / "one")["generation"]
        == read_manifest(tmp_path / "two")["generation"]
        == engine.index.generation
    )
    assert engine.refresh()
    assert (len(engine.index), engine.refresh()) == (len(first), False)
    move("three")
    with pytest.raises(ValueError, match="index and the model do not go together: codes of model another and of model"):
        engine.refresh()
    assert len(engine.index) == len(first)
