import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbhash import Hasher, bound, evaluate
from lbhash.codes import as_packed, check_codes, pack
from lbhash.data import check_embeddings
from lbhash.utils.labels import check_label_pair, check_labels, label_value, numbered_together, one_hot


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
@given(numbers=st.lists(st.integers(0, 1), min_size=1))
def test_any_number_type_holds_the_same_classes(dtype, numbers):
    checked = check_labels(np.array(numbers, dtype))
    assert checked.dtype == np.int64
    assert checked.tolist() == numbers


def test_a_comparison_gives_two_classes(blobs):
    codes = pack(blobs.x)
    for answers in (blobs.y > 2, (blobs.y > 2).tolist(), (blobs.y > 2).astype(object)):
        found = evaluate(codes, answers, codes, answers).as_dict()
        assert found == evaluate(codes, (blobs.y > 2).astype(int), codes, (blobs.y > 2).astype(int)).as_dict()
        assert bound(codes, answers).intra_per_class.shape == (2,)
    hasher = Hasher(bits=8, hidden=8, epochs=1).fit(blobs.x, blobs.y > 2)
    assert hasher.predict(blobs.x).dtype == bool
    assert hasher.score(blobs.x, blobs.y > 2) > 0


def test_masked_values_are_refused():
    """NumPy would drop the mask, and the values under it, often a mark such as -1 or 999, would count."""
    y, x = np.ma.masked_equal([0, 1, 9], 9), np.ma.masked_equal([[0.5, 1], [2, 999], [0, 1]], 999)
    hasher = Hasher(bits=8, hidden=0, epochs=1).fit([[0.0, 1], [1, 0], [1, 1]], [0, 1, 0])
    for name, row, call in [
        ("y", 2, lambda: check_labels(y, "y")),
        ("y", 2, lambda: hasher.fit(x.data, y)),
        ("y", 2, lambda: hasher.score(x.data, y)),
        ("X", 1, lambda: hasher.fit(x, y.data)),
        ("X", 1, lambda: hasher.encode(x)),
        ("X", 1, lambda: hasher.encode(list(x))),
        ("query_labels", 2, lambda: evaluate(np.zeros((3, 1), np.uint8), y, np.zeros((3, 1), np.uint8), y.data)),
        ("codes", 0, lambda: check_codes(np.ma.masked_equal(np.zeros((3, 1), np.uint8), 0))),
        ("codes", 1, lambda: as_packed(x)),
        ("signs", 1, lambda: pack(x)),
        ("embeddings", 1, lambda: check_embeddings(x)),
    ]:
        with pytest.raises(ValueError, match=rf"^{name} is masked in row {row}; leave such rows out, or fill them"):
            call()
    assert check_labels(np.ma.masked_equal([0, 1], 9)).tolist() == [0, 1]  # a masked array that masks nothing


def test_missing_values_of_pandas_are_refused():
    pandas = pytest.importorskip("pandas")
    for kind, values in [("Int64", [0, 1]), ("boolean", [False, True]), ("Float64", [0.0, 1.0])]:
        assert check_labels(pandas.Series(values, dtype=kind)).tolist() == [0, 1]
        with pytest.raises((TypeError, ValueError), match=r"^y is (NaN|<NA>) in row 1; "):
            check_labels(pandas.Series([values[0], None], dtype=kind), "y")


def test_pairs():
    left, right = check_label_pair([[0]], [[3], [1]])
    assert left.tolist() == [[1, 0, 0, 0]]  # the larger number of classes
    assert right.shape == (2, 4)
    with pytest.raises(ValueError, match=r"query_labels is single-label .* base_labels is multi-label"):
        check_label_pair([0, 1], [[0], [1]])
    with pytest.raises(ValueError, match="query_labels has 2 label columns and base_labels has 3"):
        check_label_pair(np.eye(2), np.eye(3))
    with pytest.raises(ValueError, match=r"^query_labels is missing in row 2; leave out the rows that have none$"):
        numbered_together(["cat", "dog", float("nan")], ["cat"])


