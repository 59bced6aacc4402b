import tracemalloc
from decimal import Decimal

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from hypothesis import given
from hypothesis import strategies as st

from lbhash import Hasher, TrainingArguments, evaluate
from lbhash.codes import as_packed, pack
from lbhash.codes.io import CodeTable, read_codes, write_codes
from lbhash.data import load_table
from lbhash.data.readers import check_embeddings
from lbhash.evaluation import bound
from lbhash.evaluation.recognition import knn_predict, linear_probe_predict
from lbhash.evaluation.report import evaluate_parts
from lbhash.index.factory import build_index
from lbhash.utils.labels import Labels, check_numbers, class_array, in_one_order, label_value, one_hot, read_labels

LARGE = 2**53  # from which on float64 does not hold every whole number


def values_of(labels):
    """What each row has, as the user gave it: a class, None, or a sorted list."""
    return [label_value(row, labels.classes) for row in labels.numbers]


# ------------------------------------------------------------------------------------------------- against an oracle


def is_missing(one):
    return one is None or one == "" or one != one


@st.composite
def single(draw):
    """Labels of one kind, some missing, and a form that holds them."""
    kind = draw(st.sampled_from(["integers", "text", "Booleans"]))
    of_kind = {
        "integers": st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 3) | st.integers(LARGE - 1, LARGE + 2),
        "text": st.text(max_size=3) | st.sampled_from(["[x]", "1e5", "100000", "nan", "None", "true", "-1", "é"]),
        "Booleans": st.booleans(),
    }[kind]
    missing = st.sampled_from([None, float("nan"), pandas.NA, np.float32("nan")])
    labels = draw(st.lists(of_kind | missing if draw(st.booleans()) else of_kind, max_size=8))
    plain = [None if one is pandas.NA or is_missing(one) else one for one in labels]
    arrow = {"integers": pa.int64(), "text": pa.string(), "Booleans": pa.bool_()}[kind]
    column = pa.array(plain, arrow)
    cut = draw(st.integers(0, len(plain)))
    chunks = [column[:cut], column[cut:]]
    forms = {
        "list": lambda: labels,
        "tuple": lambda: tuple(labels),
        "objects": lambda: np.array([*labels, None], object)[:-1],
        "one column": lambda: np.array([*labels, None], object)[:-1, None],
        "pandas": lambda: pandas.Series(labels, dtype=object),
        "category": lambda: pandas.Series(plain, dtype="category"),
        "polars": lambda: polars.Series(plain, dtype=polars.from_arrow(column).dtype),
        "frame": lambda: polars.DataFrame({"label": polars.Series(plain, dtype=polars.from_arrow(column).dtype)}),
        "arrow": lambda: column,
        "chunks": lambda: pa.chunked_array(chunks, arrow),
        "dictionaries": lambda: pa.chunked_array([one.dictionary_encode() for one in chunks]),
        "runs": lambda: pa.RunEndEncodedArray.from_arrays(pa.array(range(1, len(plain) + 1), pa.int32()), column),
        "views": lambda: column.cast(pa.string_view()) if kind == "text" else column,
        "null values": lambda: pa.DictionaryArray.from_arrays(pa.array(range(len(plain)), pa.int16()), column),
    }
    return plain, forms[draw(st.sampled_from(sorted(forms)))]()


@given(drawn=single())
def test_labels_are_those_of_a_list_of_python(drawn):
    plain, form = drawn
    found = read_labels(form, "y")
    assert values_of(found) == plain
    assert list(found.classes) == sorted({one for one in plain if one is not None})
    assert [type(one) for one in values_of(found)] == [type(one) for one in plain]
    assert found.known.tolist() == [one is not None for one in plain]
    assert found.numbers.dtype == np.int64


@given(
    rows=st.lists(st.sets(st.integers(-3, 3), max_size=4)) | st.lists(st.sets(st.text(min_size=1, max_size=2))),
    form=st.sampled_from(["lists", "sets", "tuples", "arrow", "large", "views", "pandas", "polars", "dictionaries"]),
)
def test_several_labels_a_row_are_those_of_lists_of_python(rows, form):
    lists = [list(row) for row in rows]
    column = pa.array(
        lists, pa.list_(pa.string() if any(isinstance(one, str) for row in rows for one in row) else pa.int64())
    )
    forms = {
        "lists": lambda: lists,
        "sets": lambda: rows,
        "tuples": lambda: [tuple(row) for row in rows],
        "arrow": lambda: column,
        "large": lambda: column.cast(pa.large_list(column.type.value_type)),
        "views": lambda: pa.array(lists, pa.list_view(column.type.value_type)),
        "pandas": lambda: pandas.Series(lists, dtype=object),
        "polars": lambda: polars.from_arrow(column),
        "dictionaries": lambda: pa.ListArray.from_arrays(column.offsets, column.values.dictionary_encode()),
    }
    if not rows:
        return
    found = read_labels(forms[form](), "y")
    classes = sorted({one for row in rows for one in row})
    assert list(found.classes) == classes
    assert found.numbers.tolist() == [[int(one in row) for one in classes] for row in rows]
    assert found.known.all()


