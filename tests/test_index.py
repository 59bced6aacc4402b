"""Every kind of index against brute force, in memory and in a folder."""

from __future__ import annotations

import copy
import os
import pickle
import tracemalloc
from functools import partial

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lbhash.codes import hamming_distances, pack, unpack
from lbhash.codes.io import CodeTable, read_codes, write_codes
from lbhash.codes.real import Asked, signs_of
from lbhash.data import load_dataset
from lbhash.index import Index
from lbhash.index import store as store_module
from lbhash.index.base import check_model
from lbhash.index.export import export_index
from lbhash.index.factory import build_index, metadata_of_codes
from lbhash.index.kinds import KINDS
from lbhash.pipeline.index import ids_of


def random_codes(n, width, seed):
    return np.random.default_rng(seed).integers(0, 256, (n, width), dtype=np.uint8)


def filled(codes, ids=None, bits=None, **columns):
    index = Index(bits or 8 * codes.shape[1])
    index.add(codes, ids, columns or None)
    return index


def of_texts(codes):
    return filled(codes, list("abcdef"))


def ranking(queries, codes, ids):
    """Distances and ids of all codes, by distance, then id: the oracle."""
    distances = hamming_distances(queries, codes)
    names = np.broadcast_to(ids, distances.shape)
    order = np.lexsort((names, distances), axis=1)
    return np.take_along_axis(distances, order, 1), np.take_along_axis(names, order, 1)


def assert_same(found, distances, ids):
    assert (found.distances.dtype, found.hamming.dtype, found.ids.dtype) == (np.float32, np.int32, np.int64)
    np.testing.assert_array_equal(found.distances, distances)
    np.testing.assert_array_equal(found.hamming, distances)
    np.testing.assert_array_equal(found.ids, ids)


@pytest.fixture(scope="module")
def digits():
    """Codes of real digits, the signs of 32 principal components: base and queries."""
    data = load_dataset("digits")
    base, query = (part.take(slice(None)) for part in (data.base, data.query))
    middle = base.mean(axis=0)
    directions = np.linalg.svd(base - middle, full_matrices=False)[2][:32]
    return pack((base - middle) @ directions.T), pack((query - middle) @ directions.T)


# ------------------------------------------------------------------------------------------------------------- search


def test_recall_on_real_codes(digits):
    base, queries = digits
    index = Index(32, "ivf")
    index.add(base)
    exact = filled(base).search(queries, 10)
    found = index.search(queries, 10)
    recall = np.mean(found.distances <= exact.distances[:, -1:])
    assert 0.95 <= recall <= 1
    assert (found.distances >= exact.distances).all()


def test_a_query_for_which_a_structure_finds_too_few_is_scanned_for():
    codes = random_codes(1500, 8, 0)
    index = Index(64, "ivf", options={"nlist": 38, "nprobe": 1})
    index.add(codes)
    structure = index.state.segments[0].structure
    assert (structure.candidates(Asked(signs_of(codes[:3])), 400)[0][:, -1] == -1).all()
    distances, names = ranking(codes[:3], codes, np.arange(1500))
    assert_same(index.search(codes[:3], 400), distances[:, :400], names[:, :400])


def test_building_changes_no_number_of_threads():
    assert os.environ["OMP_WAIT_POLICY"]  # lbhash sets it, before FAISS is there to read it
    before = faiss.omp_get_max_threads()
    Index(64, "ivf").add(random_codes(1500, 8, 0))
    assert faiss.omp_get_max_threads() == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [0, 6, 1100])  # with 1,100 there is a structure, with 0 not even a segment
