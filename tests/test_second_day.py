"""What comes after the first day: rows that are added and replaced, by the columns that an index knows."""

from __future__ import annotations

import csv
import datetime
import sqlite3
from decimal import Decimal
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest

from lbhash import Hasher, Index, TrainingArguments
from lbhash.data.origin import data_fingerprint
from lbhash.index.export import export_index
from lbhash.pipeline import index as indexes
from lbhash.utils.vectors import Vectors

pytestmark = pytest.mark.end_to_end

NAMES = ("sku", "title", "category", "price", "in_stock", "since")
SHOP = [
    ("A-1", "cup", "cups", "1.5", "yes", "2026-11-01"),
    ("99123", "plate", "plates", "2", "no", "2026-11-02"),
    ("A/ü", "bowl", " ", "3.25", "", ""),
    ("007", "jug", "cups", "4", "yes", "2026-11-03"),
]


@pytest.fixture(scope="module")
def model(blobs, tmp_path_factory):
    """A model of two categories."""
    hasher = Hasher(bits=16, epochs=1, training=TrainingArguments(hidden=16))
    folder = tmp_path_factory.mktemp("shop") / "model"
    hasher.fit(blobs.x, np.where(blobs.y < 2, "cups", "plates")).save_pretrained(folder)
    return folder


@pytest.fixture
def shop(model, blobs, tmp_path, json_of):
    """A function that writes a CSV of rows of the shop, and an index of the first day's."""

    def write(name, rows, names=NAMES):
        with (tmp_path / name).open("w", newline="", encoding="utf-8") as opened:
            writer = csv.writer(opened)
            writer.writerow([*names, *(f"e{at}" for at in range(12))])
            writer.writerows([*row, *blobs.x[at].tolist()] for at, row in enumerate(rows))
        return tmp_path / name, "--model", model

    first = ("--id-column", "sku", "--label-column", "category", "--metadata", "title,category,price,in_stock,since")
    json_of("index", "build", *write("shop.csv", SHOP), "--out", tmp_path / "i", *first)
    write.index = tmp_path / "i"
    return write


def test_an_index_knows_its_columns(shop, json_of, succeed):
    facts = json_of("info", shop.index)
    assert (facts["ids"], facts["id_column"], facts["label"]) == ("string", "sku", "label")
    kinds = {"title": "string", "category": "string", "price": "double", "in_stock": "string", "since": "date32[day]"}
    assert facts["metadata"] == {"row": "int64", "label": "string", **kinds}
    more = [("99124", "7", "cups", "5", "true", "2026-11-05"), ("008", "pan", "", "", "no", "")]
    assert json_of("index", "add", shop.index, *shop("new.csv", more))["added"] == 2
    held = Index.open(shop.index).get(["99124", "008"]).drop_columns(["code", "row"]).to_pylist()
    assert [one["title"] for one in held] == ["7", "pan"]
    assert [one["in_stock"] for one in held] == ["true", "no"]
    assert [one["price"] for one in held] == [5.0, None]
    assert [one["label"] for one in held] == ["cups", None]
    _, said = succeed("index", "add", shop.index, *shop("less.csv", [("B", 3)], ("sku", "title")))
    assert "the rows have no label, category, price, in_stock, since; the index gets null" in said
    (less,) = Index.open(shop.index).get(["B"]).to_pylist()
    assert (less["title"], less["label"], less["price"]) == ("3", None, None)


def test_what_another_program_adds_meanwhile_is_not_counted(shop, json_of, monkeypatch):
    encode = indexes._read_or_encode

    def slowly(*given):
        read = encode(*given)
        Index.open(shop.index, mode="a").add(np.zeros((50, 2), np.uint8), [f"other {at}" for at in range(50)])
        return read

    monkeypatch.setattr(indexes, "_read_or_encode", slowly)
    both = [(sku, "pan", "cups", "1", "yes", "2026-11-05") for sku in ("007", "008")]
    done = json_of("index", "add", shop.index, *shop("two.csv", both), "--upsert")
    assert (done["added"], done["replaced"], done["codes"]) == (1, 1, 55)


def test_a_filter_by_the_name_in_the_file_says_what_the_index_calls_it(shop):
    line = "where names the column 'sku'; the index has .*, which calls it 'id'"
    with pytest.raises(ValueError, match=line):
        Index.open(shop.index).search(np.zeros((1, 2), np.uint8), where={"sku": "A"})