@pytest.mark.parametrize("kind", ["?", "i1", "u1", "i2", ">i4", "u4", "i8", "u8", "f2", "f4", "f8"])
@given(numbers=st.lists(st.integers(0, 1), min_size=1))
def test_any_number_type_holds_the_same_classes(kind, numbers):
    found = read_labels(np.array(numbers, kind))
    assert values_of(found) == numbers


@pytest.mark.parametrize(
    "matrix",
    [
        lambda hot: hot,
        lambda hot: hot.astype(np.float16),
        lambda hot: hot.astype(object),
        lambda hot: list(hot),
        lambda hot: (hot > 0).tolist(),
        lambda hot: torch.from_numpy(hot),
        lambda hot: torch.from_numpy(hot).bfloat16(),
        lambda hot: pandas.DataFrame(hot),
        lambda hot: polars.DataFrame(hot),
        lambda hot: scipy.sparse.csr_matrix(hot),
        lambda hot: scipy.sparse.coo_array(hot),
        lambda hot: pa.FixedSizeListArray.from_arrays(pa.array(hot.ravel()), 3),
        lambda hot: pa.FixedShapeTensorArray.from_numpy_ndarray(hot),
        lambda hot: polars.Series(hot.tolist(), dtype=polars.Array(polars.UInt8, 3)),
        lambda hot: pa.array((hot > 0).tolist()),
    ],
)
def test_a_matrix_of_zero_and_one_has_a_class_for_each_column(matrix):
    hot = np.array([[1, 0, 1], [0, 0, 0]], np.uint8)
    found = read_labels(matrix(hot))
    np.testing.assert_array_equal(found.numbers, hot)
    assert (found.numbers.dtype, found.classes) == (np.uint8, range(3))


# ------------------------------------------------------------------------------------------------ kinds of faults


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ([LARGE, LARGE + 1, None], [LARGE, LARGE + 1, None]),
        ([LARGE, float("nan"), LARGE + 1], [LARGE, None, LARGE + 1]),
        ([-LARGE, -LARGE - 1, None], [-LARGE, -LARGE - 1, None]),
        (pandas.Series([LARGE, LARGE + 1, None], dtype="Int64"), [LARGE, LARGE + 1, None]),
        (pandas.DataFrame({"y": pandas.Series([LARGE, LARGE + 1, None], dtype="Int64")}), [LARGE, LARGE + 1, None]),
        (polars.Series([LARGE, LARGE + 1, None]), [LARGE, LARGE + 1, None]),
        (np.array([2**63, 1], np.uint64), [2**63, 1]),
        ([2**64 - 1, 2**63], [2**64 - 1, 2**63]),
        (pa.array([2**63 + 1, 2**63, None], pa.uint64()), [2**63 + 1, 2**63, None]),
        ([Decimal(LARGE + 1), Decimal(LARGE), None], [LARGE + 1, LARGE, None]),
        (pa.array([[LARGE + 1], [LARGE]]), [[LARGE + 1], [LARGE]]),
        (pa.array([Decimal("3.0"), None]), [3, None]),
        ([True, None, False], [True, None, False]),
        (pa.array([1.0, None, float("nan")]), [1, None, None]),
        (torch.tensor([1.0, 3.0]).bfloat16(), [1, 3]),
        ([torch.tensor(4), torch.tensor(2)], [4, 2]),
        (["a", np.nan, "b"], ["a", None, "b"]),
        (np.array([b"a", b""]), ["a", None]),
        (pa.array([b"ab", None], pa.binary(2)), ["ab", None]),
        (["1e5", "100000", "00123", "123"], ["1e5", "100000", "00123", "123"]),
        ([[], ["x"]], [[], ["x"]]),
        (range(3), [0, 1, 2]),
        ((one for one in "ab"), ["a", "b"]),
        (pa.nulls(2), [None, None]),
        ([], []),
    ],
)
def test_no_label_is_merged_lost_or_made(given, values):
    assert values_of(read_labels(given, "y")) == values


