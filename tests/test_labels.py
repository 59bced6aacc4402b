import tracemalloc

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbhash import Hasher, bound, evaluate
from lbhash.codes import as_packed, pack
from lbhash.data import check_embeddings
from lbhash.utils.labels import check_label_pair, check_labels, label_value, one_hot, read_label_pair, read_labels


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
        ("y", 2, lambda: hasher.fit(x.data, y)),
        ("y", 2, lambda: hasher.score(x.data, y)),
        ("X", 1, lambda: hasher.fit(x, y.data)),
        ("X", 1, lambda: hasher.encode(x)),
        ("X", 1, lambda: hasher.encode(list(x))),
        ("query_labels", 2, lambda: evaluate(np.zeros((3, 1), np.uint8), y, np.zeros((3, 1), np.uint8), y.data)),
        ("codes", 1, lambda: as_packed(x)),
        ("signs", 1, lambda: pack(x)),
        ("embeddings", 1, lambda: check_embeddings(x)),
    ]:
        with pytest.raises(ValueError, match=rf"^{name} is masked in row {row}; leave such rows out, or fill them"):
            call()
    assert check_labels(np.ma.masked_equal([0, 1], 9)).tolist() == [0, 1]  # a masked array that masks nothing


def test_pairs():
    left, right = check_label_pair([[0]], [[3], [1]])
    assert left.tolist() == [[1, 0, 0, 0]]  # the larger number of classes
    assert right.shape == (2, 4)
    with pytest.raises(ValueError, match=r"query_labels is single-label .* base_labels is multi-label"):
        check_label_pair([0, 1], [[0], [1]])
    with pytest.raises(ValueError, match="query_labels has 2 label columns and base_labels has 3"):
        check_label_pair(np.eye(2), np.eye(3))
    with pytest.raises(ValueError, match=r"^query_labels are names, such as 'cat', and base_labels are numbers; both"):
        read_label_pair(["cat", "dog"], [-1, 1])
    query, base, _ = read_label_pair([5, -2], [-2, 0, 7])  # one of which has no negative number
    assert (query.tolist(), base.tolist()) == ([2, 0], [0, 1, 3])
    query, base, _ = read_label_pair([5, 7], [-2, 0, 7])
    assert (query.tolist(), base.tolist()) == ([2, 3], [0, 1, 3])