def test_an_index_of_fewer_codes_gives_all_of_them(kind, count):
    codes, queries = random_codes(count, 2, 0), random_codes(3, 2, 1)
    index = Index(16, kind, vectors="embeddings", learns_classes=False)
    index.add(codes, None, {"label": np.arange(count) % 3}, vectors=np.ones((count, 4)))
    outputs, labels = unpack(queries, 16).astype(np.float32), np.arange(count) % 3
    distances, names = ranking(queries, codes, np.arange(count))
    for k in (count + 1, 10**12):
        assert_same(index.search(queries, k), distances, names)
        again = {"embeddings": np.ones((3, 4)), "rerank": "embeddings", "candidates": k}
        for how in ({"codes": queries, **again}, {"outputs": outputs}):
            np.testing.assert_array_equal(np.sort(index.search(**how, k=k).ids), np.sort(names))
        few = index.search(queries, k, where={"label": 2})
        assert few.ids.shape == few.distances.shape == (3, (labels == 2).sum())


def test_no_query_and_no_code():
    index = filled(random_codes(6, 4, 0))
    found = index.search(random_codes(0, 4, 0), 3)
    assert (found.distances.shape, found.ids.shape) == ((0, 3), (0, 3))
    assert index.range_search(random_codes(0, 4, 0), 3).limits.tolist() == [0]
    index.add(random_codes(0, 4, 0), [])
    index.remove([])
    assert (len(index), index.generation) == (6, 1)
    assert Index(32).range_search(random_codes(2, 4, 0), 32).limits.tolist() == [0, 0, 0]


# ------------------------------------------------------------------------------------------------------ ids, metadata


def test_a_removed_id_is_not_given_out_again(tmp_path):
    code = random_codes(1, 4, 0)
    index = build_index(CodeTable(code.repeat(3, axis=0), 32, np.arange(3)), tmp_path / "i", metadata={})
    index.remove([2])
    index = Index.open(tmp_path / "i", mode="a")
    index.add(code)
    assert index.ids().tolist() == Index.open(tmp_path / "i", mode="a").ids().tolist() == [0, 1, 3]


def test_ids_of_any_integer_type():
    codes = random_codes(3, 4, 0)
    for ids in ([5, 3, 9], np.array([5, 3, 9], np.uint16), np.array([5, 3, 9], np.uint64)):
        assert filled(codes, ids).search(codes, 1).ids[:, 0].tolist() == [5, 3, 9]


def test_masked_ids_are_refused():
    index = filled(random_codes(3, 4, 0), [1, 2, 3])
    for change in (partial(index.add, random_codes(2, 4, 1)), index.remove, index.get):
        with pytest.raises(ValueError, match=r"^ids is masked in row 1; leave such rows out, or fill them"):
            change(np.ma.masked_equal([1, 2], 2))
    assert len(index) == 3


def test_attributes_come_back_in_any_order(tmp_path):
    """Ids may be asked for twice, and a part may have its columns in another order."""
    codes, ids = random_codes(40, 3, 0), np.random.default_rng(0).permutation(1000)[:40]
    names, tags = [f"n{number}" for number in ids], [[int(number) % 3, 7] for number in ids]
    index = filled(codes[:25], ids[:25], name=names[:25], tags=tags[:25])
    index.add(codes[25:], ids[25:], {"tags": tags[25:], "name": names[25:]})
    index.save(tmp_path / "i")
    asked = [3, 30, 3, 39, 0]
    for held in (index, Index.open(tmp_path / "i", mode="a")):
        np.testing.assert_array_equal(held.codes_of(ids[asked]), codes[asked])
        found = {"id": ids[asked].tolist(), "name": [names[at] for at in asked], "tags": [tags[at] for at in asked]}
        assert held.metadata_of(ids[asked]).to_pydict() == found
        assert (held.metadata_of([]).column_names, held.codes_of([]).shape) == (["id", "name", "tags"], (0, 3))


