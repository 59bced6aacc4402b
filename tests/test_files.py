from __future__ import annotations

import io
import multiprocessing
import os
import resource
from itertools import groupby
from pathlib import Path
from threading import Thread

import numpy as np
import pyarrow as pa
import pytest
import torch

from lbhash.codes.io import CodeTable, read_codes, write_codes
from lbhash.index.export import export_index
from lbhash.index.factory import build_index
from lbhash.models.hash_model import HashModel
from lbhash.pipeline.encode import encode
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.pipeline.train import train_files
from lbhash.training.checkpoints import write_checkpoint
from lbhash.utils.files import exclusive, replacing, write_json, write_text
from lbhash.utils.parts import Parts
from lbhash.utils.paths import cache_folder


def test_a_file_is_whole_or_not_there(tmp_path):
    write_text(tmp_path / "deep" / "a.txt", "one")

    def half():
        with replacing(tmp_path / "deep" / "a.txt") as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert (tmp_path / "deep" / "a.txt").read_text() == "one"
    assert [file.name for file in (tmp_path / "deep").iterdir()] == ["a.txt"]


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path):
    left, other = tmp_path / ".facts.json.abcdefgh.json", tmp_path / ".facts.jsonl.abcdefgh.json"
    left.touch()
    other.touch()
    with replacing(tmp_path / "facts.json") as temporary:
        write_json(tmp_path / "facts.json", 1)  # another writer of the same file, while this one is at work
        temporary.write_text("2")
    assert (tmp_path / "facts.json").read_text() == "2"
    assert sorted(file.name for file in tmp_path.iterdir()) == [other.name, "facts.json"]


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path):
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "inside.txt"
    with pytest.raises(OSError, match="file") as raised:
        write_text(target, "x")
    assert raised.value.filename == str(target)
    assert raised.value.strerror


def test_a_lock_is_waited_for(tmp_path, monkeypatch):
    said = io.StringIO()
    monkeypatch.setattr("sys.stderr", said)
    order = []

    def wait():
        with exclusive(tmp_path, "lock", "wait", None):
            order.append("second")

    with exclusive(tmp_path, "lock", "wait", None):
        waiting = Thread(target=wait)
        waiting.start()
        while "wait\n" not in said.getvalue():
            assert waiting.is_alive()
        order.append("first")
    waiting.join(60)
    assert order == ["first", "second"]
    assert said.getvalue() == "wait\n"


@pytest.fixture
def recorded(monkeypatch):
    """What is synced to the disk and renamed, in this order: ``("sync", path)`` and ``("rename", source, target)``."""
    events, fsync = [], os.fsync

    def record_sync(handle):
        if not isinstance(handle, int):
            handle = handle.fileno()
        events.append(("sync", os.stat(handle).st_ino))
        fsync(handle)

    def recording(replace):
        def record_replace(source, target):
            events.append(("rename", os.stat(source).st_ino, str(target)))
            return replace(source, target)

        return record_replace

    monkeypatch.setattr(os, "fsync", record_sync)
    monkeypatch.setattr(os, "replace", recording(os.replace))
    monkeypatch.setattr(Path, "replace", recording(Path.replace))
    return events


def assert_survives(events, file):
    """The file was synced before it was renamed, and its folder after that."""
    inode, folder = file.stat().st_ino, ("sync", file.parent.stat().st_ino)
    renamed = max(at for at, event in enumerate(events) if event == ("rename", inode, str(file)))
    assert ("sync", inode) in events[:renamed], file
    assert folder in events[renamed:], file


def test_models_checkpoints_and_codes_survive_a_power_cut(tmp_path, recorded, write_parquet):
    deep = tmp_path / "new" / "deep" / "a.txt"
    write_text(deep, "one")
    assert_survives(recorded, deep)
    for folder in (tmp_path, tmp_path / "new"):  # new folders have names, too
        assert ("sync", folder.stat().st_ino) in recorded
    rng = np.random.default_rng(0)
    write_parquet(tmp_path / "d.parquet", rng.standard_normal((120, 6)), label=np.arange(120) % 3)
    model, data = str(tmp_path / "model"), str(tmp_path / "d.parquet")
    train_files(
        data, model, protocol="holdout", bits=8, epochs=2, hidden=0, device="cpu", monitor="ratio", progress=False
    )
    for folder in (tmp_path, tmp_path / "model"):
        assert ("sync", folder.stat().st_ino) in recorded
    encode(EncodingJob(model, data), tmp_path / "codes", progress=False)
    encode(EncodingJob(model, data), tmp_path / "codes.npz")
    export_index(build_index(read_codes(tmp_path / "codes.npz"), tmp_path / "index"), tmp_path / "all.parquet")
    files = ["config.json", "model.safetensors", "metrics.json", "checkpoints/last.ckpt", "checkpoints/best.ckpt"]
    for file in files:
        assert_survives(recorded, tmp_path / "model" / file)
    codes = ("codes/_manifest.json", "codes/part-00000.parquet", "codes.npz")
    for file in (*codes, "index/index.json", "all.parquet"):
        assert_survives(recorded, tmp_path / file)


