"""Folders of codes, of embeddings."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.codes.io import read_codes
from lbhash.data.readers import read_table
from lbhash.data.streamed import ParquetRows
from lbhash.models.encoder import load_encoder
from lbhash.models.hash_model import HashModel
from lbhash.pipeline.encode import encode_folder
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.utils.checksums import with_checksum
from lbhash.utils.files import exclusive
from lbhash.utils.fingerprint import sampled
from lbhash.utils.parts import MANIFEST, PART_ROWS, Parts

ROWS, DIM, BITS = 137, 12, 20


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model that was never trained, which encodes as any other."""
    import torch

    folder = tmp_path_factory.mktemp("model")
    with torch.random.fork_rng():
        torch.manual_seed(3)
        HashModel(DIM, BITS, hidden=8, metadata={"classes": [0, 1, 2, 3], "label_columns": 6}).encoder().save(folder)
    return folder


@pytest.fixture(scope="module")
def embeddings():
    return np.random.default_rng(0).normal(size=(ROWS, DIM)).astype(np.float32)


@pytest.fixture(scope="module")
def labels():
    return np.random.default_rng(1).integers(0, 4, ROWS)


@pytest.fixture
def data(tmp_path, write_parquet, embeddings, labels):
    """Embeddings in row groups of 50, with flags and a column of names."""
    base = np.arange(ROWS) % 3 > 0
    flags = {"in_train": pa.array(base), "in_base": pa.array(base), "in_query": pa.array(~base)}
    names = pa.array([f"row {row}" if row % 7 else None for row in range(ROWS)])
    return write_parquet(
        tmp_path / "data.parquet", embeddings, row_group_size=50, label=pa.array(labels), name=names, **flags
    )


@pytest.fixture(autouse=True)
def of_this_test(monkeypatch):
    monkeypatch.setitem(PART_ROWS, "rows", PART_ROWS["rows"])


def encode(model, data, out, *, part_rows=None, **options):
    """Encode in parts of so many rows, or as before in the same test."""
    PART_ROWS["rows"] = part_rows or PART_ROWS["rows"]
    job = {name: options.pop(name) for name in list(options) if name in EncodingJob.__dataclass_fields__}
    return encode_folder(EncodingJob(str(model), str(data), **job), out, progress=False, **options)


def contents(folder):
    return {file.name: file.read_bytes() for file in Path(folder).iterdir() if file.name != ".lock"}


def assert_same(left, right):
    np.testing.assert_array_equal(left.codes, right.codes)
    np.testing.assert_array_equal(left.rows, right.rows)
    np.testing.assert_array_equal(left.labels, right.labels)
    assert (left.bits, left.model) == (right.bits, right.model)
    assert (left.codes.dtype, left.rows.dtype) == (right.codes.dtype, right.rows.dtype)
    assert left.extra_columns == right.extra_columns


# ------------------------------------------------------------------------------------------------- the plan


def parts_of(folder, rows, part_rows):
    """The parts of so many rows, and their files."""
    parts = Parts(Path(folder), {"rows": rows, "part_rows": part_rows})
    return [(part, parts.file(part)) for part in parts.ranges]


@given(st.integers(1, 5000), st.integers(1, 700))
def test_every_row_is_in_one_part(rows, part_rows):
    parts = parts_of("", rows, part_rows)
    assert [row for part, _ in parts for row in part] == list(range(rows))
    assert all(len(part) == part_rows for part, _ in parts[:-1])
    assert 0 < len(parts[-1][0]) <= part_rows
    assert [file.name for _, file in parts] == [f"part-{at:05}.parquet" for at in range(len(parts))]


# ------------------------------------------------------------------------------------------------- reading forward


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """Two files of a column that counts the rows, in row groups of many sizes, one of them empty."""
    folder = tmp_path_factory.mktemp("numbered")
    files, row = [], 0
    for name, groups in (("a", (3, 1, 0, 8)), ("b", (5,)), ("c", (2, 2))):
        schema = pa.schema([("number", pa.int64()), ("text", pa.list_(pa.string()))])
        with pq.ParquetWriter(folder / f"{name}.parquet", schema) as writer:
            for size in groups:
                numbers = range(row, row + size)
                table = pa.table({"number": list(numbers), "text": [["x"] * (n % 3) for n in numbers]}, schema)
                writer.write_table(table, row_group_size=max(size, 1))
                row += size
        files.append(folder / f"{name}.parquet")
    return files, row