@pytest.mark.parametrize("suffix", ["npz", "parquet"])
@pytest.mark.parametrize("values", [[LARGE, LARGE + 1, None], [True, None, False], ["[x]", "b", None], [2**63, 1, 1]])
def test_codes_on_disk_keep_every_label(tmp_path, suffix, values):
    labels, file = read_labels(values, "y"), tmp_path / f"codes.{suffix}"
    codes = np.arange(3, dtype=np.uint8)[:, None]
    table = CodeTable(codes, 8, np.arange(3), labels.numbers, class_names=labels.classes)
    write_codes(file, table)
    found = read_codes(file)
    assert values_of(Labels(found.labels, found.class_names)) == values
    index = build_index(found, tmp_path / "index")
    assert index.metadata_of([0, 1, 2])["label"].to_pylist() == values
    lists = CodeTable(
        codes, 8, np.arange(3), labels.numbers[:, None] == range(len(labels.classes)), class_names=labels.classes
    )
    write_codes(file, lists)
    found = read_codes(file)
    assert values_of(Labels(found.labels, found.class_names)) == [[] if one is None else [one] for one in values]


def test_class_numbers_of_codes_may_have_gaps(tmp_path):
    for suffix in ("npz", "parquet"):
        write_codes(
            tmp_path / f"a.{suffix}",
            CodeTable(np.zeros((2, 1), np.uint8), 8, np.arange(2), np.array([LARGE + 1, LARGE])),
        )
        found = read_codes(tmp_path / f"a.{suffix}")
        assert [found.class_names[one] for one in found.labels] == [LARGE + 1, LARGE]


@pytest.mark.parametrize("kind", [pa.bool_(), pa.float64(), pa.int8(), pa.decimal128(20, 1)])
def test_numbers_of_a_table_are_classes_whatever_their_type(tmp_path, kind):
    import pyarrow.parquet as pq

    column = pa.array([1, 0, 1, None]).cast(pa.int64()).cast(kind)
    pq.write_table(pa.table({"embedding": [[0.0, 1.0]] * 4, "label": column}), tmp_path / "a.parquet")
    table = load_table(tmp_path / "a.parquet")
    assert values_of(Labels(table.labels, table.class_names)) == [1, 0, 1, None]


def with_names(names, labels, file):
    import json

    import pyarrow.parquet as pq

    about = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
    table = pa.table({"embedding": [[0.0, 1.0]] * len(labels), "label": labels})
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(about)}), file)
    return file


def test_names_in_the_metadata_are_those_of_the_numbers(tmp_path):
    table = load_table(with_names(["a", "b", "c"], [2, -1, 0, None], tmp_path / "a.parquet"))
    assert (table.labels.tolist(), table.class_names) == ([2, -1, 0, -1], ("a", "b", "c"))
    for wrong in (3, -2):
        with pytest.raises(
            ValueError, match=rf"column 'label' of data has the class {wrong}, and names for 3 classes; it must"
        ):
            load_table(with_names(["a", "b", "c"], [0, wrong], tmp_path / "b.parquet"))


@pytest.mark.parametrize("labels", [["[x]"] * 4, [["[x]"]] * 4, [["a"]] * 4, pa.array([["[x]"]] * 4)])
def test_one_class_name_is_evaluated(labels):
    codes = pack(2 * np.eye(4) - 1)
    found = evaluate(codes, labels, codes, labels)
    assert (found.map, len(found.by_class.label)) == (1, 1)


def test_a_long_label_makes_no_other_as_long(blobs):
    names = np.array(["a", "b", "c", "x" * 300_000], object)
    labels = names[blobs.y]
    tracemalloc.start()
    hasher = Hasher(method="itq", bits=8).fit(blobs.x, labels)
    assert (hasher.predict(blobs.x) == labels).mean() > 0.3
    assert hasher.score(blobs.x, labels) > 0.4
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 40e6  # as an array of text, 160 labels take 192 MB


def test_labels_are_read_alike_wherever_they_are_given(blobs):
    """Lists of names that differ by part; and votes, which return the classes as they were given."""
    codes, names = pack(blobs.x), np.array(["d", "a", "c", "b"])[blobs.y]
    lists = [[one] for one in names]
    parts = [(codes[:80], lists[:80]), (codes[80:], [[*row, "e"] for row in lists[80:]])]
    found = evaluate_parts(codes, lists, parts)
    hot = [[*row, "e"] if at >= 80 else row for at, row in enumerate(lists)]
    assert found.as_dict() == evaluate(codes, lists, codes, hot).as_dict()
    numbers = knn_predict(codes, codes, blobs.y, 5)
    first = np.array([0, 1, 2, 3]) * 2 + 1  # any other numbers in the same order
    np.testing.assert_array_equal(knn_predict(codes, codes, first[blobs.y], 5), first[numbers])
    assert set(knn_predict(codes, codes, names, 5)) <= set(names)
    assert set(linear_probe_predict(codes, codes, list(names))) <= set(names)