def test_whole_numbers_become_ids_of_an_index_of_texts(shop, json_of, model, write_parquet, blobs):
    json_of("index", "add", shop.index, *shop("new.csv", [("99125", "pan", "cups", "1", "no", "")]))
    file = write_parquet(shop.index.parent / "n.parquet", blobs.x[:1], sku=[99126], title=[12])
    json_of("index", "add", shop.index, file, "--model", model)
    assert Index.open(shop.index).get(["99125", "99126"])["title"].to_pylist() == ["pan", "12"]


def test_a_row_is_replaced_or_left(shop, json_of, refuse):
    one = ("99123", "plate", "", "2.5", "", "")
    done = json_of("index", "add", shop.index, *shop("one.csv", [one]), "--upsert")
    assert (done["added"], done["replaced"], done["codes"]) == (0, 1, 4)
    (held,) = Index.open(shop.index).get(["99123"]).to_pylist()
    assert (held["price"], held["label"], held["in_stock"]) == (2.5, None, None)
    wrong = ("99123", "plate", "", "cheap", "", "")
    line = "metadata 'price' is 'cheap' in row 0, of type string; the index has double there"
    for how in ((), ("--upsert",)):
        assert line in refuse("index", "add", shop.index, *shop("wrong.csv", [wrong]), *how)
    assert Index.open(shop.index).get(["99123"]).to_pylist() == [held]
    line = "metadata 'price' is '2,50' in row 1, of type string"  # '2.5' of row 0 is no price only because of it
    assert line in refuse("index", "add", shop.index, *shop("two.csv", [one, ("C", "cup", "", "2,50", "", "")]))
    line = "id-column is 'sku', which is missing in row 1; every code must have an id"
    assert line in refuse("index", "add", shop.index, *shop("none.csv", [one, ("", *one[1:])]))


def test_rows_of_other_data_replace_none(model, blobs, write_parquet, tmp_path, refuse, json_of):
    first, second = (
        write_parquet(tmp_path / f"{name}.parquet", x) for name, x in {"a": blobs.x[:6], "b": blobs.x[6:9]}.items()
    )
    json_of("index", "build", first, "--model", model, "--out", tmp_path / "r")
    add = ("index", "add", tmp_path / "r", second, "--model", model)
    assert "the ids are row numbers: --id-column 'next' takes new ones" in refuse(*add)
    assert "the ids are row numbers of other data" in refuse(*add, "--upsert")
    assert json_of(*add, "--id-column", "next")["added"] == 3
    again = json_of("index", "add", tmp_path / "r", first, "--model", model, "--upsert")
    assert (again["added"], again["replaced"], again["codes"]) == (0, 6, 9)


def test_an_index_has_the_labels_that_the_model_learned(blobs, write_parquet, tmp_path, json_of):
    file = write_parquet(tmp_path / "c.parquet", blobs.x, kind=[f"kind {one}" for one in blobs.y])
    given = ("--label-column", "kind", "--bits", 8, "--epochs", 1, "--hidden", 0)
    json_of("train", file, *given, "--out", tmp_path / "m")
    json_of("index", "build", file, "--model", tmp_path / "m", "--out", tmp_path / "l")
    assert Index.open(tmp_path / "l").get([0])["label"].to_pylist() == [f"kind {blobs.y[0]}"]


def test_a_file_without_rows_or_that_is_not_there(shop, refuse):
    empty = shop("empty.csv", [])
    assert "data is '" in (line := refuse("index", "add", shop.index, *empty))
    assert "which has no row" in line
    gone = (shop.index.parent / "gone.csv", *empty[1:])
    assert "gone.csv', and there is no such file" in refuse("index", "add", shop.index, *gone)


def test_an_empty_cell_is_null(shop, json_of):
    row = (shop.index, *shop("q.csv", SHOP)[1:], "--data", shop.index.parent / "q.csv", "--row", 0)
    for column in ("category", "label", "in_stock", "since"):
        (found,) = json_of("search", *row, "--where", f"{column} is null")["queries"]
        assert [one["id"] for one in found["neighbors"]] == ["A/ü"]
    (found,) = json_of("search", *row, "--where", "since >= '2026-11-02'")["queries"]
    assert sorted(one["id"] for one in found["neighbors"]) == ["007", "99123"]


