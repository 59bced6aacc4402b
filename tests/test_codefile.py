from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lbhash.codes import code_bytes, io, pack, unpack
from lbhash.codes.io import CodeTable, read_codes, write_codes
from lbhash.utils.labels import Labels, in_one_order

SUFFIXES = [".parquet", ".npz"]


def table_of(bits, labels="single", n=50, seed=0):
    rng = np.random.default_rng(seed)
    codes = pack(rng.choice([-1, 1], (n, bits)))
    held = {
        "single": rng.integers(0, 4, n),
        "multi": (rng.random((n, 6)) < 0.3).astype(np.uint8) * [1, 1, 1, 1, 1, 0],
        "none": None,
    }[labels]
    held = held.astype(np.uint8) if labels == "multi" else held
    return CodeTable(codes, bits, rng.permutation(1000)[:n], held, "0123456789abcdef")


def assert_same(left, right):
    np.testing.assert_array_equal(left.codes, right.codes)
    np.testing.assert_array_equal(left.rows, right.rows)
    assert (left.bits, left.model) == (right.bits, right.model)
    assert (left.codes.dtype, left.rows.dtype) == (np.uint8, np.int64)
    assert (left.labels is None) == (right.labels is None)
    if right.labels is not None:
        alike = in_one_order({side: Labels(one.labels, one.class_names) for side, one in [("l", left), ("r", right)]})
        np.testing.assert_array_equal(*(labels.numbers for labels in alike))  # lists know the classes that occur
        assert left.labels.dtype == right.labels.dtype


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("labels", ["single", "multi", "none"])
@pytest.mark.parametrize("bits", [1, 77])
def test_written_and_read(tmp_path, suffix, labels, bits):
    table = table_of(bits, labels)
    file = tmp_path / "new" / f"c{suffix}"
    write_codes(file, table)
    found = read_codes(file)
    assert_same(found, table)
    assert found.codes.shape == (50, code_bytes(bits))
    np.testing.assert_array_equal(unpack(found.codes, found.bits), unpack(table.codes, bits))
    assert [held.name for held in file.parent.iterdir()] == [file.name]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_codes_at_all(tmp_path, suffix):
    table = table_of(12, n=0)
    write_codes(tmp_path / f"c{suffix}", table)
    assert_same(read_codes(tmp_path / f"c{suffix}"), table)


def test_chunks_and_slices_that_arrow_hands_over(tmp_path, monkeypatch):
    table = table_of(20)
    write_codes(tmp_path / "c.parquet", table)
    whole = pq.read_table(tmp_path / "c.parquet")
    parts = pa.concat_tables([whole.slice(5, 11), whole.slice(0, 0), whole.slice(31, 19)])
    monkeypatch.setattr(io, "read_parquet", lambda file: parts)
    picked = np.r_[5:16, 31:50]
    expected = replace(table, codes=table.codes[picked], rows=table.rows[picked], labels=table.labels[picked])
    assert_same(read_codes(tmp_path / "c.parquet"), expected)


# ------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kept", [0, 500])
def test_truncated_files(tmp_path, suffix, kept):
    file = tmp_path / f"c{suffix}"
    write_codes(file, table_of(64, n=500))
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ValueError, match=r"^base is '.*', which is damaged or not a file of codes: .") as error:
        read_codes(file, "base")
    assert "\n" not in str(error.value)


def test_other_arrays(tmp_path):
    file = tmp_path / "c.npz"
    codes = table_of(16).codes
    for arrays, error, message in (
        ({"vectors": codes}, ValueError, r"codes is .*, which has no array 'codes' \(it has vectors\)"),
        ({"codes": codes.astype(int)}, ValueError, r"codes of codes is \d+ in row \d+; it must be packed uint8, or"),
        ({"codes": codes, "bits": 17}, ValueError, "codes of codes has 2 bytes a row; codes of 17 bits have 3"),
        ({"codes": codes, "bits": 0}, ValueError, "bits of codes is 0"),
        (
            {"codes": codes, "labels": np.zeros(49, int)},
            ValueError,
            "labels of codes has 49 rows and codes has 50; they must be equal",
        ),
        ({"codes": codes, "rows": np.ones(50)}, ValueError, "codes holds 50 codes; its rows must be 50 integers"),
        ({"codes": np.array([{}], object)}, ValueError, "which is damaged or not a file of codes"),
    ):
        np.savez(file, **arrays, allow_pickle=True)
        with pytest.raises(error, match=message):
            read_codes(file)


