import json
import os
import signal
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from lbhash import Hasher
from lbhash.codes.io import CodeTable, read_codes, write_codes
from lbhash.data import load_table
from lbhash.data.images import FileImages
from lbhash.data.readers import read_table
from lbhash.evaluation import bound
from lbhash.utils import memory
from lbhash.utils.labels import read_labels
from lbhash.utils.memory import check_memory, gibibytes, shortage
from lbhash.utils.parallel import in_processes


@pytest.fixture
def little(monkeypatch):
    """A machine with 8 MiB left."""
    monkeypatch.setattr(memory, "available_memory", lambda: 8 << 20)


def refused(call, *parts, said="would take .* of memory, and 8.0 MiB are available"):
    with pytest.raises(ValueError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_has_less_memory_than_its_machine(tmp_path, monkeypatch, version):
    """The limit of any group above counts, and the cache of files does not."""
    names = [("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")]
    names.append(("memory.max", "memory.current", "inactive_file"))
    limit, used, cache = names[version - 1]
    mount = tmp_path / ("memory" if version == 1 else "")
    for place, most in (("a", 1000), ("a/b", 5000)):
        (mount / place).mkdir(parents=True)
        (mount / place / limit).write_text(f"{most}\n")
        (mount / place / used).write_text("700\n")
        (mount / place / "memory.stat").write_text(f"anon 500\n{cache} 200\n")
    monkeypatch.setattr(memory, "_MOUNT", tmp_path)
    lines = "7:cpu:/x\n4:memory:/a/b\n" if version == 1 else "0::/a/b\n"
    whole = type(tmp_path).read_text
    monkeypatch.setattr(
        type(tmp_path),
        "read_text",
        lambda file, **how: lines if str(file) == "/proc/self/cgroup" else whole(file, **how),
    )
    assert list(memory._left_in_groups()) == [4500, 500]


def test_what_fits_is_not_refused(little):
    check_memory(8 << 20, "it")
    refused(lambda: check_memory((8 << 20) + 1, "it", "buy more"), "it would take 8.0 MiB", "; buy more")
    assert gibibytes(3 << 29) == "1.5 GiB"


def test_a_large_class_number_in_lists(little, tmp_path):
    """Lists have a column for each class that occurs, and not for each number up to the largest."""
    labels, file = [[0], [10**9]], tmp_path / "large.parquet"
    pq.write_table(pa.table({"embedding": [[0.0, 1.0], [1.0, 0.0]], "labels": labels}), file)
    table = load_table(file)
    assert (table.labels.tolist(), table.class_names) == ([[1, 0], [0, 1]], (0, 10**9))
    facts = {"lbhash": json.dumps({"bits": 8, "version": 2})}
    codes = pa.table({"code": pa.array([b"a", b"b"], pa.binary(1)), "labels": labels})
    pq.write_table(codes.replace_schema_metadata(facts), file)
    assert read_codes(file).class_names == (0, 10**9)
    many = [[one] for one in range(5000)]
    refused(lambda: read_labels(many), "labels has 5,000 classes, and 5,000 rows of them", "would take 23.8 MiB")


def test_a_large_class_number_in_a_column(little, blobs):
    """Class numbers may have gaps wherever only their classes count; the bound has a row for each up to the largest."""
    refused(lambda: bound(np.zeros((2, 1), np.uint8), [0, 10**9]), "has classes up to 1,000,000,000, and the centers")
    hasher = Hasher(bits=8, method="itq").fit(blobs.x, np.where(blobs.y == 2, 10**9, blobs.y))
    assert hasher.classes_.tolist() == [0, 1, 3, 10**9]


def write_zeros(file, rows, dim, **columns):
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * dim, np.float32)), dim)
    pq.write_table(pa.table({"embedding": zeros, **columns}), file, compression="zstd")
    return file


def test_parquet_that_expands(little, tmp_path):
    """Equal numbers are stored as one and a count, so that the file's sizes say nothing of the memory."""
    file = write_zeros(tmp_path / "zeros.parquet", 40_000, 64)
    assert file.stat().st_size < 50_000
    refused(lambda: read_table(file), f"data is {str(file)!r}, whose 40,000 embeddings would take 9.8 MiB")
    assert read_table(file, stream=True).embeddings.shape == (40_000, 64)  # which takes the memory of some rows
    wide = write_zeros(tmp_path / "wide.parquet", 2048, 2000)
    refused(lambda: read_table(wide, stream=True), "2,048 rows of wide.parquet would take 15.6 MiB")
    labeled = write_zeros(tmp_path / "labeled.parquet", 1 << 21, 1, label=np.zeros(1 << 21, np.int64))
    refused(lambda: read_table(labeled, stream=True), "whose columns label would take 16.0 MiB")
    codes = tmp_path / "codes.parquet"
    pq.write_table(pa.table({"code": pa.array([b"a" * 128] * 70_000, pa.binary(128))}), codes)
    assert codes.stat().st_size < 50_000
    refused(lambda: read_codes(codes), f"codes is {str(codes)!r}, which would take 8.5 MiB")