def test_an_index_knows_the_columns_of_its_embeddings(shop, json_of, blobs, write_parquet, model, tmp_path):
    rows = {"vec": blobs.x[:4].tolist(), "sku": ["a", "b", "c", "d"]}
    first = write_parquet(tmp_path / "first.parquet", blobs.x[4:8], **rows)
    given = ("--model", model, "--id-column", "sku", "--embedding-column", "vec", "--out", tmp_path / "v")
    json_of("index", "build", first, *given)
    more = write_parquet(tmp_path / "more.parquet", blobs.x[4:8], **rows | {"sku": [*"efgh"]})
    json_of("index", "add", tmp_path / "v", more, "--model", model)
    index = Index.open(tmp_path / "v")
    assert index.codes_of([*"abcd"]).tolist() == index.codes_of([*"efgh"]).tolist()


def test_ids_are_never_cut(shop, succeed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    name = "AB-0123456789-0123456789"
    row = (name, "a long title " * 9, "cups", "1", "a long word " * 9, "")
    succeed("index", "add", shop.index, *shop("new.csv", [row]))
    out, _ = succeed("search", shop.index, *shop("q.csv", [row])[1:], "--data", shop.index.parent / "q.csv", "--row", 0)
    assert f" {name} " in out
    assert "…" not in out


def test_dates_are_dates_in_postgres(shop, tmp_path):
    index = Index.open(shop.index)
    export_index(index, tmp_path / "shop.sql", "pgvector")
    assert '"since" date' in (tmp_path / "shop.sql").read_text()
    times = {
        "at": pa.array([0], pa.timestamp("us", "UTC")),
        "on": pa.array([0], pa.timestamp("s")),
        "no": pa.array([0]),
    }
    other = Index(8)
    other.add(np.zeros((1, 1), np.uint8), metadata=pa.table({**times, "no": [0]}))
    export_index(other, tmp_path / "other.sql", "postgres")
    assert '"at" timestamptz, "on" timestamp, "no" bigint' in (tmp_path / "other.sql").read_text()


def test_a_class_that_training_never_saw_is_said(shop, succeed):
    _, said = succeed("index", "add", shop.index, *shop("new.csv", [("N", "fork", "forks", "1", "no", "")]))
    assert "1 of 1 rows are of classes that the training never saw (forks)" in said


def test_a_cell_of_a_csv_that_a_type_does_not_hold_is_refused(shop, refuse):
    late = shop("late.csv", [("B", "2026-11-05 00:00:00"), ("C", "2026-11-30 18:24:05")], ("sku", "since"))
    line = "metadata 'since' is '2026-11-30 18:24:05' in row 1, of type timestamp[s]; the index has date32[day] there"
    assert line in refuse("index", "add", shop.index, *late)


def test_an_exported_index_is_built_again_with_what_it_knew(shop, json_of, refuse, tmp_path):
    json_of("index", "export", shop.index, "--out", tmp_path / "e.parquet")
    json_of("index", "build", "--codes", tmp_path / "e.parquet", "--out", tmp_path / "r")
    again = Index.open(tmp_path / "r")
    assert again.state.origin == Index.open(shop.index).state.origin
    assert again.state.origin["id_column"] == "sku"
    one = ("99123", "plate", "bowls", "2.5", "", "")
    done = json_of("index", "add", tmp_path / "r", *shop("one.csv", [one]), "--upsert")
    assert (done["added"], done["replaced"]) == (0, 1)
    assert Index.open(tmp_path / "r").get(["99123"])["label"].to_pylist() == ["bowls"]
    line = "which has no column 'sku' for the ids; --id-column names another"
    assert line in refuse("index", "add", tmp_path / "r", *shop("key.csv", [("B",)], ("key",)))


def test_rows_are_added_to_an_index_that_has_no_rows(model, blobs, write_parquet, tmp_path, json_of, refuse):
    index = Index.from_hasher(Hasher.from_pretrained(model))
    index.add(np.zeros((2, 2), np.uint8), [100, 101], {"price": [1.0, 2.0]})
    index.save(tmp_path / "p")
    file = write_parquet(tmp_path / "f.parquet", blobs.x[:2], price=[3.0, 4.0])
    add = ("index", "add", tmp_path / "p", file, "--model", model)
    assert json_of(*add)["added"] == 2
    assert Index.open(tmp_path / "p").metadata_of([0, 101]).to_pydict() == {"id": [0, 101], "price": [3.0, 2.0]}
    assert "the ids are row numbers of other data" in refuse(*add, "--upsert")


DAY, TIME = datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2, 18, 24)
HERE = pa.timestamp("s", "Europe/Berlin")