def test_files_of_codes_in_and_out(tmp_path):
    codes, labels = random_codes(30, 2, 0), np.random.default_rng(0).integers(0, 2, (30, 5)).astype(np.uint8)
    labels[:, 4] = 0
    labels[0, 4] = 1
    further = pa.table({"title": [f"t{row}" for row in range(30)], "year": pa.array(range(30), pa.int16())})
    table = CodeTable(codes, 16, np.arange(30) * 2, labels, "ab", further)
    write_codes(tmp_path / "c.parquet", table)
    read = read_codes(tmp_path / "c.parquet")
    assert read.extra_columns.equals(further)
    index = build_index(read, tmp_path / "i", ids=ids_of(read, "year"))
    assert (index.label, index.ids().tolist()) == ("labels", list(range(30)))
    index.remove([4])
    assert index.metadata_of([3]).to_pylist() == [
        {"id": 3, "row": 6, "labels": np.flatnonzero(labels[3]).tolist(), "title": "t3", "year": 3}
    ]
    export_index(index, tmp_path / "out.parquet")
    again = read_codes(tmp_path / "out.parquet")
    kept = np.delete(np.arange(30), 4)
    assert (again.bits, again.model) == (16, "ab")
    np.testing.assert_array_equal(again.codes, codes[kept])
    np.testing.assert_array_equal(again.labels, labels[kept])
    rebuilt = build_index(again, tmp_path / "j", ids=ids_of(again, None))
    assert rebuilt.ids().tolist() == kept.tolist()
    assert rebuilt.metadata_of(kept).equals(index.metadata_of(kept))
    assert pq.read_schema(tmp_path / "out.parquet").names == ["id", "code", "row", "labels", "title", "year"]


def test_the_caller_may_change_its_arrays():
    codes, ids = random_codes(5, 2, 0), np.arange(5)
    index = filled(codes, ids)
    before = codes.copy()
    codes[:] = 0
    ids[:] = 9
    np.testing.assert_array_equal(index.codes_of(np.arange(5)), before)


# ------------------------------------------------------------------------------------------------------------ a folder


def test_adding_writes_the_new_codes_only(tmp_path):
    index = build_index(CodeTable(random_codes(20_000, 8, 0), 64, np.arange(20_000)), tmp_path / "i")
    before = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "i").glob("0*")}
    index.add(random_codes(10, 8, 1), metadata={"row": range(10)})
    after = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "i").glob("0*")}
    assert before.items() <= after.items()
    new = [tmp_path / "i" / name for name in after.keys() - before.keys()]
    assert new
    assert sum(file.stat().st_size for file in new) < 3000
    assert index.generation == 2


def test_small_segments_are_merged(tmp_path):
    codes = random_codes(300, 2, 0)
    index = build_index(CodeTable(codes[:10], 16, np.arange(10)), tmp_path / "i")
    for start in range(10, 300, 10):
        index.add(codes[start : start + 10], metadata={"row": range(start, start + 10)})
        assert index.info()["segments"] < store_module.MERGE
    assert len(list((tmp_path / "i").glob("0*.codes.npy"))) == index.info()["segments"]
    distances, names = ranking(codes[:9], codes, np.arange(300))
    assert_same(Index.open(tmp_path / "i", mode="a").search(codes[:9], 20), distances[:, :20], names[:, :20])
    assert index.metadata_of(range(300))["row"].to_pylist() == list(range(300))


def test_segments_with_many_removed_codes_are_rewritten(tmp_path):
    codes = random_codes(100, 2, 0)
    index = build_index(CodeTable(codes, 16, np.arange(100)), tmp_path / "i")
    index.remove(range(20))
    assert index.info()["removed"] == 20
    index.remove(range(20, 30))
    assert (index.info()["removed"], len(index)) == (0, 70)
    index.remove(range(30, 100))
    assert (index.info()["segments"], len(index), len(Index.open(tmp_path / "i", mode="a"))) == (0, 0, 0)
    with pytest.raises(ValueError, match="metadata has the column 'n'; the index has row: leave it out"):
        index.add(codes, metadata={"n": range(100)})
    index.add(codes)
    assert index.metadata_of([100])["row"].to_pylist() == [None]
    assert Index.open(tmp_path / "i", mode="a").ids()[0] == 100