def test_other_columns(tmp_path):
    file = tmp_path / "c.parquet"
    for columns, message in (
        ({"embedding": [[1.0], [2.0]]}, "which has no column 'code' of packed codes"),
        ({"code": pa.array([b"ab", b"cde"])}, "which has no column 'code' of packed codes"),
        ({"code": pa.array([b"ab", None], pa.binary(2))}, "which has rows without a code"),
    ):
        pq.write_table(pa.table(columns), file)
        with pytest.raises(ValueError, match=message):
            read_codes(file)


def test_a_newer_format_says_to_upgrade(tmp_path):
    file = tmp_path / "c.parquet"
    for version, advice in ((3, "upgrade lbhash"), (1, "encode again")):
        facts = {"lbhash": json.dumps({"bits": 16, "version": version})}
        pq.write_table(pa.table({"code": pa.array([b"ab"], pa.binary(2))}).replace_schema_metadata(facts), file)
        with pytest.raises(ValueError, match=f"of format {version}; this lbhash reads format 2 alone: {advice}"):
            read_codes(file)


def test_bad_places(tmp_path):
    with pytest.raises(ValueError, match=r"path is 'c.txt'; it must end in .parquet or .npz"):
        write_codes("c.txt", table_of(8))
    (tmp_path / "c.txt").write_text("")
    with pytest.raises(OSError, match="txt"):
        write_codes(tmp_path / "c.txt" / "c.npz", table_of(8))
    for place, said in (("c.npz", "and there is no such file"), ("", "which is a folder"), ("c.txt", "it must end in")):
        with pytest.raises(ValueError, match=f"base is .* {said}"):
            read_codes(tmp_path / place, "base")


# ---------------------------------------------------------------------------------------------- of other programs


@pytest.mark.parametrize("form", ["signs", "bits", "floats", "packed"])
@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_arrays_of_other_programs(tmp_path, form, suffix):
    table = table_of(20)
    signs = unpack(table.codes, 20)
    array = {"signs": signs, "bits": signs > 0, "floats": signs.astype(np.float32), "packed": table.codes}[form]
    file = tmp_path / f"c{suffix}"
    np.save(file, array) if suffix == ".npy" else np.savez(file, codes=array)
    np.save(tmp_path / "labels.npy", table.labels)
    found = read_codes(file, bits=20, labels=tmp_path / "labels.npy")
    np.testing.assert_array_equal(found.codes, table.codes)
    np.testing.assert_array_equal(found.labels, table.labels)
    assert found.bits == 20
    if form != "packed":
        assert read_codes(file).bits == 20


def test_files_of_ours_stay_packed_whatever_their_bytes(tmp_path):
    for bits in (1, 8, 16):
        table = replace(table_of(bits), codes=np.ones((50, code_bytes(bits)), np.uint8))
        write_codes(tmp_path / "c.npz", table)
        np.testing.assert_array_equal(read_codes(tmp_path / "c.npz").codes, table.codes)
        assert read_codes(tmp_path / "c.npz").bits == bits


def test_bad_arrays_of_other_programs(tmp_path):
    file = tmp_path / "c.npy"
    np.save(tmp_path / "l.npy", np.zeros(2, int))
    np.save(file, np.ones((3, 4)))
    for given, said in (
        ({"labels": tmp_path / "l.npy"}, "labels of base has 2 rows and base has 3"),
        ({"labels": tmp_path / "no.npy"}, r"labels of base is .*, and there is no such file"),
        ({"bits": 5}, "codes of base has 4 columns; with 5 bits it must have 5"),
    ):
        with pytest.raises(ValueError, match=said):
            read_codes(file, "base", **given)
    file.write_bytes(b"")
    with pytest.raises(ValueError, match=r"base is .*, which is damaged or not a .npy file"):
        read_codes(file, "base")
    write_codes(tmp_path / "c.parquet", table_of(12))
    with pytest.raises(ValueError, match="base holds codes of 12 bits; with bits 16 they must have 16"):
        read_codes(tmp_path / "c.parquet", "base", bits=16)
