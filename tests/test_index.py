from __future__ import annotations

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.codes import hamming_distances, pack
from lbhash.index import FlatIndex


def random_codes(n, width, seed):
    return np.random.default_rng(seed).integers(0, 256, (n, width), dtype=np.uint8)


def filled(codes, ids=None):
    index = FlatIndex(codes.shape[1])
    index.add(codes, ids)
    return index


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 17), st.integers(1, 60))
def test_search_is_that_of_brute_force(seed, width, n):
    rng = np.random.default_rng(seed)
    base = random_codes(n, width, seed)
    if n > 2:
        base[n // 2] = base[0]  # a tie
    queries, k, ids = random_codes(5, width, seed + 1), int(rng.integers(1, n + 1)), rng.permutation(10 * n)[:n]
    distances, found = filled(base, ids).search(queries, k)
    expected = hamming_distances(queries, base)
    assert (distances.dtype, found.dtype) == (np.int32, np.int64)
    np.testing.assert_array_equal(distances, np.sort(expected, axis=1)[:, :k])
    position = {int(name): at for at, name in enumerate(ids)}
    for row in range(5):
        at = [position[int(name)] for name in found[row]]
        assert len(set(at)) == k
        np.testing.assert_array_equal(expected[row, at], distances[row])
        assert sorted(zip(distances[row], found[row], strict=True)) == list(
            zip(distances[row], found[row], strict=True)
        )


def test_ids_count_on_where_none_are_given():
    base = random_codes(10, 4, 0)
    index = FlatIndex(4)
    assert len(index) == 0
    index.add(base[:6])
    index.add(base[6:])
    assert len(index) == 10
    distances, ids = index.search(base, 1)
    assert not distances.any()
    assert ids[:, 0].tolist() == list(range(10))


def test_bits_that_do_not_fill_bytes():
    signs = np.random.default_rng(0).choice([-1, 1], (30, 13))
    distances, ids = filled(pack(signs)).search(pack(signs[:3]), 30)
    for row in range(3):
        np.testing.assert_array_equal((signs[ids[row]] != signs[row]).sum(axis=1), distances[row])


def test_saved_and_loaded(tmp_path):
    base, queries = random_codes(50, 5, 0), random_codes(7, 5, 1)
    index = filled(base, np.arange(50) * 3 + 2**40)
    index.save(tmp_path / "new" / "i.faiss")
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["i.faiss"]
    loaded = FlatIndex.load(tmp_path / "new" / "i.faiss")
    assert (len(loaded), loaded.code_bytes) == (50, 5)
    for left, right in zip(loaded.search(queries, 9), index.search(queries, 9), strict=True):
        np.testing.assert_array_equal(left, right)
    loaded.add(base[:1], [7])
    assert len(loaded) == 51


@pytest.mark.parametrize("kept", [0, 3, 40, "half", -1])
def test_damaged_files(tmp_path, kept):
    file = tmp_path / "i.faiss"
    filled(random_codes(50, 5, 0)).save(file)
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2 if kept == "half" else kept])
    with pytest.raises(ValueError, match=r"^index is '.*', which is damaged or no index$"):
        FlatIndex.load(file)


def test_files_that_are_no_binary_index(tmp_path):
    file = tmp_path / "i.faiss"
    file.write_text("an index\n" * 20)
    with pytest.raises(ValueError, match="which is damaged or no index"):
        FlatIndex.load(file)
    faiss.write_index(faiss.IndexFlatL2(8), str(file))
    with pytest.raises(ValueError, match="which is damaged or no index"):
        FlatIndex.load(file)
    with pytest.raises(ValueError, match=r"index is .*, and there is no such file"):
        FlatIndex.load(tmp_path / "no.faiss")
    with pytest.raises(ValueError, match=r"index is .*, which is a folder"):
        FlatIndex.load(tmp_path)


def test_ids_of_any_integer_type():
    codes = random_codes(3, 4, 0)
    for ids in ([5, 3, 9], np.array([5, 3, 9], np.uint16), np.array([5, 3, 9], np.uint64)):
        assert filled(codes, ids).search(codes, 1)[1][:, 0].tolist() == [5, 3, 9]
    index = filled(codes)
    index.add(codes[:0], [])
    assert len(index) == 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda i, c: FlatIndex(0), ValueError, "code_bytes is 0; it must be at least 1"),
        (lambda i, c: i.search(c, 0), ValueError, r"k is 0; it must be from 1 to the size of the index \(6\)"),
        (lambda i, c: i.search(c, 7), ValueError, r"k is 7; it must be from 1 to the size of the index \(6\)"),
        (lambda i, c: FlatIndex(4).search(c, 1), ValueError, r"k is 1; .*\(0\)"),
        (lambda i, c: i.search(c[:, :3], 1), ValueError, "codes has 3 bytes a row; the index holds codes of 4"),
        (lambda i, c: i.add(c[:, :3]), ValueError, "codes has 3 bytes a row; the index holds codes of 4"),
        (lambda i, c: i.add(c.astype(float)), TypeError, "codes holds float64; packed codes are uint8"),
        (lambda i, c: i.search(c[0], 1), ValueError, r"codes has shape \(4,\)"),
        (lambda i, c: i.add(c, np.arange(6) / 2), TypeError, "ids holds float64; it must hold integers"),
        (lambda i, c: i.add(c, np.arange(6) > 2), TypeError, "ids holds bool; it must hold integers"),
        (lambda i, c: i.add(c, list("abcdef")), TypeError, "ids holds <U1; it must hold integers"),
        (lambda i, c: i.add(c, [0, 7, 2, 3, 7, 5]), ValueError, "ids holds 7 twice; every code must have an id of its"),
        (
            lambda i, c: i.add(c, np.arange(6, dtype=np.uint64) + 2**63),
            ValueError,
            r"ids holds \d+; an id must be",
        ),
        (lambda i, c: i.add(c, np.arange(5)), ValueError, r"ids has shape \(5,\); it must be \[6\]"),
    ],
)
def test_bad_arguments(call, error, message):
    codes = random_codes(6, 4, 0)
    index = filled(codes)
    with pytest.raises(error, match=message):
        call(index, codes)
    assert len(index) == 6