def test_readers_go_on_with_what_they_opened(tmp_path):
    codes = random_codes(60, 2, 0)
    reader = build_index(CodeTable(codes, 16, np.arange(60), np.arange(60) % 3), tmp_path / "i")
    writer = Index.open(tmp_path / "i", mode="a")
    expected = reader.search(codes[:4], 7)
    writer.remove(range(0, 60, 2))
    writer.compact()
    assert reader.outdated()
    assert_same(reader.search(codes[:4], 7), *expected)
    assert reader.metadata_of([0])["label"].to_pylist() == [0]  # of a file that is swept by now
    reader.verify()
    assert reader.refresh()
    assert not reader.outdated()
    assert not reader.refresh()
    assert (len(reader), reader.generation) == (30, writer.generation)


def test_no_change_makes_the_folder_of_an_index_that_was_moved(tmp_path):
    table = CodeTable(random_codes(30, 2, 0), 16, np.arange(30))
    writer = build_index(table, tmp_path / "i")
    (tmp_path / "i").rename(tmp_path / "j")
    for change in (lambda: writer.add(table.codes), lambda: writer.remove([3]), writer.compact):
        with pytest.raises(ValueError, match=r"^path is '.*', and there is no such folder"):
            change()
    assert not (tmp_path / "i").exists()


def test_saving_to_its_own_folder_never_drops_the_change_of_another_writer(tmp_path, monkeypatch):
    index = Index(32)
    index.add(random_codes(5, 4, 0))
    index.save(tmp_path / "i")
    index.save(tmp_path / "i", overwrite=True)
    Index.open(tmp_path / "i", "a").add(random_codes(3, 4, 1))
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / "i", "i"):
        with pytest.raises(ValueError, match=r"'.*i', which another writer has changed since this index was opened"):
            index.save(path, overwrite=True)
    index.refresh()
    index.save("i", overwrite=True)
    index.add(random_codes(1, 4, 2))
    assert len(Index.open("i")) == 9


def test_an_index_is_built_anew_only_where_that_is_asked_for(tmp_path):
    table = CodeTable(random_codes(30, 2, 0), 16, np.arange(30))
    reader = build_index(table, tmp_path / "i")
    with pytest.raises(ValueError, match=r"path is '.*', which already holds an index; give another folder"):
        build_index(table, tmp_path / "i")
    other = build_index(CodeTable(random_codes(5, 4, 0), 32, np.arange(5)), tmp_path / "i", overwrite=True)
    assert (other.generation, len(other), len(reader)) == (2, 5, 30)
    assert reader.outdated()
    with pytest.raises(ValueError, match="which was built again with other settings; open it again"):
        reader.refresh()
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ValueError, match="which is a file; it must be a folder"):
        build_index(table, tmp_path / "file")
    (tmp_path / "link").symlink_to("nothing")
    with pytest.raises(ValueError, match="which is a link to nothing; it must be a folder"):
        build_index(table, tmp_path / "link")
    with pytest.raises(ValueError, match="kind is 'tree'; it must be one of flat, ivf"):
        build_index(table, tmp_path / "new", "tree")
    with pytest.raises(ValueError, match="ids holds 0 twice"):
        build_index(table, tmp_path / "new", ids=[0] * 30)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("kind", "ids", "bytes_a_row"),
    [
        ("flat", range(5, 2005), 2 + 8 + 5),  # a code of 12 bits, a label, and int8 vectors of 5 numbers
        ("flat", range(0, 4000, 2), 2 + 8 + 5 + 8),
        ("flat", [f"sku{number}" for number in range(1000, 3000)], 2 + 8 + 5 + 12 + 7),
        ("ivf", range(2000), 2 + 8 + 5 + 2 + 8),
    ],
)
def test_what_a_row_takes_on_the_disk(tmp_path, kind, ids, bytes_a_row):
    """The table of docs/deploy.md."""
    codes = (np.arange(2000) << 4).astype(">u2").view(np.uint8).reshape(-1, 2)
    vectors = np.random.default_rng(0).normal(size=(2000, 5))
    index = build_index(
        CodeTable(codes, 12, np.arange(2000)),
        tmp_path / "i",
        kind,
        ids=list(ids),
        metadata={"label": np.arange(2000)},
        vectors=vectors,
        store="int8",
    )
    assert (
        0 <= index.info()["bytes"] - 2000 * bytes_a_row < 8_000
    )  # headers, the centers of the lists and the room in their last blocks


