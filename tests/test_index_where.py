"""Filters: what a text means, against a loop over the rows, and what is refused."""

from __future__ import annotations

import operator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.index import Index
from lbhash.index.where import conditions

CODE = np.zeros((1, 1), np.uint8)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("price < 20", [("price", "<", ["20"])]),
        ("20<=price<50", [("price", ">=", ["20"]), ("price", "<", ["50"])]),
        ("50 > price >= -2e1", [("price", "<", ["50"]), ("price", ">=", ["-2e1"])]),
        ("color in (red, 'dark, blue',a b)", [("color", "in", ["red", "dark, blue", "a b"])]),
        ("color NOT  IN(red)", [("color", "not in", ["red"])]),
        ("size is null AND size IS NOT NULL", [("size", "is null", []), ("size", "is not null", [])]),
        ("label=Shoes, size != 3", [("label", "in", ["Shoes"]), ("size", "not in", ["3"])]),
        ('label="Shoes, size 3"', [("label", "in", ["Shoes, size 3"])]),
        ("a title == made in China!", [("a title", "in", ["made in China!"])]),
        ("\"a 'b\" = 'it''s' and x = don't", [("a 'b", "in", ["it's"]), ("x", "in", ["don't"])]),
        ("isnull = android, day >= 2024-01-31", [("isnull", "in", ["android"]), ("day", ">=", ["2024-01-31"])]),
        ({"a": 1, "b": np.array([2, 3])}, [("a", "in", [1]), ("b", "in", [2, 3])]),
        (None, []),
    ],
)
def test_what_a_filter_means(text, meant):
    assert [(name, how, list(values)) for name, how, values in conditions(text)] == meant


@pytest.mark.parametrize(
    "text",
    [
        *("", "label", "label=", "label=3,5", "label=Shoes, size 3", "a = salt and pepper", "a=1,", "a = b = c", "and"),
        *("1 < a > 2", "a in ()", "a in (b", "a = (b)", "a = 'b", "a ! b", "'a' b = 1", "is null", "a < > b"),
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