@pytest.mark.parametrize(
    ("held", "given", "kept"),
    [
        (pa.date32(), [datetime.datetime(2026, 1, 2)], [DAY]),
        (pa.timestamp("ns"), [DAY], None),
        (pa.timestamp("s", "UTC"), pa.array([TIME], HERE), None),
        (pa.float32(), [0.1, float("nan"), float("inf"), None], [float(np.float32(0.1)), None, float("inf"), None]),
        (pa.float32(), pa.array(np.array([0.5], np.float16)), [0.5]),
        (pa.float64(), [Decimal("9.99"), Decimal("0.35")], [9.99, 0.35]),
        (pa.float64(), [Decimal("0.50")], [0.5]),
        (pa.decimal128(3, 2), [1.1, 1.15, None], [Decimal("1.10"), Decimal("1.15"), None]),
        (pa.decimal128(3, 2), [5], [Decimal("5.00")]),
        (pa.int64(), [3.0, -0.0], [3, 0]),
        (pa.string(), [7], ["7"]),
        (pa.string(), pa.array(["a", None], pa.string_view()), ["a", None]),
        (pa.list_(pa.float32()), [[0.5], None, []], [[0.5], None, []]),
        (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": 1, "b": 7}, None], [{"a": 1, "b": "7"}, None]),
    ],
)
def test_values_that_another_type_holds(held, given, kept):
    index = Index(8)
    index.add(np.zeros((1, 1), np.uint8), metadata={"v": pa.array([None], held)})
    ids = index.add(np.zeros((len(given), 1), np.uint8), metadata={"v": given})
    found = [None if value != value else value for value in index.metadata_of(ids)["v"].to_pylist()]
    assert kept is None or found == kept


@pytest.mark.parametrize(
    ("held", "good", "wrong"),
    [
        (pa.date32(), datetime.datetime(2026, 1, 2), TIME),
        (pa.list_(pa.date32()), [datetime.datetime(2026, 1, 2)], [TIME]),
        (pa.float32(), 0.1, 1e300),
        (pa.float32(), 0.1, 1e-46),
        (pa.float32(), 2.0, 16777217.0),
        (pa.float16(), 1.0, 70000.0),
        (pa.float16(), 1, 2049),
        (pa.float64(), Decimal("0.10"), Decimal(2**53 + 1)),
        (pa.decimal128(3, 2), 1.1, 1.239),
        (pa.list_(pa.float32()), [0.1], [1e300]),
        (pa.struct([("a", pa.float32())]), {"a": 0.1}, {"a": 1e300}),
    ],
)
def test_a_value_that_another_type_changes_is_refused_with_its_row(held, good, wrong):
    index = Index(8)
    index.add(np.zeros((1, 1), np.uint8), metadata={"v": pa.array([None], held)})
    with pytest.raises(ValueError, match=r"^metadata 'v' is .* in row 2, of type .*; the index has .* there: mend it"):
        index.add(np.zeros((4, 1), np.uint8), metadata={"v": pa.array([None, good, wrong, good])})
    assert index.add(np.zeros((2, 1), np.uint8), metadata={"v": pa.array([None, good])}).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("held", "given"),
    [
        (pa.time64("us"), pa.array([TIME])),
        (pa.timestamp("s"), pa.array([TIME], HERE)),
        (HERE, pa.array([TIME], pa.timestamp("s"))),
        (pa.struct([("a", pa.int64())]), pa.array([{"a": 1, "b": 2}])),
        (pa.struct([("a", pa.int64())]), pa.array([{"b": 1}])),
        (pa.struct([("a", pa.string())]), pa.array([{"a": True}])),
        (pa.struct([("a", pa.int64())]), pa.array([{"a": "7"}])),
    ],
)
def test_types_that_do_not_go_together(held, given):
    index = Index(8)
    index.add(np.zeros((1, 1), np.uint8), metadata={"v": pa.array([None], held)})
    with pytest.raises(ValueError, match=r"^metadata 'v' is .* in row 0, of type .*; the index has .* there: mend it"):
        index.add(np.zeros((1, 1), np.uint8), metadata={"v": given})