@given(data=st.data(), batch_rows=st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_rows_are_read_in_any_order(numbered, data, batch_rows):
    files, count = numbered
    read = ParquetRows(files, ["number", "text"], batch_rows)
    assert len(read) == count
    for _ in range(data.draw(st.integers(1, 4))):
        rows = np.array(data.draw(st.lists(st.integers(0, count - 1), max_size=12)), np.int64)
        if data.draw(st.booleans()):
            rows.sort()
        found = read.take(rows)
        assert found["number"].to_pylist() == rows.tolist()
        assert found["text"].to_pylist() == [["x"] * (row % 3) for row in rows.tolist()]


def test_a_damaged_row_group(tmp_path):
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"number": np.arange(1000)}), file, row_group_size=500, compression="snappy")
    held = bytearray(file.read_bytes())
    start = pq.read_metadata(file).row_group(1).column(0).dictionary_page_offset
    held[start : start + 200] = b"\xff" * 200
    file.write_bytes(held)
    read = ParquetRows([file], ["number"], 10)
    assert read.take(np.array([3])).num_rows == 1
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^row group 1 of a.parquet is damaged: "):
            read.take(np.array([600]))
    assert read.take(np.array([499]))["number"].to_pylist() == [499]


# ------------------------------------------------------------------------------------------------- what is encoded


@pytest.mark.parametrize(("split", "part_rows"), [("all", 40), ("base", 1000), ("query", 9)])
def test_a_folder_holds_what_a_file_holds(model, data, tmp_path, command, succeed, split, part_rows):
    PART_ROWS["rows"] = part_rows
    carry = ("--metadata", "name,in_base")
    arguments = ("encode", "--model", model, data, "--split", split, *carry, "--json")
    facts = json.loads(command(*arguments, "--out", f"{tmp_path}/codes/")[1])
    succeed(*arguments, "--out", tmp_path / "codes.parquet")
    file = read_codes(tmp_path / "codes.parquet")
    assert_same(read_codes(tmp_path / "codes"), file)
    count = len(file.codes)
    files = [file.name for _, file in parts_of("", count, part_rows)]
    said = {"codes": count, "rows": count, "damaged": 0, "bits": BITS, "bytes": 3 * count, "split": split}
    assert facts == {**facts, **said, "parts": len(files), "found": 0, "unit": "rows"}
    assert set(contents(tmp_path / "codes")) == {*files, MANIFEST}
    assert pq.read_table(tmp_path / "codes")["row"].to_pylist() == file.rows.tolist()  # by any reader of Parquet


@pytest.mark.parametrize("kind", ["multi", "none"])
def test_labels(model, tmp_path, write_parquet, embeddings, kind, succeed):
    lists = pa.array([[row % 3, 4] if row % 5 else [] for row in range(ROWS)])
    columns = {"labels": lists} if kind == "multi" else {}
    data = write_parquet(tmp_path / "data.parquet", embeddings, **columns)
    encode(model, data, tmp_path / "codes", part_rows=30)
    succeed("encode", "--model", model, data, "--out", tmp_path / "codes.parquet")
    found = read_codes(tmp_path / "codes")
    assert_same(found, read_codes(tmp_path / "codes.parquet"))
    assert (found.labels is None) == (kind == "none")
    assert found.labels is None or list(found.class_names) == [0, 1, 2, 4]


def test_files_of_splits(model, tmp_path, write_parquet, embeddings, labels):
    for at, split in enumerate(("train", "base", "query")):
        write_parquet(tmp_path / f"{split}.parquet", embeddings[at::3], label=pa.array(labels[at::3]))
    files = {split: str(tmp_path / f"{split}.parquet") for split in ("base", "query")}
    encode(model, tmp_path / "train.parquet", tmp_path / "by files", split="query", part_rows=20, **files)
    expected = load_encoder(model).encode(embeddings[2::3])
    np.testing.assert_array_equal(read_codes(tmp_path / "by files").codes, expected)
    encode(model, tmp_path, tmp_path / "by folder", split="query", part_rows=20)
    np.testing.assert_array_equal(read_codes(tmp_path / "by folder").codes, expected)