@pytest.mark.parametrize(
    ("labels", "classes", "error", "message"),
    [
        ([0, 3, -1], None, ValueError, "y is -1 in row 2; class numbers must be at least 0"),
        ([0, 1.5], None, ValueError, "y is 1.5 in row 1"),
        ([0, np.nan], None, ValueError, "y is NaN in row 1"),
        (["cat", "dog"], None, TypeError, "y holds strings"),
        ([0, None], None, TypeError, r"y is missing \(None\) in row 1"),
        (None, None, TypeError, "missing"),
        ([1 + 2j], None, TypeError, "complex"),
        (np.array([0, 2**63], np.uint64), None, ValueError, r"below 2\*\*63"),
        ([0, 2**70], None, ValueError, "too large"),
        ([0, 3], 3, ValueError, "y is 3 in row 1; with classes 3 it must be below 3"),
        ([0, [1]], None, TypeError, "y is ragged: row 1"),
        ([np.array([1]), np.array([1, 2])], None, TypeError, "y is ragged"),
        ([[0], [[1]]], None, TypeError, r"y has \[1\] in row 1"),
        ([[0], [-1]], None, ValueError, "y has -1 in row 1"),
        ([[0], [1, 5]], 5, ValueError, "y is 5 in row 1; with classes 5"),
        ([[0, 1, 0], [1, 0, 0]], None, ValueError, "y names a class twice in row 0"),
        (np.array([[0, 1], [2, 0]]), None, ValueError, "y is 2 in row 1; a multi-hot array"),
        (np.array([[0, 0.5]]), None, ValueError, "y is 0.5 in row 0"),
        (np.array([[0, 1]]), 3, ValueError, "y has 2 columns; with classes 3"),
        (np.zeros((2, 2, 2)), None, ValueError, r"y has shape \(2, 2, 2\)"),
        (np.zeros((2, 0)), None, ValueError, r"y has shape \(2, 0\)"),
        (3, None, ValueError, r"y has shape \(\)"),
        ([0], 0, ValueError, "classes is 0; it must be at least 1"),
    ],
)
def test_errors_say_where_and_what(labels, classes, error, message):
    with pytest.raises(error, match=message) as caught:
        check_labels(labels, "y", classes)
    assert "\n" not in str(caught.value)


def test_numbers_of_a_file_are_checked_without_a_copy(tmp_path):
    np.save(tmp_path / "labels.npy", np.arange(400_000) % 7)
    labels = np.load(tmp_path / "labels.npy", mmap_mode="r")
    check_labels(labels[:10])
    tracemalloc.start()
    checked = check_labels(labels)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.shares_memory(checked, labels)
    assert most < 100_000


@pytest.mark.parametrize("kind", [np.int64, np.uint8, float, bool, object])
@pytest.mark.parametrize("numbers", [[0, 1, 1], [0, 2, 1], []])
def test_an_array_of_one_column_is_a_vector(numbers, kind):
    vector = np.array(numbers, kind)
    checked = check_labels(vector[:, None])
    assert checked.dtype == np.int64
    np.testing.assert_array_equal(checked, check_labels(vector))


def test_lists_of_one_class_have_two_columns():
    """Or a second look would take them for a column of class numbers."""
    assert check_labels([[0], []]).tolist() == [[1, 0], [0, 0]]


def test_a_column_of_negative_numbers_is_refused():
    with pytest.raises(ValueError, match="y is -1 in row 1; class numbers must be at least 0"):
        check_labels(np.array([[0], [-1]]), "y")


def test_other_forms():
    for numbers in ((0, 2, 1), np.array([0, 2, 1], np.uint64), [0.0, 2.0, 1.0], np.array([0, 2, 1], object)):
        assert check_labels(numbers, classes=np.int32(3)).tolist() == [0, 2, 1]
    for kind in (bool, np.float32):
        assert check_labels(np.array([[1, 0, 1], [0, 0, 0]], kind)).tolist() == [[1, 0, 1], [0, 0, 0]]
    assert check_labels([[0, 2], [], (1,), {2}]).tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert check_labels([[1], [0]], classes=4).shape == (2, 4)
    assert check_labels([]).shape == (0,)
    assert check_labels(np.zeros((0, 4))).shape == (0, 4)
    assert label_value(np.array([1, 0, 1], np.uint8)) == [0, 2]
    assert one_hot([1, 0], classes=3).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert one_hot([[1, 2]]).tolist() == [[0, 1, 1]]
    assert one_hot([]).shape == (0, 0)
