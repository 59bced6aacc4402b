"""A changed byte, wherever it is, in every kind of file that is read back: refused in a line, made anew, or no harm."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lbhash import Hasher, TrainingArguments
from lbhash.codes import pack
from lbhash.codes.io import CodeTable, read_codes, write_codes
from lbhash.pipeline.encode import encode
from lbhash.pipeline.encoding.job import EncodingJob
from lbhash.training.checkpoints import checkpoint_to_resume, load_checkpoint, write_checkpoint
from lbhash.utils.checksums import checked, read_npz, with_checksum, write_npz
from lbhash.utils.parallel import read_run, write_run
from lbhash.utils.parquet import CHECKED, write_parquet
from lbhash.utils.parts import MANIFEST, PART_ROWS, Damage, Parts

RNG = np.random.default_rng(0)


def flipped(file, count=150):
    """Change one byte of a file, ``count`` times, and yield its place; at the end the file is as it was."""
    content = file.read_bytes()
    places = np.unique(np.linspace(0, len(content) - 1, count).astype(int))
    for place, bit in zip(places.tolist(), RNG.integers(0, 8, len(places)).tolist(), strict=True):
        changed = bytearray(content)
        changed[place] ^= 1 << bit
        file.write_bytes(changed)
        yield place
    file.write_bytes(content)


def refusals(file, read, same, count=150):
    """The share of changed bytes that are refused in a line; with the others what is read is the same."""
    refused = []
    for place in flipped(file, count):
        said, found = outcome(read)
        refused += [place] * bool(said)
        assert "\n" not in said
        assert said or same(found), f"byte {place} of {file.name}"
    assert same(read())
    return len(refused) / count


def outcome(read):
    """What is said by an error, or nothing, and what is read."""
    try:
        return "", read()
    except ValueError as error:
        return str(error), None


def table_of(n=60, bits=12):
    extra = pa.table({"name": [f"row {row}" for row in range(n)]})
    codes = pack(RNG.choice([-1, 1], (n, bits)))
    return CodeTable(codes, bits, np.arange(n) * 3, RNG.integers(0, 4, n), "0123456789abcdef", extra)


def same_codes(expected):
    def compare(found):
        np.testing.assert_array_equal(found.codes, expected.codes)
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_array_equal(found.labels, expected.labels)
        return (found.bits, found.model, found.extra_columns) == (expected.bits, expected.model, expected.extra_columns)

    return compare


# -------------------------------------------------------------------------------------------------------------- codes


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_a_file_of_codes(tmp_path, suffix):
    file = tmp_path / f"c{suffix}"
    write_codes(file, table_of())
    assert refusals(file, lambda: read_codes(file), same_codes(read_codes(file)), 400) > 0.6


@pytest.fixture(scope="module")
def encoded(tmp_path_factory):
    """A model, its data, and a folder of codes in three parts."""
    place = tmp_path_factory.mktemp("encoded")
    X = RNG.standard_normal((90, 6)).astype(np.float32)
    columns = {"embedding": list(X), "label": RNG.integers(0, 3, 90)}
    pq.write_table(pa.table({name: pa.array(list(values)) for name, values in columns.items()}), place / "d.parquet")
    Hasher(bits=12, epochs=1, device="cpu", training=TrainingArguments(hidden=0)).fit(
        X, columns["label"]
    ).save_pretrained(place / "model")
    job = EncodingJob(place / "model", place / "d.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PART_ROWS, "rows", 30)
        encode(job, place / "codes", progress=False)
        yield job, place / "codes"


def test_parts_and_manifests_are_checked(encoded):
    folder = encoded[1]
    expected = same_codes(read_codes(folder))
    for file in sorted(folder.glob("part-*"))[1:2]:
        assert refusals(file, lambda: read_codes(folder), expected) > 0.9
    refusals(folder / MANIFEST, lambda: read_codes(folder), expected)


def test_a_damaged_part_is_encoded_again(encoded):
    job, folder = encoded
    part = sorted(folder.glob("part-*"))[1]
    content = part.read_bytes()
    part.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    with pytest.raises(ValueError, match=rf"{part.name} is damaged or of other rows; run its 'lbhash encode' again"):
        read_codes(folder)
    assert encode(job, folder, progress=False)["found"] == 2
    assert part.read_bytes() == content


def test_pages_have_checksums_that_any_reader_can_verify(tmp_path):
    file = tmp_path / "c.parquet"
    write_parquet(file, pa.table({"code": pa.array(list(range(1000)), pa.int32())}))
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(content)
    assert pq.read_table(file).num_rows == 1000
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(file, **CHECKED).read()


# ------------------------------------------------------------------------------------------------------------- models


def test_a_model(encoded, tmp_path):
    hasher = Hasher.from_pretrained(encoded[0].model)
    hasher.model_.metadata |= {"split_seed": 5, "protocol": "holdout"}
    hasher.save_pretrained(tmp_path)
    X = RNG.standard_normal((20, 6)).astype(np.float32)
    codes, about = hasher.encode(X), Hasher.from_pretrained(tmp_path).model_.metadata

    def same(found):
        return (found.encode(X) == codes).all() and found.model_.metadata == about

    assert refusals(tmp_path / "config.json", lambda: Hasher.from_pretrained(tmp_path), same, 300) > 0.6
    assert refusals(tmp_path / "model.safetensors", lambda: Hasher.from_pretrained(tmp_path), same, 100) > 0.6


# ----------------------------------------------------------------------------------------------------------- training


def test_a_checkpoint(tmp_path):
    file = tmp_path / "checkpoints" / "last.ckpt"
    content = {"epoch": 3, "lbhash_settings": {"lr": 0.5}, "state_dict": {"w": torch.arange(600.0)}, "states": [1, 2]}
    write_checkpoint(file, content)

    def same(found):
        weights = found.pop("state_dict")
        return found == {name: content[name] for name in found} and torch.equal(
            weights["w"], content["state_dict"]["w"]
        )

    assert refusals(file, lambda: load_checkpoint(file), same, 400) > 0.95
    for _ in flipped(file, 3):
        with pytest.raises(ValueError, match=r"^the checkpoint in .* is damaged .*; start again without resume: "):
            load_checkpoint(file)
    with pytest.raises(ValueError, match=r"start again without resume: it has no state; is it another file"):
        checkpoint_to_resume(tmp_path, {})  # as from a best.ckpt that was renamed
    torch.save(content, file)  # which has no checksum
    with pytest.raises(ValueError, match=r"start again without resume: its checksum is wrong or missing"):
        load_checkpoint(file)


# ------------------------------------------------------------------------------------------------- caches and results


def test_a_part(tmp_path):
    parts, damaged = Parts(tmp_path, {"of": "this", "rows": 20, "part_rows": 10}), [Damage(12, "image 12", "no image")]
    (first, second), table = parts.ranges, pa.table({"row": range(10), "x": RNG.standard_normal(10)})
    parts.write(first, table, [])
    parts.write(second, table[1:], damaged)
    missing = 0
    for place in flipped(parts.file(second), 200):
        found = parts.find(second)
        missing += found is None
        assert found is None or (found[0].equals(table[1:]), found[1]) == (True, damaged), str(place)
    assert missing > 100
    assert parts.find(second)[1] == damaged
    parts.file(first).write_bytes(parts.file(second).read_bytes())
    assert parts.find(first) is None  # of other rows
    assert Parts(tmp_path, {**parts.facts, "of": "that"}).find(second) is None
    parts.write(second, table[2:], damaged)
    assert parts.find(second) is None  # a row is gone


def test_results_of_runs(tmp_path):
    file, result = tmp_path / "run.json", {"map": 0.25, "rows": [1, 2]}
    write_run(file, result)
    assert refusals(file, lambda: read_run(file), lambda found: found == result, 80) > 0.5
    file.write_text(json.dumps(result))
    with pytest.raises(ValueError, match=r"run.json is damaged \(its checksum is wrong or missing\); delete it"):
        read_run(file)


def test_a_run_under_another_name_is_refused(tmp_path):
    """As by a copy that went wrong: trial 1 in place of trial 0."""
    write_run(tmp_path / "1.json", {"ratio": 3.5})
    shutil.copy(tmp_path / "1.json", tmp_path / "0.json")
    with pytest.raises(ValueError, match=r"0\.json is damaged \(its checksum is wrong or missing\); delete it"):
        read_run(tmp_path / "0.json")
    os.mkfifo(tmp_path / "2.json")
    with pytest.raises(ValueError, match=r"2\.json is a pipe, and no file of a run"):
        read_run(tmp_path / "2.json")


# ---------------------------------------------------------------------------------------------------------- checksums

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_json_comes_back_as_it_was(value):
    held = with_checksum(value)
    if isinstance(value, dict) and "checksum" in value:
        return
    assert checked(json.loads(json.dumps(held))) == value


def test_arrays_come_back_as_they_were(tmp_path):
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.array("text"), "c": np.empty((0, 3), np.uint8), "d": np.True_}
    write_npz(tmp_path / "a.npz", arrays)
    found = read_npz(tmp_path / "a.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == np.asarray(array).dtype