def test_what_is_not_exact_is_refused_in_python():
    index = Index(8)
    code = np.zeros((1, 1), np.uint8)
    index.add(code, metadata={"text": ["a"], "number": [1.5], "whole": [1], "flag": [True], "none": [None]})
    index.add(code, metadata={"text": [99123], "number": [2], "whole": [3.0], "none": [4]})
    table = index.metadata_of([1]).drop_columns(["id"]).to_pylist()
    assert table == [{"text": "99123", "number": 2.0, "whole": 3, "flag": None, "none": "4"}]
    for column, value, kind in (
        ("text", True, "bool"),
        ("text", 1.5, "double"),
        ("number", "2", "string"),
        ("number", 2**53 + 1, "int64"),
        ("whole", 1.5, "double"),
        ("flag", 1, "int64"),
    ):
        with pytest.raises(
            ValueError, match=f"metadata '{column}' is {value!r} in row 0, of type {kind}; the index has"
        ):
            index.add(code, metadata={column: [value]})


def test_what_could_not_be_read_is_never_cached(tmp_path):
    for _ in range(2):
        with Vectors(tmp_path / "v.sqlite", 2, ".lock", "busy") as store:
            store.put([b"", b"known"], np.ones((2, 2), np.float32))
            assert store.get([b"", b"known"])[1].tolist() == [False, True]


def test_two_rows_that_changed_places_are_other_data(tmp_path):
    lines = [f"{row},class {row % 7}\n" for row in range(100_000, 400_000)]
    (tmp_path / "one.csv").write_text("id,label\n" + "".join(lines))
    lines[1234], lines[4321] = lines[4321], lines[1234]
    (tmp_path / "two.csv").write_text("id,label\n" + "".join(lines))
    assert data_fingerprint(tmp_path / "one.csv") != data_fingerprint(tmp_path / "two.csv")


def flipped(content, key, sealed):
    """The header of the row's record says that its vector is a text."""
    at = content.index(key + sealed) - 1
    content[at] ^= 1


def of_a_later_version(content, key, sealed):
    """The header of the file says that programs of this version may only read it."""
    content[18] = 3


@pytest.mark.parametrize("damage", [flipped, of_a_later_version])
def test_a_damaged_header_is_no_end(damage, tmp_path, capsys):
    file, key, vectors = tmp_path / "v.sqlite", b"k" * 16, np.array([[1, np.pi]], np.float32)
    with Vectors(file, 2, ".lock", "busy") as store:
        store.put([key], vectors)
    content = bytearray(file.read_bytes())
    start = content.index(key) + len(key)
    damage(content, key, bytes(content[start : start + 16]))
    file.write_bytes(content)
    for _ in range(2):
        with Vectors(file, 2, ".lock", "busy") as store:
            store.get([key])
            store.put([b"another"], vectors)
            assert store.get([b"another"])[1].all()
    assert "not cached" not in capsys.readouterr().err


def test_errors_of_the_disk_are_no_damage(tmp_path, capsys):
    with Vectors(tmp_path / "v.sqlite", 2, ".lock", "busy") as store:
        store.put([b"known"], np.ones((1, 2), np.float32))
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "_get", Mock(side_effect=error))
            assert not store.get([b"known"])[1].any()
    assert "the embeddings are not cached: disk I/O error" in capsys.readouterr().err
    with Vectors(tmp_path / "v.sqlite", 2, ".lock", "busy") as store:
        assert store.get([b"known"])[1].all()


def test_a_file_that_another_process_made_anew_is_not_removed(tmp_path):
    file = tmp_path / "v.sqlite"
    with Vectors(file, 2, ".a", "busy") as other:
        file.unlink()
        with Vectors(file, 2, ".b", "busy") as store:
            store.put([b"new"], np.ones((1, 2), np.float32))
            damage = sqlite3.DatabaseError("malformed")
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            found = Mock(side_effect=[damage, None])
            other._or_anew(found)
            assert store.get([b"new"])[1].all()
    assert found.call_count == 2