def test_code_attributes_and_ids_of_a_table():
    table = CodeTable(
        random_codes(3, 2, 0), 16, np.array([4, 5, 6]), None, "", pa.table({"id": [9, 8, 7], "x": [1, 2, 3]})
    )
    assert metadata_of_codes(table).to_pydict() == {"row": [4, 5, 6], "x": [1, 2, 3]}
    assert ids_of(table, None).tolist() == [9, 8, 7]
    assert ids_of(table, "row").tolist() == [4, 5, 6]
    assert ids_of(table, "next") is None
    with pytest.raises(ValueError, match=r"id_column is 'y'; it must be row, next, or a column of the codes \(id, x\)"):
        ids_of(table, "y")


def test_another_model_is_refused():
    index = Index(16, model="a")
    check_model(index, "a", 16)
    check_model(index, "", 16)
    check_model(Index(16), "b", 16)
    with pytest.raises(
        ValueError,
        match="index and the model do not go together: codes of model a and of model b; use one model for both",
    ):
        check_model(index, "b", 16)
    with pytest.raises(ValueError, match="index and queries do not go together: codes of 16 bits and of 12 bits"):
        check_model(index, "a", 12, "queries")


# ------------------------------------------------------------------------------------------------------- bad arguments


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i, c: Index(8, options={"m": 3}), "options has 'm', which an index of kind flat does not"),
        (lambda i, c: Index(8, "ivf", options={"nlist": 0}), "option nlist is 0; it must be from 1 to 2147"),
        (lambda i, c: Index(8, "ivf", options={"nprobe": 0}), "option nprobe is 0; it must be from 1 to 2147"),
        (lambda i, c: Index(8, vectors="all"), "vectors is 'all'; it must be one of outputs, emb"),
        (lambda i, c: i.search(c, 0), "k is 0; it must be at least 1"),
        (lambda i, c: i.search(c[:, :3], 1), "codes has 3 bytes a row; codes of 32 bits have 4"),
        (lambda i, c: Index(31).add(c | 255), "codes has a bit beyond the first 31 set in row 0"),
        (lambda i, c: i.range_search(c, 33), "radius is 33; it must be from 0 to"),
        (lambda i, c: i.add(c, metadata={"n": [2**64, *range(5)]}), "metadata 'n' must hold values of one type: Pyth"),
        (lambda i, c: i.add(c, np.arange(6) / 2), "ids holds float64; it must hold integers"),
        (lambda i, c: i.add(c, [10, 17, 12, 13, 17, 15]), "ids holds 17 twice; give it once"),
        (lambda i, c: i.add(c, [-(2**63) - 1, *range(5)]), "ids holds -9223372036854775809; an integer must be"),
        (lambda i, c: i.add(c, ["a", 1, 2, 3, 4, 5]), "ids holds texts and others; it must hold integers, or texts"),
        (lambda i, c: i.add(c, ["", *"abcde"]), "ids holds an empty text; an id must have at least one character"),
        (lambda i, c: i.add(c, ["\ud800", *"abcde"]), r"ids holds '\\ud800', which UTF-8 cannot write"),
        (lambda i, c: i.add(c, list("abcdef")), "ids holds texts, and the index's ids are integers"),
        (lambda i, c: i.codes_of(["3"]), "ids holds texts, and the index's ids are integers"),
        (lambda i, c: of_texts(c).remove([3]), "ids holds integers, and the index's ids are texts"),
        (lambda i, c: of_texts(c).add(c[:1]), "ids is None, and the index's ids are texts; give one for each"),
        (lambda i, c: i.add(c, np.arange(5)), r"ids has shape \(5,\); it must be \[6\]"),
        (lambda i, c: i.add(c, None, {"size": [1] * 6}), "the column 'size'; the index has label, name: leave it out"),
        (
            lambda i, c: i.add(c, None, {"label": [1] * 5, "name": ["a"] * 6}),
            "metadata 'label' has 5 rows and codes has 6",
        ),
        (lambda i, c: i.add(c, None, {"label": ["a"] * 6, "name": ["a"] * 6}), "'label' is 'a' in row 0, of type str"),
        (lambda i, c: i.add(c, None, {"label": [1, "a", 2, 3, 4, 5]}), "metadata 'label' must hold values of one"),
        (lambda i, c: Index(32).add(c, None, {"id": range(6)}), "the column 'id', which is the index's own"),
        (lambda i, c: i.add(c, None, {"label": [1] * 6, "name": ["a"] * 6}, vectors=c), "the index stores none"),
        (lambda i, c: Index(32, vectors="outputs").add(c), "vectors is missing; the index stores outputs of"),
        (
            lambda i, c: Index(32, vectors="outputs").add(c, vectors=c[:2]),
            r"vectors has shape \(2, 4\); it m",
        ),
        (
            lambda i, c: Index(32, vectors="outputs").add(c, vectors=c * np.inf),
            "vectors is NaN or infinite in row 0",
        ),
        (lambda i, c: i.vectors_of([1]), "index of kind flat stores no vectors; make one"),
        (lambda i, c: i.metadata_of([[1]]), r"ids has shape \(1, 1\); it must be \[m\]"),
    ],
)
def test_bad_arguments(call, message):
    codes = random_codes(6, 4, 0)
    index = filled(codes, label=range(6), name=list("abcdef"))
    with pytest.raises((TypeError, ValueError), match=message):
        call(index, codes)
    assert (len(index), index.generation) == (6, 1)