@pytest.mark.parametrize(
    ("labels", "classes", "error", "message"),
    [
        ([0, 3, -1], None, ValueError, "y is -1 in row 2; class numbers must be at least 0"),
        (np.array([[0], [-1]]), None, ValueError, "y is -1 in row 1; class numbers must be at least 0"),
        ([0, 1.5], None, ValueError, "y is 1.5 in row 1"),
        (["cat", "dog"], None, TypeError, "y holds text"),
        (pandas.Series([0, None], dtype="Int64"), None, ValueError, "y is missing in row 1"),
        (np.array([0, 2**63], np.uint64), None, ValueError, r"below 2\*\*63"),
        ([0, 3], 3, ValueError, "y is 3 in row 1; with classes 3 it must be below 3"),
        ([0, [1]], None, TypeError, "y is ragged: row 1"),
        ([[0], [[1]]], None, TypeError, r"y has \[1\] in row 1"),
        ([[0], [-1]], None, ValueError, "y has -1 in row 1"),
        ([[0], [1, 5]], 5, ValueError, "y is 5 in row 1; with classes 5"),
        ([[0, 1, 0], [1, 0, 0]], None, ValueError, "y names a class twice in row 0"),
        (np.array([[0, 1], [2, 0]]), None, ValueError, "y is 2 in row 1; a multi-hot array"),
        (np.array([[0, 1]]), 3, ValueError, "y has 2 columns; with classes 3"),
        (np.zeros((2, 0)), None, ValueError, r"y has shape \(2, 0\)"),
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


def test_other_forms():
    for numbers in ((0, 2, 1), np.array([0, 2, 1], np.uint64), [0.0, 2.0, 1.0], np.array([0, 2, 1], object)):
        assert check_labels(numbers, classes=np.int32(3)).tolist() == [0, 2, 1]
    for kind in (bool, np.float32):
        assert check_labels(np.array([[1, 0, 1], [0, 0, 0]], kind)).tolist() == [[1, 0, 1], [0, 0, 0]]
    assert check_labels([[0, 2], [], (1,), {2}]).tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert check_labels([[1], [0]], classes=4).shape == (2, 4)
    assert check_labels([[0], []]).tolist() == [[1, 0], [0, 0]]  # a second look takes no column for class numbers
    assert check_labels([]).shape == (0,)
    assert check_labels(np.zeros((0, 4))).shape == (0, 4)
    assert label_value(np.array([1, 0, 1], np.uint8)) == [0, 2]
    assert one_hot([1, 0], classes=3).tolist() == [[0, 1, 0], [1, 0, 0]]
    assert one_hot([[1, 2]]).tolist() == [[0, 1, 1]]
    assert one_hot([]).shape == (0, 0)


def pandas_column(kind, change=lambda values: values):
    return lambda numbers: pandas.Series(change(numbers), dtype=kind)


def polars_column(kind):
    return lambda numbers: polars.Series(texts(numbers), dtype=kind)


def texts(numbers):
    return [None if one is None else f"class {one}" for one in numbers]


FORMS = {
    "a list": lambda numbers: numbers,
    "negative numbers": lambda numbers: [None if one is None else one - 2 for one in numbers],
    "±1": lambda numbers: [None if one is None else 2 * (one > 0) - 1 for one in numbers],
    "texts": texts,
    "an object array": lambda numbers: np.array(texts(numbers), object),
    "bytes": lambda numbers: [None if one is None else one.encode() for one in texts(numbers)],
    "floats": lambda numbers: np.array([np.nan if one is None else one for one in numbers]),
    "a column": lambda numbers: np.array(texts(numbers), object)[:, None],
    "pandas Int64": pandas_column("Int64"),
    "pandas Int8, negative": pandas_column("Int8", lambda numbers: [None if one is None else -one for one in numbers]),
    "pandas string": pandas_column("string", texts),
    "pandas category": pandas_column("category", texts),
    "pandas category of numbers": pandas_column("category"),
    "pandas object": pandas_column(object),
    "polars": polars.Series,
    "polars strings": polars_column(polars.String),
    "polars categories": polars_column(polars.Categorical),
    "arrow": lambda numbers: pa.chunked_array([texts(numbers[:3]), texts(numbers[3:])], pa.string()),
    "arrow numbers": lambda numbers: pa.array(numbers, pa.int16()),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("missing", [False, True])
def test_labels_of_any_form_are_those_numbers_in_all_of_python(blobs, form, missing, capsys):
    """``fit``, ``score``, ``evaluate`` and ``bound`` read them alike, and leave out rows without one."""
    y, asked = blobs.y.tolist(), blobs.query_y.tolist()
    if form == "±1":
        y, asked = ([int(one > 1) for one in labels] for labels in (y, asked))
    known, wanted = np.ones(160, bool), np.ones(40, bool)
    if missing:
        known[[0, 5]] = wanted[3] = False
    given_y = FORMS[form]([one if there else None for one, there in zip(y, known, strict=True)])
    given_asked = FORMS[form]([one if there else None for one, there in zip(asked, wanted, strict=True)])
    codes, queries = pack(blobs.x), pack(blobs.query_x)
    plain = np.array(y)[known], np.array(asked)[wanted]
    oracle = evaluate(queries[wanted], plain[1], codes[known], plain[0])
    assert evaluate(queries, given_asked, codes, given_y).map == oracle.map
    said = capsys.readouterr().err
    assert ("1 of 40 query_codes have no label and are left out\n2 of 160 base_codes" in said) == missing
    assert bound(codes, given_y).ratio == bound(codes[known], plain[0]).ratio
    hasher = Hasher(method="itq", bits=8).fit(blobs.x, given_y)
    np.testing.assert_array_equal(hasher.train_labels_ >= 0, known)
    oracle = evaluate(hasher.encode(blobs.query_x[wanted]), plain[1], hasher.train_codes_[known], plain[0]).map
    assert hasher.score(blobs.query_x, given_asked) == oracle


def test_lists_of_names_in_all_of_python(blobs):
    codes, queries = pack(blobs.x), pack(blobs.query_x)
    names = [["even" if one % 2 == 0 else "odd", f"class {one}"] for one in blobs.y.tolist()]
    asked = [["even" if one % 2 == 0 else "odd"] for one in blobs.query_y.tolist()]  # without some of the names
    hot, hot_asked = (
        np.array([[f"class {at}" in row for at in range(4)] + ["even" in row, "odd" in row] for row in rows])
        for rows in (names, asked)
    )
    assert evaluate(queries, asked, codes, names).map == evaluate(queries, hot_asked, codes, hot).map
    for column in (pandas.Series(names), polars.Series(names), pa.array(names)):
        np.testing.assert_array_equal(read_labels(column)[0], hot)
    hasher = Hasher(method="itq", bits=8).fit(blobs.x, names)
    assert hasher.classes_.tolist() == ["class 0", "class 1", "class 2", "class 3", "even", "odd"]
    np.testing.assert_array_equal(hasher.train_labels_, hot)
    assert hasher.score(blobs.query_x, asked) == hasher.score(blobs.query_x, hot_asked)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (["a", 1, None], r"^y holds labels of several kinds \(int, str\); give all as text, or all as numbers$"),
        ([["a"], [1]], r"^y holds labels of several kinds \(int, str\)"),
        ([0, 0.5, None], r"^y is 0.5 in row 1; it must hold classes, and no measurements$"),
        ([None, None, 0.5], r"^y is 0.5 in row 2; "),
        ([0, {}], r"^y is {} in row 1; it must be class numbers or names"),
        (np.array(["2020-01-01"], "M8[D]"), r"^y holds datetime64\[D\]; it must be class numbers or names"),
        ("abc", r"^y is 'abc'; it must be class numbers or names"),
        (None, r"^y is None; "),
        (np.zeros((2, 2, 2)), r"^y has shape \(2, 2, 2\); "),
    ],
)
def test_what_are_no_labels(labels, said):
    with pytest.raises((TypeError, ValueError), match=said):
        read_labels(labels, "y")