def test_npy_that_is_larger_than_memory(little, tmp_path):
    file = tmp_path / "zeros.npy"
    np.save(file, np.zeros((9 << 20, 1), np.uint8))
    refused(lambda: read_codes(file), f"codes is {str(file)!r}, which would take 9.0 MiB")
    refused(lambda: read_table(write_zeros(tmp_path / "x.parquet", 2, 2), file), "labels is")
    assert len(read_table(file)) == 9 << 20  # which are read on access


def test_npz_that_expands(little, tmp_path):
    file = tmp_path / "zeros.npz"
    np.savez_compressed(file, embeddings=np.zeros((40_000, 64), np.float32), other=np.zeros(3))
    refused(lambda: read_table(file), f"data is {str(file)!r}, which would take 9.8 MiB")
    np.savez_compressed(file, codes=np.zeros((80_000, 128), np.uint8))
    refused(lambda: read_codes(file), "which would take 9.8 MiB")


@pytest.mark.parametrize("shape", [(10**15,), (10**9, 10**6), (10**12, 10**12)])
def test_arrays_whose_headers_lie(tmp_path, shape):
    """A header may ask for more than any machine has; the file has ten bytes."""
    file = tmp_path / "lies.npy"
    with file.open("wb") as opened:
        np.lib.format.write_array_header_1_0(opened, {"descr": "|u1", "fortran_order": False, "shape": shape})
        opened.write(b"0123456789")
    with zipfile.ZipFile(tmp_path / "lies.npz", "w") as archive:
        for name in ("embeddings.npy", "codes.npy"):
            archive.write(file, name)
    for call in (
        lambda: read_codes(file),
        lambda: read_table(file),
        lambda: read_table(write_zeros(tmp_path / "x.parquet", 2, 2), file),
        lambda: read_table(tmp_path / "lies.npz"),
        lambda: read_codes(tmp_path / "lies.npz"),
    ):
        refused(call, said="which is damaged or no")


def test_an_image_file_is_not_read_if_it_is_too_large(tmp_path):
    with (tmp_path / "large.jpg").open("wb") as opened:
        opened.truncate(1 << 40)  # without a block on the disk
    refused(lambda: FileImages(tmp_path, ["large.jpg"]).stored(0), "it may have at most 33,554,432", said="large.jpg")


@pytest.mark.parametrize("error", [MemoryError(), pa.ArrowMemoryError("malloc of size 9"), "numpy", "torch"])
def test_no_memory_is_a_line(error, monkeypatch, command):
    if isinstance(error, str):
        ask = {"numpy": lambda: np.ones(1 << 55), "torch": lambda: torch.ones(1 << 55)}[error]
        with pytest.raises((MemoryError, RuntimeError)) as caught:
            ask()
        error = caught.value

    def fail():
        raise error

    monkeypatch.setattr("lbhash.cli.tables.method_rows", fail)
    status, out, said = command("methods", "--json")
    assert (status, out) == (2, "")
    assert said.startswith("lbhash: error: there is not enough memory")
    assert said.count("\n") == 1
    assert shortage(RuntimeError("a bug")) is None


def test_no_thread_is_a_line_and_no_fault_of_the_file(tmp_path, monkeypatch, command):
    """As under a limit of processes, where Arrow's error names no cause."""

    def fail(*_, **__):
        raise OSError("Unknown error: Failed to launch worker thread: Resource temporarily unavailable")

    write_codes(tmp_path / "c.parquet", CodeTable(np.ones((3, 1), np.uint8), 8, np.arange(3)))
    monkeypatch.setattr("lbhash.codes.io.read_parquet", fail)
    status, _, said = command("evaluate", "--queries", tmp_path / "c.parquet", "--base", tmp_path / "c.parquet")
    assert (status, said.count("\n")) == (2, 1)
    assert said.startswith("lbhash: error: the system allows this program no more threads; raise its limit")


def kill_itself(_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.end_to_end
def test_a_process_that_is_killed_is_a_line(monkeypatch, command):
    def fail():
        list(in_processes({"one": (0,)}, kill_itself, 1))

    monkeypatch.setattr("lbhash.cli.tables.method_rows", fail)
    status, out, said = command("methods", "--json")
    line = "a process of this command was killed, perhaps because memory ran out; run the command again"
    assert (status, out, said) == (2, "", f"lbhash: error: {line}\n")