def test_numbers_of_the_bound_are_rows(blobs):
    found = bound(pack([[1, 1], [-1, -1], [-1, 1]]), [0, 3, 3], bits=2)
    assert found.present.tolist() == [True, False, False, True]
    assert bound(pack([[1, 1], [-1, -1]]), ["x", "y"], bits=2).present.tolist() == [True, True]
    assert bound(pack([[1, 1], [-1, -1]]), [-1, 1], bits=2).present.tolist() == [True, True]


def test_a_comparison_gives_two_classes(blobs):
    codes = pack(blobs.x)
    for answers in (blobs.y > 2, (blobs.y > 2).tolist(), (blobs.y > 2).astype(object)):
        found = evaluate(codes, answers, codes, answers).as_dict()
        assert found == evaluate(codes, (blobs.y > 2).astype(int), codes, (blobs.y > 2).astype(int)).as_dict()
        assert bound(codes, answers).intra_per_class.shape == (2,)
    hasher = Hasher(bits=8, epochs=1, training=TrainingArguments(hidden=8)).fit(blobs.x, blobs.y > 2)
    assert hasher.predict(blobs.x).dtype == bool
    assert hasher.score(blobs.x, blobs.y > 2) > 0


def test_masked_values_are_refused():
    """NumPy would drop the mask, and the values under it, often a mark such as -1 or 999, would count."""
    y, x = np.ma.masked_equal([0, 1, 9], 9), np.ma.masked_equal([[0.5, 1], [2, 999], [0, 1]], 999)
    hasher = Hasher(bits=8, epochs=1, training=TrainingArguments(hidden=0)).fit([[0.0, 1], [1, 0], [1, 1]], [0, 1, 0])
    for name, row, call in [
        ("y", 2, lambda: hasher.fit(x.data, y)),
        ("y", 2, lambda: hasher.score(x.data, y)),
        ("X", 1, lambda: hasher.fit(x, y.data)),
        ("X", 1, lambda: hasher.encode(x)),
        ("X", 1, lambda: hasher.encode(list(x))),
        ("query_labels", 2, lambda: evaluate(np.zeros((3, 1), np.uint8), y, np.zeros((3, 1), np.uint8), y.data)),
        ("codes", 1, lambda: as_packed(x)),
        ("values", 1, lambda: pack(x)),
        ("embeddings", 1, lambda: check_embeddings(x)),
    ]:
        with pytest.raises(ValueError, match=rf"^{name} is masked in row {row}; leave such rows out, or fill them"):
            call()
    assert read_labels(np.ma.masked_equal([0, 1], 9)).numbers.tolist() == [0, 1]  # a masked array that masks nothing


def test_labels_that_are_compared_get_one_order():
    def order(left, right):
        one, other = in_one_order({"query_labels": read_labels(left), "base_labels": read_labels(right)})
        assert one.classes == other.classes
        return one.numbers.tolist(), other.numbers.tolist(), list(one.classes)

    assert order([5, -2], [-2, 0, 7]) == ([2, 0], [0, 1, 3], [-2, 0, 5, 7])
    assert order(["dog", None], ["cat", "dog"]) == ([1, -1], [0, 1], ["cat", "dog"])
    assert order([[0]], [[3], [1]]) == ([[1, 0, 0]], [[0, 0, 1], [0, 1, 0]], [0, 1, 3])
    assert order([[1]], np.eye(2)) == ([[0, 1]], [[1, 0], [0, 1]], [0, 1])
    assert order([True], [0, 1]) == ([1], [0, 1], [0, 1])
    assert order([None], ["a"]) == ([-1], [0], ["a"])
    for left, right, said in (
        ([0, 1], [[0], [1]], "base_labels has several labels a row, and query_labels has one"),
        (np.eye(2), np.eye(3), "query_labels has 2 columns of labels, and base_labels has 3"),
        (["cat"], [-1, 1], "the labels of query_labels are text, such as 'cat', and those of base_labels are numbers"),
    ):
        with pytest.raises(ValueError, match=f"^query_labels and base_labels must be alike: {said}$"):
            order(left, right)


