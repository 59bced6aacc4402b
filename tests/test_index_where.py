"""Filters: what a text means, against a loop over the rows, and what is refused."""

from __future__ import annotations

import operator
import random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.filters import tried

from lbhash.index import Index
from lbhash.index.where import Either, conditions

CODE = np.zeros((1, 1), np.uint8)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("price < 20", [("price", "<", ["20"])]),
        ("20<=price<50", [("price", ">=", ["20"]), ("price", "<", ["50"])]),
        ("50 > price >= -2e1", [("price", "<", ["50"]), ("price", ">=", ["-2e1"])]),
        ("color in (red, 'dark, blue',a b)", [("color", "in", ["red", "dark, blue", "a b"])]),
        ("color NOT  IN(red)", [("color", "not in", ["red"])]),
        ("size = 'null' and b = null island", [("size", "in", ["null"]), ("b", "in", ["null island"])]),
        ("size is null AND size IS NOT NULL", [("size", "is null", []), ("size", "is not null", [])]),
        ("label=Shoes, size != 3", [("label", "in", ["Shoes"]), ("size", "not in", ["3"])]),
        ('label="Shoes, size 3"', [("label", "in", ["Shoes, size 3"])]),
        ("a title == made in China!", [("a title", "in", ["made in China!"])]),
        ("\"a 'b\" = 'it''s' and x = don't", [("a 'b", "in", ["it's"]), ("x", "in", ["don't"])]),
        ("isnull = android, day >= 2024-01-31", [("isnull", "in", ["android"]), ("day", ">=", ["2024-01-31"])]),
        ("price between 20 and 50", [("price", ">=", ["20"]), ("price", "<=", ["50"])]),
        (
            "a <> b and (c like %x_ and d Not  Like 'y')",
            [("a", "not in", ["b"]), ("c", "like", ["%x_"]), ("d", "not like", ["y"])],
        ),
        ({"a": 1, "b": np.array([2, 3])}, [("a", "in", [1]), ("b", "in", [2, 3])]),
        (None, []),
    ],
)
def test_what_a_filter_means(text, meant):
    assert [(name, how, list(values)) for name, how, values in conditions(text)] == meant


def test_or_and_parentheses():
    a, b, c, d = (conditions(f"{name} = 1")[0] for name in "abcd")
    assert conditions("a=1 or b=1 and c=1, d=1") == [Either([[a], [b, c, d]])]
    assert conditions("(a=1 or(b=1))and c=1 and(d=1)") == [Either([[a], [b]]), c, d]
    assert conditions("a=1 and (b=1 or (c=1 and (d=1 or a=1)))") == [a, Either([[b], [c, Either([[d], [a]])]])]
    assert conditions(f"{'(' * 16}a=1{')' * 16}") == [a]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "a = b or",
            "or a = b",
            "(a = b",
            "a = b)",
            "()",
            "a = b (c = d)",
            "not (a = b)",
            "a between 1, 2",
            "a between 1",
        ),
        *("a in (b or c)", "a like", "a = I like it", f"{'(' * 17}a=1{')' * 17}", "(" * 5000),
        *("", "label", "label=", "label=3,5", "label=Shoes, size 3", "a = salt and pepper", "a=1,", "a = b = c", "and"),
        *(
            "a = null",
            "a in (b, NULL)",
            "1 < a > 2",
            "a in ()",
            "a in (b",
            "a = (b)",
            "a = 'b",
            "a ! b",
            "'a' b = 1",
            "is null",
            "a < > b",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(text):
    with pytest.raises(ValueError, match=r"^where is .*; it must be conditions such as price < 20, 20 <= price < 50, "):
        conditions(text)


NUMBERS, WORDS = (
    st.integers(-3, 3),
    st.sampled_from(["red", "a, b", "x and y", "it's", 'say "so"', "null", "3 < 4", ""]),
)
COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.none() | NUMBERS, st.none() | WORDS, st.none() | st.lists(NUMBERS, max_size=2)), min_size=1
    ),
    number=NUMBERS,
    other=NUMBERS,
    words=st.lists(WORDS, min_size=1, max_size=2),
    sign=st.sampled_from(sorted(COMPARED)),
    quote=st.sampled_from("\"'"),
)
def test_a_text_keeps_what_a_loop_keeps(rows, number, other, words, sign, quote):
    numbers, names, lists = (list(column) for column in zip(*rows, strict=True))
    columns = {"n": pa.array(numbers, pa.int64()), "w": names, "l": pa.array(lists, pa.list_(pa.int64()))}
    index = Index(8)
    index.add(np.zeros((len(rows), 1), np.uint8), None, pa.table({**columns, "w": pa.array(names, pa.string())}))
    quoted = [quote + word.replace(quote, 2 * quote) + quote for word in words]
    compare = COMPARED[sign]
    for text, passes in (
        (f"n {sign} {number}", lambda n, w, many: n is not None and compare(n, number)),
        (f"{number}<n <={other}", lambda n, w, many: n is not None and number < n <= other),
        (f"n != {number}", lambda n, w, many: n is not None and n != number),
        (f"w in ({', '.join(quoted)})", lambda n, w, many: w in words),
        (f"w not in ({', '.join(quoted)})", lambda n, w, many: w is not None and w not in words),
        (f"w >= {quoted[0]}", lambda n, w, many: w is not None and w >= words[0]),
        (f"l {sign} {number}", lambda n, w, many: any(compare(one, number) for one in many or ())),
        (f"l != {number}", lambda n, w, many: many is not None and number not in many),
        ("n is null and l is not null", lambda n, w, many: n is None and many is not None),
    ):
        kept = [row for row, cells in enumerate(rows) if passes(*cells)]
        assert index.search(CODE, len(rows), where=text).ids.tolist() == [kept], text
        assert index.range_search(CODE, 0, where=text).ids.tolist() == kept