def test_an_index_names_files_that_are_on_the_disk(tmp_path, recorded):
    folder, table = tmp_path / "index", CodeTable(np.eye(9, dtype=np.uint8), 72, np.arange(9) ** 2)

    def assert_written(files):
        manifest, here = (folder / "index.json").stat().st_ino, ("sync", folder.stat().st_ino)
        told = [event for event, _ in groupby(recorded)]  # Path.replace calls os.replace
        assert sorted(told[:-4]) == sorted(("sync", file.stat().st_ino) for file in files)
        assert told[-4:] == [here, ("sync", manifest), ("rename", manifest, str(folder / "index.json")), here]

    index = build_index(table, folder, store="outputs", vectors=np.ones((9, 3)))
    assert recorded.pop(0) == ("sync", tmp_path.stat().st_ino)  # the name of the folder
    assert_written(folder.glob("0*"))
    recorded.clear()
    index.remove([0])
    assert_written(folder.glob("00000002.*"))


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "pipe"])
def test_only_files_are_replaced(tmp_path, kind):
    place, other = tmp_path / "a.txt", tmp_path / "other.txt"
    other.write_text("untouched")
    if kind == "folder":
        place.mkdir()
    elif kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(other if kind == "link" else tmp_path / "missing")
    with pytest.raises(FileExistsError, match=r"not written, because a .* is in its place; remove it") as raised:
        write_text(place, "new")
    assert raised.value.filename == str(place)
    if kind == "link":
        with pytest.raises(OSError, match=r"a\.txt"), exclusive(tmp_path, "a.txt", "busy", 0):
            raise AssertionError("a lock that is a link was followed")
    assert other.read_text() == "untouched"
    assert {file.name for file in tmp_path.iterdir()} == {"a.txt", "other.txt"}


def test_links_in_a_model_folder(tmp_path):
    model, real = HashModel(4, 8, 0), tmp_path / "real"
    real.mkdir()
    (tmp_path / "model").symlink_to(real)
    model.encoder().save(tmp_path / "model")  # a folder may be a link
    (tmp_path / "precious").write_text("untouched")
    (real / "config.json").unlink()
    (real / "config.json").symlink_to(tmp_path / "precious")
    weights = (real / "model.safetensors").read_bytes()
    with pytest.raises(FileExistsError, match="a symbolic link is in its place"):
        HashModel(4, 8, 0).encoder().save(tmp_path / "model")
    assert (tmp_path / "precious").read_text() == "untouched"
    assert (real / "model.safetensors").read_bytes() == weights


def write_on_a_full_disk(folder, connection):
    """Write with room for 2,000 bytes a file, and send the names of the files that the errors name."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    codes, told = np.random.default_rng(0).integers(0, 256, (5000, 8), np.uint8), []
    table = CodeTable(codes, 64, np.arange(5000))
    parts = Parts(folder, {"rows": 500, "part_rows": 500})
    for write in (
        lambda: write_codes(folder / "c.npz", table),
        lambda: write_codes(folder / "c.parquet", table),
        lambda: write_checkpoint(folder / "c.ckpt", {"codes": torch.tensor(codes)}),
        lambda: write_json(folder / "c.json", list(range(5000))),
        lambda: HashModel(64, 64, 0).encoder().save(folder / "model"),
        lambda: parts.write(range(500), pa.table({"x": np.random.default_rng(0).random(500)}), []),
    ):
        try:
            write()
        except OSError as error:
            told.append(Path(error.filename).name if error.strerror else repr(error))
    connection.send(told)


def test_a_full_disk_is_said_with_the_name_of_the_file(tmp_path):
    context = multiprocessing.get_context("fork")  # so that nothing is imported again
    here, there = context.Pipe()
    process = context.Process(target=write_on_a_full_disk, args=(tmp_path, there))
    process.start()
    assert here.poll(120)
    assert here.recv() == ["c.npz", "c.parquet", "c.ckpt", "c.json", "model", "part-00000.parquet"]
    process.join()
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_a_cache_folder_below_an_unknown_user(monkeypatch):
    monkeypatch.setenv("LBHASH_CACHE", "~nobody at all/x")
    assert cache_folder() == Path("~nobody at all/x")