@pytest.mark.parametrize(
    ("labels", "error", "said"),
    [
        ("abc", TypeError, "y is 'abc'; it must be class numbers or names"),
        (None, TypeError, "y is None; "),
        ({"a": 1}, TypeError, "y is {'a': 1}; "),
        (np.array(3), ValueError, r"y has shape \(\); "),
        (np.zeros((2, 2, 2)), ValueError, r"y has shape \(2, 2, 2\); "),
        (np.zeros((2, 0)), ValueError, r"y has shape \(2, 0\)"),
        (
            ["a", 1, None],
            TypeError,
            r"y holds labels of several kinds \(int, str\); give all as text, or all as numbers$",
        ),
        ([["a"], [1]], TypeError, r"y holds labels of several kinds \(int, str\)"),
        ([0, [1]], TypeError, r"y holds labels of several kinds \(int, list\)"),
        ([0, {}], TypeError, r"y holds labels of several kinds \(dict, int\)"),
        ([[0], [[1]]], TypeError, r"y holds labels of several kinds \(int, list\)"),
        (pa.array([[[1]]]), TypeError, "y holds list<"),
        (pa.array([{"a": 1}]), TypeError, "y holds struct<"),
        (np.array(["2020-01-01"], "M8[D]"), TypeError, r"y holds date32\[day\]; it must be class numbers or names"),
        ([2**70], TypeError, "y must be class numbers"),
        ([b"\xff"], ValueError, "y holds bytes that are not UTF-8 text"),
        ([0, 0.5, None], ValueError, "y is 0.5 in row 1; it must hold classes, not continuous values$"),
        ([None, None, 0.5], ValueError, "y is 0.5 in row 2; "),
        (np.array([[0.0], [np.inf]]), ValueError, "y is inf in row 1; "),
        ([[1.0], [2.5]], ValueError, "y is 2.5 in row 1; "),
        ([float(LARGE)], ValueError, r"y is 9007199254740992.0 in row 0; from 9007199254740992 on give integers"),
        (np.array([1, 2**24], np.float32), ValueError, "y is 16777216.0 in row 1; from 16777216 on give integers"),
        (np.array([[0, 1], [2, 0]]), ValueError, "y is 2 in row 1; a matrix"),
        (np.array([["a", "b"]]), TypeError, "y holds text; "),
        ([["x"], None], ValueError, "y is missing in row 1; among lists, a row without a label is an empty list"),
        ([["x"], ["y", None]], ValueError, "y has a missing label in the list of row 1; leave it out"),
        (
            [[0, 1, 0], [1, 0, 0]],
            ValueError,
            "y names a class twice in row 0; if it is a matrix of 0 and 1, give it as",
        ),
    ],
)
def test_errors_say_where_and_what(labels, error, said):
    with pytest.raises(error, match=f"^{said}") as caught:
        read_labels(labels, "y")
    assert "\n" not in str(caught.value)


def test_forms_within_the_library():
    assert check_numbers([0, 2], 3).tolist() == [0, 2]
    assert check_numbers(np.eye(2), 2).dtype == np.uint8
    for wrong in ([0, 3], [-1], np.eye(2), [0.5], ["a"]):
        with pytest.raises(ValueError, match=r"^y "):
            check_numbers(wrong, 3, "y")
    assert class_array([2**63, 1]).dtype == np.uint64
    assert [class_array(one).dtype.kind for one in ([1], ["a"], [True], [])] == ["i", "O", "b", "i"]
    assert label_value(np.array([1, 0, 1], np.uint8), "abc") == ["a", "c"]
    assert one_hot(np.array([1, 0]), 3).tolist() == [[0, 1, 0], [1, 0, 0]]


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
    rows, outputs = hasher.train_codes_[known], hasher.outputs(blobs.query_x[wanted])
    oracle = evaluate(hasher.encode(blobs.query_x[wanted]), plain[1], rows, plain[0], query_outputs=outputs).map
    assert hasher.score(blobs.query_x, given_asked) == pytest.approx(oracle)


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
        np.testing.assert_array_equal(read_labels(column).numbers, hot)
    hasher = Hasher(method="itq", bits=8).fit(blobs.x, names)
    assert hasher.classes_.tolist() == ["class 0", "class 1", "class 2", "class 3", "even", "odd"]
    np.testing.assert_array_equal(hasher.train_labels_, hot)
    assert hasher.score(blobs.query_x, asked) == hasher.score(blobs.query_x, hot_asked)