def test_the_memory_is_not_that_of_the_rows(model, tmp_path):
    """One row group, so that whoever reads row groups holds everything."""
    rows = 300_000
    values = np.random.default_rng(0).normal(size=rows * DIM).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(values), DIM)
    file = tmp_path / "data.parquet"
    pq.write_table(pa.table({"embedding": column}), file, row_group_size=rows, compression="none")
    pool = pa.system_memory_pool()
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        assert pool.max_memory() == 0, "the pool was used before this test"
        tracemalloc.start()
        encode(model, file, tmp_path / "codes", part_rows=20_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert pool.max_memory() < values.nbytes / 4
    assert peak < values.nbytes / 4 + 16 * rows  # number and label of every row


@pytest.mark.parametrize(
    ("change", "said", "parts"),
    [
        (lambda rows: rows[90].pop(), "column 'embedding' of data has 11 numbers in row 90; all rows must", 2),
        (lambda rows: rows[90].__setitem__(3, np.nan), "embeddings of data is NaN or infinite in row 90;", 2),
        (lambda rows: rows.__setitem__(0, None), "embeddings of data is NaN or infinite in row 0;", None),
    ],
)
def test_bad_rows_are_refused_as_by_whoever_reads_all(model, tmp_path, embeddings, change, said, parts):
    rows, data, out = embeddings.astype(np.float64).tolist(), tmp_path / "data.parquet", tmp_path / "codes"
    change(rows)
    pq.write_table(pa.table({"embedding": rows}), data)
    for call in (lambda: read_table(data), lambda: encode(model, data, out, part_rows=40)):
        with pytest.raises(ValueError, match=f"^{said}"):
            call()
    # The parts before it are there; what fails while data are opened leaves nothing.
    assert (len(list(out.glob("part-*"))) if out.exists() else None) == parts


# ------------------------------------------------------------------------------------------------- going on


def encode_and_die(model, data, out, last, after):
    """Encode in a process of its own, which is killed just before or after its rename number ``last``."""
    child = os.fork()  # which has everything loaded
    if child:
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        return
    replace, count = Path.replace, 0

    def counting(self, target):
        nonlocal count
        count += 1
        if count == last and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(self, target)
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return target

    Path.replace = counting
    try:
        encode(model, data, out, part_rows=40, metadata=("name",))
    finally:
        os._exit(1)


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_moment(model, data, tmp_path, after):
    """The renames are the only moments at which anything changes; the next run leaves what no kill would have."""
    encode(model, data, tmp_path / "whole", part_rows=40, metadata=("name",))
    whole = contents(tmp_path / "whole")
    files = [file.name for _, file in parts_of("", ROWS, 40)]
    renames = 1 + len(files)  # of the manifest and of the parts
    for last in range(1, renames + 1):
        out = tmp_path / str(last)
        encode_and_die(model, data, out, last, after)
        there = [name for name in files if (out / name).exists()]
        assert there == files[: max(last - 1 - (not after), 0)]
        if last == renames and after:
            assert len(read_codes(out).codes) == ROWS
        else:
            said = "without _manifest.json" if last == 1 and not after else "is not complete"
            with pytest.raises(ValueError, match=said):
                read_codes(out)
        assert encode(model, data, out, part_rows=40, metadata=("name",))["found"] == len(there)
        assert contents(out) == whole


@pytest.fixture
def encoded(monkeypatch):
    """The parts that are encoded, by their first rows."""
    seen = []
    write = Parts.write
    monkeypatch.setattr(Parts, "write", lambda self, part, *given: seen.append(part.start) or write(self, part, *given))
    return seen


def test_what_is_there_is_not_encoded_again(model, data, tmp_path, encoded):
    out = tmp_path / "codes"
    encode(model, data, out, part_rows=30)
    whole = contents(out)
    encoded.clear()
    assert encode(model, data, out)["found"] == 5
    assert encoded == []
    assert contents(out) == whole
    files = [file for _, file in parts_of(out, ROWS, 30)]
    files[1].unlink()
    cut = whole[files[3].name]
    files[3].write_bytes(cut[: len(cut) // 2])
    assert encode(model, data, out)["found"] == 3
    assert encoded == [30, 90]
    assert contents(out) == whole


def test_a_file_that_is_no_such_part_is_encoded_again(model, data, tmp_path, encoded):
    out = tmp_path / "codes"
    encode(model, data, out, part_rows=30)
    whole = contents(out)
    first, second, third, fourth = (file for _, file in parts_of(out, ROWS, 30)[:4])
    shutil.copy(fourth, first)  # of other rows
    for file, known in ((second, True), (third, False)):  # of another source, of nothing known
        table = pq.read_table(file)
        facts = {b"lbhash part": table.schema.metadata[b"lbhash part"].replace(b'"mark": "', b'"mark": "x')}
        pq.write_table(table.replace_schema_metadata(facts if known else None), file)
    encoded.clear()
    encode(model, data, out)
    assert encoded == [0, 30, 60]
    assert contents(out) == whole


def test_overwriting(model, data, tmp_path, embeddings, write_parquet):
    out = tmp_path / "codes"
    encode(model, data, out, part_rows=30)
    other = write_parquet(tmp_path / "other.parquet", embeddings[:50])
    facts = encode(model, other, out, part_rows=20, overwrite=True)
    assert (facts["codes"], facts["found"]) == (50, 0)
    assert set(contents(out)) == {MANIFEST, *(file.name for _, file in parts_of("", 50, 20))}
    np.testing.assert_array_equal(read_codes(out).codes, load_encoder(model).encode(embeddings[:50]))


# ------------------------------------------------------------------------------------------------- refusals


def test_other_codes_are_refused(model, data, tmp_path, write_parquet, embeddings, labels):
    out = tmp_path / "codes"
    encode(model, data, out, part_rows=30)
    whole = contents(out)

    def refused(said, other_model=model, other_data=data, **options):
        with pytest.raises(ValueError, match=rf"^out is '{out}', which was made with other settings \({said}\); give"):
            encode(other_model, other_data, out, **options)
        assert contents(out) == whole

    HashModel(DIM, 8, hidden=0, metadata={"classes": [0]}).encoder().save(tmp_path / "model")
    refused(r"model: '[0-9a-f]{16}' there, '[0-9a-f]{16}' here", tmp_path / "model")
    other = write_parquet(tmp_path / "other.parquet", embeddings, label=pa.array(labels))
    refused(r"data: 'data.parquet' there, 'other.parquet' here", other_data=other)
    refused(r"split: 'all' there, 'base' here", split="base")
    refused(r"metadata: \[\] there, \['name'\] here", metadata=("name",))
    refused("part rows: 30 there, 31 here", part_rows=31)
    PART_ROWS["rows"] = 30
    shutil.copy(other, data)
    refused(r"files: '[0-9a-f]{16}' there, '[0-9a-f]{16}' here")


def test_other_embeddings_of_the_same_size_time_and_labels_are_refused(model, tmp_path, embeddings, labels):
    data, out = tmp_path / "data.npz", tmp_path / "codes"
    np.savez(data, embeddings=embeddings, labels=labels)
    facts = data.stat()
    assert encode(model, data, out, part_rows=50)["found"] == 0
    np.savez(data, embeddings=embeddings[::-1], labels=labels)
    os.utime(data, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert data.stat().st_size == facts.st_size
    before = contents(out)
    with pytest.raises(ValueError, match=r"which was made with other settings \(files: '"):
        encode(model, data, out)
    assert contents(out) == before


@pytest.mark.parametrize("count", [1, 400])
def test_a_sample_of_files(tmp_path, count):
    files = [tmp_path / f"{number}.bin" for number in range(count)]
    content = np.random.default_rng(0).bytes(6_000_000 // count)
    for file in files:
        file.write_bytes(content)
    sample = list(sampled(tmp_path, files))
    assert 128 <= len(sample) <= 400
    assert max(map(len, sample)) <= 4096
    for file in files:
        file.write_bytes(content[: len(content) // 2] + bytes(len(content) // 2))
    assert list(sampled(tmp_path, files)) != sample


def test_other_rows_of_the_same_file_are_refused(model, tmp_path, write_parquet, embeddings, labels):
    data = write_parquet(tmp_path / "data.parquet", embeddings, label=pa.array(labels))
    out = tmp_path / "codes"
    encode(model, data, out, split="query", protocol="holdout", split_seed=1)
    with pytest.raises(ValueError, match=r"which was made with other settings \(rows and labels: '"):
        encode(model, data, out, split="query", protocol="holdout", split_seed=2)


def test_options_of_images_are_refused_of_embeddings(model, data, tmp_path):
    with pytest.raises(ValueError, match=r"^batch_size is 8 and data are embeddings; it is for images, which a"):
        encode(model, data, tmp_path / "codes", batch_size=8)
    assert not (tmp_path / "codes").exists()


def test_places_that_are_no_folder_of_codes(model, data, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"^out is '.*file', which is a file; it must be a folder, or end in .parquet"):
        encode(model, data, tmp_path / "file")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(ValueError, match=r"^out is '.*mine', a folder that holds 'thesis.txt' and no codes; give an"):
        encode(model, data, tmp_path / "mine", overwrite=True)
    assert set(contents(tmp_path / "mine")) == {"thesis.txt"}


def test_two_runs_at_once(model, data, tmp_path):
    out = tmp_path / "codes"
    out.mkdir()
    said = r"^out is '.*codes', which another run writes to; wait for it, or end it"
    with exclusive(out, ".lock", "", 0), pytest.raises(ValueError, match=said):
        encode(model, data, out)


# ------------------------------------------------------------------------------------------------- reading folders


def test_folders_that_are_not_whole(model, data, tmp_path):
    out = tmp_path / "codes"
    encode(model, data, out, part_rows=30)

    def refused(said, **options):
        with pytest.raises(ValueError, match=f"^base is '{out}', {said}"):
            read_codes(out, "base", **options)

    manifest = json.loads((out / MANIFEST).read_text())
    files = [file for _, file in parts_of(out, ROWS, 30)]
    held = [file.read_bytes() for file in files]
    files[2].unlink()
    refused(
        r"which is not complete \(4 of its 5 parts are there\); run its 'lbhash encode' again, which continues where"
    )
    for wrong in (held[1][:100], held[4]):
        files[2].write_bytes(wrong)
        refused(
            "whose part-00002.parquet is damaged or of other rows; run its 'lbhash encode' again, which replaces it"
        )
    files[2].write_bytes(held[2])
    for change, said in (
        ({"model": "0" * 16}, "whose part-00000.parquet is damaged or of other rows"),
        (
            {"version": 1},
            r"of format 1; this lbhash reads format 2 alone: run its 'lbhash encode' again with --overwrite",
        ),
    ):
        changed = {name: value for name, value in {**manifest, **change}.items() if name != "checksum"}
        (out / MANIFEST).write_text(json.dumps(with_checksum(changed)))
        refused(said)
    for text in ("{", "[]", json.dumps({**manifest, "format": "other"}), json.dumps({**manifest, "rows": "many"})):
        (out / MANIFEST).write_text(text)
        refused(rf"whose {MANIFEST} is damaged; run its 'lbhash encode' again with --overwrite")
    (out / MANIFEST).unlink()
    refused(f"which is a folder without {MANIFEST}; it must be a file of codes, or a folder that 'lbhash encode' wrote")


def test_commands_take_a_folder_as_they_take_a_file(model, data, tmp_path, succeed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for split in ("base", "query"):
        for out in (split, f"{split}.parquet"):
            arguments = (data, "--model", model, "--split", split, "--metadata", "name", "--out", out)
            succeed("encode", *arguments)
    of_files = succeed("evaluate", "--queries", "query.parquet", "--base", "base.parquet", "--json")
    assert succeed("evaluate", "--queries", "query", "--base", "base", "--json") == of_files
    for codes, index in (("base", "one"), ("base.parquet", "two")):
        succeed("index", "build", "--codes", codes, "--out", index)
    search = ("search", "--model", model, "--data", data, "--row", 3, "--json")
    found = [json.loads(succeed(*search, index)[0]) for index in ("one", "two", "base")]
    for answer in found:
        answer.pop("index", None)
    assert found[0] == found[1] == found[2]


def test_data_are_not_overwritten_by_their_codes(model, data, tmp_path, refuse, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.parquet").write_bytes(Path(data).read_bytes())
    whole = (tmp_path / "data.parquet").read_bytes()
    for out in ("data.parquet", tmp_path / "data.parquet"):
        said = refuse("encode", "--model", model, "data.parquet", "--split", "all", "--out", out)
        assert f"out is {str(out)!r}, which is data itself; give another file" in said
    assert (tmp_path / "data.parquet").read_bytes() == whole


def test_a_file_is_replaced_on_request_only(model, data, tmp_path, command, succeed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ("encode", "--model", model, data, "--split", "all", "--out", "codes.parquet")
    succeed(*given)
    succeed("index", "build", "--codes", "codes.parquet", "--out", "index")
    for arguments in (given, ("index", "export", "index", "--out", "codes.parquet")):
        (tmp_path / "codes.parquet").write_text("mine")
        said = "lbhash: error: --out is 'codes.parquet', which already exists; give another file, or --overwrite\n"
        assert command(*arguments)[::2] == (2, said)
        assert (tmp_path / "codes.parquet").read_text() == "mine"
        succeed(*arguments, "--overwrite")
        assert len(read_codes("codes.parquet").codes) == 137