def test_filters_on_columns_that_arrow_does_not_compare_as_they_are(tmp_path):
    """By a dictionary, lists of them or lists of one length; and a line for what cannot be compared."""
    names = pa.array(["a", "b", None, "a"])
    columns = {
        "name": names.dictionary_encode(),
        "names": pa.array([["a"], ["b", "c"], None, []], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        "pair": pa.array([[1, 2], [3, 1], None, [4, 5]], pa.list_(pa.int64(), 2)),
        "facts": pa.array([{"x": 1}] * 4),
    }
    codes = np.zeros((4, 1), np.uint8)
    build_index(CodeTable(codes, 8, np.arange(4)), tmp_path / "i", metadata=pa.table(columns))
    index = Index.open(tmp_path / "i", mode="a")
    index.add(codes[:2], None, {**{name: column[:2] for name, column in columns.items()}, "name": ["z", "a"]})
    index.compact()
    for where, ids in [
        ({"name": "a"}, [0, 3, 5]),
        ({"name": ["z", "b"]}, [1, 4]),
        ({"names": ["c", "q"]}, [1, 5]),
        ({"pair": 1}, [0, 1, 4, 5]),
        ({"pair": 5, "name": "a"}, [3]),
    ]:
        assert index.search(codes[:1], 6, where=where).ids.tolist() == [ids]
    with pytest.raises(
        ValueError, match=r"where names 'facts', a column of struct<x: int64>, which no filter can comp"
    ):
        index.search(codes[:1], 6, where={"facts": {"x": 1}})


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        (
            "title",
            pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers()),
            "one of its texts is not UTF-8",
        ),
        ("seen", pa.array([2**62], pa.timestamp("us")), "Python cannot read its time zone, or one of its times"),
        ("seen", pa.array([-(2**62)], pa.timestamp("s")), "Python cannot read its time zone, or one of its times"),
        (
            "seen",
            pa.array([0], pa.timestamp("us", "Mars/Olympus")),
            "Python cannot read its time zone, or one of its times",
        ),
        (
            "seen",
            pa.array([[{"at": 2**62}]], pa.list_(pa.struct([("at", pa.timestamp("us"))]))),
            "Python cannot read",
        ),
        (
            "seen",
            pa.array([2**62], pa.int64()).cast(pa.duration("s")),
            "Python cannot read its time zone, or one of its times",
        ),
        (
            "day",
            pa.array([2**30], pa.int32()).cast(pa.date32()),
            "Python cannot read its time zone, or one of its times",
        ),
        ("of", pa.array([{}], pa.struct([])), "which many formats cannot hold; convert it, perhaps to text"),
        ("of", pa.RunEndEncodedArray.from_arrays([1], ["a"]), "which many formats cannot hold"),
        (
            "of",
            pa.ListArray.from_arrays([0, 1], pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array(["a"])])),
            "which many formats cannot hold",
        ),
        ("label", pa.array([0.5]), "labels must be integers, texts or Booleans; give the column another name"),
        ("labels", pa.array([["1970-01-01"]]).cast(pa.list_(pa.date32())), "labels must be integers, texts or Boo"),
    ],
)
def test_what_a_search_could_not_return_is_refused(name, values, said):
    with pytest.raises(ValueError, match=rf"^metadata '{name}' holds .*{said}"):
        Index(8).add(np.zeros((1, 1), np.uint8), metadata={name: values})