def test_columns_of_all_types_are_filtered_as_python_compares_them():
    """The attack ``filters``, which goes on for minutes, for some seconds."""
    ended = [tried(random.Random(f"columns {number}")) for number in range(600)]
    assert [what for outcome, what in ended if outcome not in ("survived", "refused")] == []
    assert sum(outcome == "survived" for outcome, _ in ended) > 200


def test_values_are_compared_and_not_their_bits():
    columns = {
        "c": [0.0, -0.0, 1.0, None, float("nan")],
        "flag": [True, False, None, True, False],
        "u": pa.array([2**64 - 1, 0, None, 1, 2], pa.uint64()),
        "l": [[1, None], None, [2], [], [3]],
        "d": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None, 0]), pa.array(["x", None])),
    }
    index = Index(8)
    index.add(np.zeros((5, 1), np.uint8), None, columns)
    for where, rows in (
        ("c = 0", [0, 1]),
        ("c != 0", [2, 4]),
        ({"c": float("nan")}, [4]),
        ("c < 5", [0, 1, 2]),
        ({"flag": True}, [0, 3]),
        ({"u": 2**64 - 1}, [0]),
        ("u = 18446744073709551615 or flag = false and c > 0", [0]),
        ("d is null", [1, 3]),
        ("d like X or d like '_'", [0, 2, 4]),
        ("l = 1 or (c is null and l is not null)", [0, 3]),
    ):
        assert index.search(CODE, 5, where=where).ids.tolist() == [rows], where
    for where, said in (
        ({"flag": 2}, r"where wants 'flag' to be 2; the column holds bool$"),
        ({"u": True}, r"where wants 'u' to be True; the column holds uint64$"),
        ({"u": 0.5}, r"where wants 'u' to be 0.5; the column holds uint64$"),
        ({"l": None}, r"where wants 'l' to be None; the column holds int64; a text may say 'is null'$"),
        ("c like 1%", r"where wants 'c' to be like '1%'; the column holds double$"),
    ):
        with pytest.raises(ValueError, match=said):
            index.search(CODE, 5, where=where)


def test_a_backslash_in_a_pattern_is_a_character():
    index = Index(8)
    index.add(np.zeros((4, 1), np.uint8), None, {"path": ["C:\\dir", "C:%", "ab", "a\\b"]})
    for pattern, rows in (("C:\\%", [0]), ("C:%", [0, 1]), ("a\\b", [3]), ("_\\_", [3]), ("%\\\\%", [])):
        assert index.search(CODE, 4, where=f"path like '{pattern}'").ids.tolist() == [rows], pattern
        others = sorted(set(range(4)) - set(rows))
        assert index.search(CODE, 4, where=f"path not like '{pattern}'").ids.tolist() == [others], pattern


@pytest.mark.parametrize("make", [np.array, pd.Series, pa.array, pl.Series])
def test_allowed_values_may_be_a_column(make):
    index = Index(8)
    index.add(np.zeros((4, 1), np.uint8), None, {"c": ["a", "b", "c", "d"]})
    assert index.search(CODE, 4, where={"c": make(["d", "b"])}).ids.tolist() == [[1, 3]]


def test_the_columns_and_their_types_are_named():
    index = Index(8)
    index.add(CODE, None, {"price": [1.5], "color": ["red"], "facts": [{"x": 1}]})
    for where, said in (
        ("size < 3", r"where names the column 'size'; the index has price \(double\), color \(string\), facts \(st"),
        ("price < cheap", r"where wants 'price' to be < 'cheap'; the column holds double"),
        ({"price": ["a", "b"]}, r"where wants 'price' to be \['a', 'b'\]; the column holds double"),
        ({"price": {"<": 3}}, r"where wants 'price' to be {'<': 3}; the column holds double"),
        ({"price": 2**70}, r"where wants 'price' to be 1180591620717411303424; the column holds double"),
        (3, "where is 3; it must be a text, or a mapping from columns to values"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            index.search(CODE, 1, where=where)