@pytest.mark.parametrize("how", [pickle.dumps, copy.copy, copy.deepcopy])
def test_pickle_and_copy_say_what_to_do(how):
    with pytest.raises(TypeError, match=r"^an index cannot be pickled or copied; save it"):
        how(Index(8))


def test_an_id_that_is_given_twice():
    index = Index(8)
    index.add(np.zeros((1, 1), np.uint8), [1])
    with pytest.raises(ValueError, match=r"^ids holds 1 twice; give it once$"):
        index.remove([1, 1])


def test_a_long_id_makes_no_other_one_longer():
    long, index = "L" * 100_000, Index(8)
    names = [long, *(f"sku-{number}" for number in range(999))]
    tracemalloc.start()
    try:
        index.add(np.zeros((1000, 1), np.uint8), names)
        assert index.codes_of(names).shape == (1000, 1)
        with pytest.raises(TypeError, match=r"^ids holds texts and others; it must hold integers, or texts$"):
            index.codes_of([*names, 7])
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_large_ids_leave_room_for_automatic_ones():
    index, code = Index(8), np.zeros((1, 1), np.uint8)
    index.add(code, [2**63 - 1])
    assert index.add(code).tolist() == [0]
    index.remove([2**63 - 1])
    index.add(code, [2**62 - 2])
    assert [index.add(code).tolist() for _ in range(3)] == [[2**62 - 1], [2**62], [2**62 + 1]]


def test_metadata_of_data_frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"price": [3.5, 1.0], "color": ["red", "blue"]}
    codes = np.array([[1], [2]], np.uint8)
    for frame in (pandas.DataFrame(columns, index=[7, 8]), polars.DataFrame(columns), pa.table(columns)):
        index = Index(8)
        assert index.add(codes, ids=["a", "b"], metadata=frame).tolist() == ["a", "b"]
        assert index.get(["b"]).to_pydict() == {"id": ["b"], "code": [b"\x02"], "price": [1.0], "color": ["blue"]}
        assert index.search(codes[:1], 2, where="price < 2").ids.tolist() == [["b"]]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.string_view(), ["red", None]),
        (pa.binary_view(), [b"red", None]),
        (pa.list_(pa.string_view()), [["red", None], []]),
        (pa.large_list(pa.binary_view()), [[b"red"], None]),
        (pa.list_(pa.string_view(), 1), [["red"], ["old"]]),
        (pa.struct([("color", pa.list_(pa.string_view()))]), [{"color": ["red"]}, {"color": None}]),
    ],
    ids=str,
)
def test_views_of_texts_and_bytes_can_be_taken_merged_and_exported(kind, values, tmp_path):
    column = pa.array(values, kind)  # as Polars hands over its columns; Arrow takes no rows of them
    index = Index(8)
    index.add(np.array([[1], [2]], np.uint8), [7, 3], {"color": column})
    index.add(np.array([[1], [2]], np.uint8), metadata=pa.table({"color": column}))
    index.remove([9])
    index.compact()
    assert index.metadata_of([7, 3, 8])["color"].to_pylist() == [*values, values[0]]
    assert export_index(index, tmp_path / "codes.parquet")["codes"] == 3


def test_upsert_replaces_what_is_there(tmp_path):
    index = Index(8)
    index.save(tmp_path / "i")
    assert index.path == tmp_path / "i"
    index.add(np.arange(9, dtype=np.uint8)[:, None], metadata={"n": range(9)})
    codes = np.array([[200], [201]], np.uint8)
    assert index.upsert(codes, ids=[3, 20], metadata={"n": [33, 200]}).tolist() == [3, 20]
    for opened in (index, Index.open(tmp_path / "i")):
        assert opened.ids().tolist() == [*range(9), 20]
        assert opened.codes_of([3, 20]).ravel().tolist() == [200, 201]
        assert opened.metadata_of([3])["n"].to_pylist() == [33]
    before = index.generation
    with pytest.raises(ValueError, match=r"^metadata 'n' is 'a' in row 0, of type string; the index has int64 there"):
        index.upsert(np.zeros((1, 1), np.uint8), ids=[3], metadata={"n": ["a"]})
    assert index.generation == before
    assert index.codes_of([3]).tolist() == [[200]]


def test_an_index_opened_for_reading_is_not_changed(tmp_path):
    index = Index(8)
    index.add(np.zeros((2, 1), np.uint8))
    index.save(tmp_path / "i")
    opened = Index.open(tmp_path / "i")
    for change in (lambda: opened.add(np.zeros((1, 1), np.uint8)), lambda: opened.remove([0]), opened.compact):
        with pytest.raises(ValueError, match=r"opened for reading; Index.open\(path, mode='a'\) changes it$"):
            change()
    Index.open(tmp_path / "i", "a").remove([0])
    assert Index.open(tmp_path / "i").ids().tolist() == [1]


@pytest.mark.parametrize(("name", "right"), [("ntotal", "len(index)"), ("load", "Index.open(path)"), ("foo", "'foo'")])
def test_a_first_guess_names_what_it_is_here(name, right):
    for where in (Index, Index(8)):
        with pytest.raises(AttributeError) as error:
            getattr(where, name)
        assert right in str(error.value)


def test_what_a_search_returns():
    index = Index(8)
    index.add(np.array([[0], [3]], np.uint8), ids=["a", "b"])
    found = index.search(np.array([[3]], np.uint8))
    distances, ids = found
    assert (distances.dtype, distances.tolist(), ids.tolist()) == (np.float32, [[0.0, 2.0]], [["b", "a"]])
    assert found.hamming.tolist() == [[0, 2]]
    assert repr(found) == "SearchResult(2 nearest of 1 query: distances, ids, hamming)"
    assert repr(index) == "Index(flat, 8 bits, 2 codes; model not known; in memory)"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_in_place_of_a_file_is_damage(tmp_path):
    index = Index(8)
    index.add(np.zeros((1, 1), np.uint8))
    index.save(tmp_path / "i")
    (file,) = (tmp_path / "i").glob("*codes.npy")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ValueError, match=r"index is damaged: .*codes.npy is not a file"):
        Index.open(tmp_path / "i").verify()
