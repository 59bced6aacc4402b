"""Collections of Milvus, in files of Milvus Lite, against the flat index."""

from __future__ import annotations

import importlib.util
import json
import re
import socket
import sys
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lbhash.codes import hamming_distances
from lbhash.codes.io import CodeTable, write_codes
from lbhash.index import Index
from lbhash.index.base import check_model
from lbhash.index.factory import build_index
from lbhash.index.milvus import collection as milvus_module
from lbhash.index.milvus import connection as connection_module
from lbhash.index.milvus.address import parse_address
from lbhash.index.milvus.fields import check_schema, to_rows

pytestmark = pytest.mark.end_to_end

needs_lite = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("pymilvus", "milvus_lite", "pkg_resources")),
    reason="needs pymilvus and Milvus Lite (pip install 'lbhash[milvus]')",
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The address of a file of Milvus Lite, whose process ends with the module's tests."""
    file = tmp_path_factory.mktemp("milvus") / "codes.db"
    yield f"milvus+{file}"
    from milvus_lite.server_manager import server_manager_instance

    server_manager_instance.release_server(str(file))


def draw(rng, count, bits):
    return np.packbits(rng.integers(0, 2, (count, bits), dtype=np.uint8), axis=1)


def table_of(rng, count, bits, model="0a1b"):
    """Codes with columns of every type that travels."""
    names = pa.array([None if row % 7 == 3 else f"t{row % 4} \"'\\é" for row in range(count)])
    times = pa.array(rng.integers(0, 10**9, count), pa.timestamp("s"))
    further = pa.table({"a title": names, "seen": times, "weight": pa.array(rng.random(count), pa.float32())})
    return CodeTable(draw(rng, count, bits), bits, np.arange(count), rng.integers(0, 3, count), model, further)


def flat_of(table, ids=None):
    from lbhash.index.factory import metadata_of_codes

    index = Index(table.bits, model=table.model)
    index.add(table.codes, table.rows if ids is None else ids, metadata_of_codes(table))
    return index


def assert_same(found, expected):
    for left, right in zip(found, expected, strict=True):
        np.testing.assert_array_equal(left, right)


@contextmanager
def limited(limit, margin):
    """Milvus as if it returned no more codes than this, so that ties are cut and ranges of ids are halved."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(milvus_module, "LIMIT", limit)
        patch.setattr(milvus_module, "MARGIN", margin)
        yield


@pytest.fixture(scope="module")
def pair(base):
    """A collection and the flat index of the same 600 codes of 10 bits, of which many are alike."""
    rng = np.random.default_rng(0)
    table = table_of(rng, 600, 10)
    ids = rng.permutation(2000)[:600] - 1000
    ids[:2] = 2**63 - 1, -(2**63) + 2
    return build_index(table, f"{base}/pair", ids=ids), flat_of(table, ids)


@needs_lite
class TestSearch:
    @settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        seed=st.integers(0, 2**32 - 1),
        k=st.integers(1, 30) | st.integers(31, 700),
        radius=st.integers(0, 10),
        limit=st.sampled_from([16_384, 200, 40]),
        where=st.sampled_from(
            [None, {"label": 1}, {"label": ["0", "2"], "a title": "t2 \"'\\é"}, {"label": 7}, "-300 <= id < 200"]
        ),
    )
    def test_as_flat(self, pair, seed, k, radius, limit, where):
        queries = draw(np.random.default_rng(seed), 3, 10)
        with limited(limit, 8):
            assert_same(pair[0].search(queries, k, where=where), pair[1].search(queries, k, where=where))
            assert_same(
                pair[0].range_search(queries, radius, where=where), pair[1].range_search(queries, radius, where=where)
            )

    @pytest.mark.parametrize("bits", [7, 1024])
    def test_lengths(self, base, bits):
        rng = np.random.default_rng(bits)
        table = CodeTable(draw(rng, 40, bits), bits, np.arange(40), None)
        index, flat = build_index(table, f"{base}/bits_{bits}"), flat_of(table)
        queries = draw(rng, 4, bits)
        assert_same(index.search(queries, 40), flat.search(queries, 40))
        assert_same(index.range_search(queries, bits // 2), flat.range_search(queries, bits // 2))
        assert (len(index), index.bits, index.kind, index.label) == (40, bits, "milvus", "")
        np.testing.assert_array_equal(index.codes_of(flat.ids()), table.codes)
        index.verify()

    @pytest.mark.parametrize(
        "where",
        [
            {"seen": np.datetime64("1970-01-01T00:00:03")},
            {"seen": ["1970-01-01 00:00:03", "1970-01-01 00:00:05"], "day": "1970-01-02"},
            {"weight": [0.5, float("nan")]},
            {"weight": []},
            {"even": True},
            {"tags": ["b", "c"]},
            {"tags": "a", "even": False},
            {"row": np.int64(4)},
            {"id": ["sku 4", "sku 7, é", "sku 400"]},
            "10 <= row < 40 and even = true",
            "row < 5 or (even = false and tags in (b, c)) or row between 50 and 70",
            "weight >= 0.5, seen > '1970-01-01 00:00:03', tags in (b, c)",
        ],
    )
    def test_filters(self, kinds, where):
        queries = draw(np.random.default_rng(3), 2, 9)
        found = [index.search(queries, 60, where=where) for index in kinds]
        assert_same(*found)

    def test_attributes_come_back_as_they_were(self, pair, kinds):
        for index, flat in (pair, kinds):
            ids = np.random.default_rng(1).choice(flat.ids(), 50)
            assert ids.dtype == index.search(index.codes_of(ids[:1]), 1).ids.dtype == flat.ids().dtype
            assert index.metadata_of(ids).equals(flat.metadata_of(ids))
            np.testing.assert_array_equal(index.codes_of(ids), flat.codes_of(ids))
            np.testing.assert_array_equal(index.ids(), flat.ids())
            assert index.metadata_of([]).schema.names == flat.metadata_of([]).schema.names
            assert index.info()["ids"] == flat.info()["ids"]

    def test_what_the_arguments_must_be(self, pair):
        code = pair[0].codes_of([2**63 - 1])
        for wrong, said in (
            (lambda i: i.search(code, 1, where={"label": "red"}), "where wants 'label' to be 'red'"),
            (lambda i: i.codes_of([5000]), "ids holds 5000, which the index does not have"),
            (lambda i: i.remove([-(2**63) + 1]), "ids holds -9223372036854775807, which the index does not have"),
            (
                lambda i: i.vectors_of([1]),
                "index of kind milvus stores no vectors; make one with vectors=",
            ),
        ):
            for index in pair[: 1 + ("vectors" not in said)]:
                with pytest.raises((ValueError, TypeError), match=said):
                    wrong(index)
        for where, said in (
            ("label != 1", "where has 'not in' for 'label', a column of int64"),
            ("label is null", "where has 'is null' for 'label', a column of int64"),
            ("label = 1 or a title like t%", "where has 'like' for 'a title', a column of string"),
        ):
            with pytest.raises(ValueError, match=f"{said}, by which Milvus cannot filter"):
                pair[0].search(code, 1, where=where)


@pytest.fixture(scope="module")
def kinds(base):
    """A collection and the flat index of 60 codes with texts as ids and metadata of further types."""
    rng = np.random.default_rng(2)
    columns = pa.table(
        {
            "row": pa.array(range(60), pa.int32()),
            "seen": pa.array([None, *(row % 9 for row in range(59))], pa.timestamp("s")),
            "day": pa.array([row % 5 for row in range(60)], pa.int32()).cast(pa.date32()),
            "weight": pa.array([row % 4 / 2 for row in range(60)], pa.float32()),
            "even": [row % 2 == 0 for row in range(60)],
            "tags": [[], None, ["a"], ["b", "a"], ["c"], ["c", None]] * 10,
            "none": pa.nulls(60),
        }
    )
    table = CodeTable(draw(rng, 60, 9), 9, np.arange(60), None)
    flat = Index(9)
    ids = [f"sku {row}, é" if row % 2 else f"sku {row}" for row in range(60)]
    flat.add(table.codes, ids, columns)
    return build_index(table, f"{base}/kinds", ids=ids, metadata=columns), flat


class FewLists:
    """A server whose inverted file has the even ids in one list and the odd ones in another, and the state's row."""

    def __init__(self, flat):
        self.flat, self.asked = flat, []

    def search(self, *, data, limit, filter, search_params, **_):
        params = search_params["params"]
        self.asked.append((len(data), limit, filter, params))
        ids = self.flat.ids()
        ids = ids if params["nprobe"] == 2 else ids[ids % 2 == 0]
        for sign, bound in re.findall(r"id ([<>])= (-?\d+)", filter):
            ids = ids[ids <= int(bound)] if sign == "<" else ids[ids >= int(bound)]
        distances = hamming_distances(
            np.stack([np.frombuffer(code, np.uint8) for code in data]), self.flat.codes_of(ids)
        )
        answers = []
        for row in distances:
            kept = (row < params.get("radius", 99)) & (row >= params.get("range_filter", 0))
            order = np.argsort(row[kept][::-1], kind="stable")[:limit]  # of those as near, the last ones first
            hits = zip(ids[kept][::-1][order].tolist(), row[kept][::-1][order].tolist(), strict=True)
            answers.append([{"id": name, "distance": float(distance)} for name, distance in hits])
            if not filter:
                answers[-1] = [{"id": milvus_module._STATE_ID, "distance": 0.0}, *answers[-1]][:limit]
        return answers


class TestInvertedFile:
    @pytest.fixture
    def both(self):
        pytest.importorskip("pymilvus")
        flat = flat_of(table_of(np.random.default_rng(1), 80, 8))
        told = {"bits": 8, "model": "", "kind": "ivf", "options": {"nlist": 2, "nprobe": 1}}
        index = milvus_module.MilvusIndex(parse_address("milvus+http://host/c"), FewLists(flat), told)
        schema = flat.metadata_of([]).drop_columns(["id"]).schema
        index._state = milvus_module.MilvusState("", count=80, schema=schema)
        return index, flat

    def test_it_probes_as_many_lists_as_it_is_told(self, both):
        index = both[0]
        queries = draw(np.random.default_rng(2), 3, 8)
        even = flat_of(table_of(np.random.default_rng(1), 80, 8))
        even.remove(np.arange(1, 80, 2))
        assert_same(index.search(queries, 5), even.search(queries, 5))
        assert index._client.asked == [(3, 5 + milvus_module.MARGIN, "", {"nprobe": 1})]

    def test_it_reads_all_where_it_must_be_exact(self, both):
        index, flat = both
        queries = draw(np.random.default_rng(2), 3, 8)
        assert_same(index.search(queries, 41), flat.search(queries, 41))  # one list has 40
        assert_same(index.range_search(queries, 3), flat.range_search(queries, 3))
        index._client.asked.clear()
        index.search(queries, 4, where={"label": 1})
        assert {params["nprobe"] for *_, params in index._client.asked} == {2}

    def test_ties_beyond_what_milvus_returns(self, both):
        index, flat = both
        queries = draw(np.random.default_rng(2), 3, 8)
        with limited(20, 3):
            assert_same(index.search(queries, 60), flat.search(queries, 60))
            assert_same(index.range_search(queries[:0], 3), flat.range_search(queries[:0], 3))


@needs_lite
class TestChanges:
    def test_add_and_remove(self, base):
        rng = np.random.default_rng(4)
        table = table_of(rng, 30, 16)
        index, flat = build_index(table, f"{base}/changes"), flat_of(table)
        assert (index.generation, index.outdated(), index.model, index.label) == (1, False, "0a1b", "label")
        reader = Index.open(f"{base}/changes", mode="a")
        more = flat.metadata_of(range(5)).drop_columns(["id"])
        for change in (
            lambda i: i.add(draw(np.random.default_rng(5), 5, 16), [99, 40, 50, 45, 46], more),
            lambda i: i.remove([3, 99, 0]),
            lambda i: i.add(draw(np.random.default_rng(6), 5, 16), None, more),  # from 100: 99 was there
            lambda i: i.add(draw(np.random.default_rng(6), 2, 16), [0, 3], more.slice(0, 2)),
        ):
            change(index)
            change(flat)
            assert reader.outdated()
            reader = Index.open(f"{base}/changes", mode="a")
            assert (reader.generation, len(reader)) == (index.generation, len(index)) == (flat.generation, len(flat))
            queries = draw(rng, 3, 16)
            assert_same(reader.search(queries, len(flat)), flat.search(queries, len(flat)))
            reader.verify()
        assert index.ids()[-1] == 104
        before = index.generation
        for wrong, said in (
            (lambda i: i.add(draw(rng, 1, 16), [40], more.slice(0, 1)), "ids holds 40, which the index already has"),
            (
                lambda i: i.add(draw(rng, 1, 16), [7000], more.slice(0, 1), vectors=[[1.0]]),
                "vectors are given, and",
            ),
        ):
            for either in (index, flat):
                with pytest.raises((ValueError, TypeError), match=said):
                    wrong(either)
        index.add(np.empty((0, 2), np.uint8), metadata=more.slice(0, 0))
        assert index.remove([]) == 0
        assert (Index.open(f"{base}/changes", mode="a").generation, len(index)) == (before, len(flat))

    def test_texts_as_ids(self, base):
        codes, more = draw(np.random.default_rng(6), 4, 16), draw(np.random.default_rng(7), 1, 16)
        index = build_index(CodeTable(codes, 16, np.arange(4), None), f"{base}/texts", ids=list("abcd"), metadata={})
        with pytest.raises(ValueError, match="ids holds 'c', which the index already has; upsert"):
            index.add(more, ["c"])
        with pytest.raises(ValueError, match="ids holds 'e', which the index does not have"):
            index.remove(["a", "e"])
        index.remove(["c", "a"])
        index.add(more, ["e"])
        assert sorted(Index.open(f"{base}/texts", mode="a").ids()) == ["b", "d", "e"]
        assert index.search(more, 1).ids.tolist() == [["e"]]
        least = CodeTable(codes[:1], 16, np.array([-(2**63) + 1]), None)
        with pytest.raises(ValueError, match="in Milvus an integer must be at least -9223372036854775806"):
            build_index(least, f"{base}/least", metadata={})

    def test_a_copy_without_milvus(self, pair, tmp_path):
        pair[0].save(tmp_path / "copy")
        copied = Index.open(tmp_path / "copy", mode="a")
        copied.verify()
        ids = pair[1].ids()
        np.testing.assert_array_equal(copied.ids(), ids)
        assert copied.metadata_of(ids).equals(pair[1].metadata_of(ids))
        assert (copied.kind, copied.model) == ("flat", "0a1b")

    def test_a_failed_add_leaves_nothing(self, base, monkeypatch):
        table = table_of(np.random.default_rng(8), 40, 8)
        index = build_index(replace(table, codes=table.codes[:10], rows=table.rows[:10]), f"{base}/failed", metadata={})
        monkeypatch.setattr(milvus_module, "BATCH_ROWS", 7)
        call = index._call

        def failing(name, **arguments):
            if name == "upsert" and arguments["data"][0]["id"] == 24:
                raise ConnectionError("the cable")
            return call(name, **arguments)

        monkeypatch.setattr(index, "_call", failing)
        with pytest.raises(ConnectionError, match="the cable"):
            index.add(table.codes[10:])
        monkeypatch.undo()
        again = Index.open(f"{base}/failed", mode="a")
        again.verify()
        assert (len(again), again.generation, again.ids().tolist()) == (10, 1, list(range(10)))

    @pytest.mark.parametrize("what", ["add", "remove"])
    def test_a_change_that_is_cut_short_is_repeated(self, base, monkeypatch, what):
        table = table_of(np.random.default_rng(9), 40, 8)
        address = f"{base}/cut_{what}"
        index = build_index(replace(table, codes=table.codes[:30], rows=table.rows[:30]), address, metadata={})
        monkeypatch.setattr(milvus_module, "BATCH_ROWS", 4)
        calls = []

        class Killed(BaseException):
            pass

        call = index._call

        def dying(name, **arguments):
            calls.append(name)
            if len(calls) > 8 or "dead" in calls:  # nothing is taken back either
                calls.append("dead")
                raise Killed
            return call(name, **arguments)

        change = {
            "add": lambda i: i.add(table.codes[20:], np.arange(100, 120)),
            "remove": lambda i: i.remove(range(5, 25)),
        }[what]
        monkeypatch.setattr(index, "_call", dying)
        with pytest.raises(Killed):
            change(index)
        after = Index.open(address, mode="a")
        told = {"add": "an add of 20 codes .ids 100 to 119.", "remove": "a removal of 20 codes .ids 5 to 24."}[what]
        assert after.info()["unfinished"]["codes"] == 20
        with pytest.raises(ValueError, match=f"index is damaged: {told} was cut short; repeat it"):
            after.verify()
        with pytest.raises(ValueError, match=f"index has {told} that was cut short; repeat it before anything else"):
            after.remove([0])
        change(after)
        after.verify()
        expected = [*range(30), *range(100, 120)] if what == "add" else [*range(5), *range(25, 30)]
        assert after.ids().tolist() == expected
        assert after.info()["unfinished"] is None

    def test_two_writers(self, base, monkeypatch):
        table = table_of(np.random.default_rng(10), 10, 8)
        index = build_index(table, f"{base}/writers", metadata={})
        insert = index._insert

        def meanwhile(*arguments):
            other = Index.open(f"{base}/writers", mode="a")
            other._write_state(replace(other._state, unfinished=None, generation=7))
            insert(*arguments)

        monkeypatch.setattr(index, "_insert", meanwhile)
        with pytest.raises(ValueError, match="which another writer has changed meanwhile"):
            index.add(table.codes, np.arange(20, 30))
        with pytest.raises(ValueError, match="index is damaged: the collection has 20 codes and not 10"):
            Index.open(f"{base}/writers", mode="a").verify()


@needs_lite
class TestWhatIsThere:
    def test_a_collection_is_not_replaced_unasked(self, base):
        table = table_of(np.random.default_rng(11), 12, 8, model="new")
        build_index(replace(table, model="old"), f"{base}/there")
        with pytest.raises(ValueError, match="/there', which already holds an index; give another, or overwrite=True"):
            build_index(table, f"{base}/there")
        assert Index.open(f"{base}/there", mode="a").model == "old"
        index = build_index(table, f"{base}/there", overwrite=True)
        assert Index.open(f"{base}/there", mode="a").model == "new"
        check_model(index, "new", 8)
        with pytest.raises(
            ValueError,
            match="index and the model do not go together: codes of model new and of model other; use one model",
        ):
            check_model(index, "other", 8)

    def test_nothing_is_written_for_what_does_not_fit(self, base):
        table = table_of(np.random.default_rng(12), 4, 8)
        for arguments, said in (
            ({"kind": "ivf"}, "kind is 'ivf'; a file of Milvus Lite has flat only"),
            ({"store": "outputs"}, "vectors is 'outputs'; Milvus stores codes and metadata only"),
            ({"metadata": {"blob": [b"x"] * 4}}, "metadata 'blob' holds binary, which Milvus cannot hold here"),
            ({"metadata": {'a"b': range(4)}}, "has a name that Milvus cannot hold"),
        ):
            with pytest.raises(ValueError, match=said):
                build_index(table, f"{base}/none", **arguments)
            with pytest.raises(ValueError, match="/none', and there is no such collection"):
                Index.open(f"{base}/none", mode="a")

    def test_foreign_and_damaged_collections(self, base):
        table = table_of(np.random.default_rng(13), 12, 12)
        index = build_index(table, f"{base}/damaged")
        client = index._client
        client.create_collection("foreign", dimension=4)
        for overwrite in (False, True):
            with pytest.raises(ValueError, match="/foreign', a collection that holds no index of lbhash"):
                build_index(table, f"{base}/foreign", overwrite=overwrite)
        settings = {"bits": 12, "model": "", "kind": "flat", "options": {}}
        for name, version, said in (
            ("older", 1, "of format 1; this lbhash reads format 2 alone: build the index in another collection"),
            ("unfinished", 2, "which was never finished; build it again"),
        ):
            connection_module.create_collection(
                client, parse_address(f"{base}/{name}"), settings | {"version": version}
            )
            with pytest.raises(ValueError, match=said):
                Index.open(f"{base}/{name}", mode="a")
        client.upsert("damaged", data=[{"id": 3, "code": b"\xff\xff", "metadata": {}}])
        with pytest.raises(ValueError, match="index is damaged: codes has a bit beyond the first 12 set in row"):
            index.verify()
        client.insert("damaged", data=[{"id": 3, "code": b"\xff\x0f", "metadata": {}}])
        client.delete("damaged", ids=[5])
        with pytest.raises(ValueError, match="index is damaged: "):
            index.verify()

    def test_files(self, tmp_path):
        with pytest.raises(ValueError, match="and there is no such file"):
            Index.open(f"milvus+{tmp_path}/none.db", mode="a")
        table = table_of(np.random.default_rng(14), 4, 8)
        with pytest.raises(ValueError, match="there is no such folder"):
            build_index(table, f"milvus+{tmp_path}/folder/none.db")
        assert list(tmp_path.iterdir()) == []

    def test_the_commands(self, base, command, tmp_path, monkeypatch):
        monkeypatch.setenv("LBHASH_MILVUS_TOKEN", "unused")
        table = replace(table_of(np.random.default_rng(15), 20, 8), extra_columns=None)
        write_codes(tmp_path / "codes.parquet", table)
        write_codes(tmp_path / "more.parquet", replace(table, rows=table.rows + 20))
        where = f"{base}/commands"
        build_index(table, tmp_path / "flat")

        def said(*arguments):
            status, out, errors = command(*arguments, "--json")
            assert (status, errors) == (0, "")
            return json.loads(out)

        facts = said("index", "build", "--codes", tmp_path / "codes.parquet", "--out", where)
        assert (facts["kind"], facts["search"], facts["codes"]) == ("milvus", "BIN_FLAT", 20)
        search = ("search", "--code", table.codes[3].tobytes().hex(), "-k", 7, "--where", "label in (0, 1)")
        found, expected = (said(*search, index)["queries"] for index in (where, tmp_path / "flat"))
        assert found == expected
        status, out, errors = command("index", "add", where, "--codes", tmp_path / "more.parquet")
        assert (status, f"20 codes added; {where} has 40" in out) == (0, True)
        assert "inserting" in errors
        assert said("index", "remove", where, "--ids", 3)["codes"] == 39
        assert said("info", where)["generation"] == 3
        assert said("index", "verify", where)["intact"] is True
        status, out, errors = command("index", "compact", where)
        assert (status, errors.count("\n")) == (2, 1)
        assert "which compacts itself" in errors


def test_a_server_that_is_not_there(command, monkeypatch):
    pytest.importorskip("pymilvus")
    monkeypatch.setattr(connection_module, "CONNECT_SECONDS", 2)
    monkeypatch.setenv("LBHASH_MILVUS_TOKEN", "me:secret")
    with socket.socket() as silent:  # takes connections and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"milvus+http://127.0.0.1:{silent.getsockname()[1]}/codes"
        started = time.monotonic()
        status, out, errors = command("info", address)
    assert time.monotonic() - started < 12
    assert (status, out, errors.count("\n")) == (2, "", 1)
    assert "Milvus says: Fail connecting to server on 127.0.0.1" in errors
    assert "secret" not in errors


def test_without_the_libraries(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(ValueError, match=r"needs pymilvus: pip install 'lbhash\[milvus\]'"):
        Index.open("milvus+http://localhost/codes", mode="a")


def test_the_secrets_of_an_error(monkeypatch):
    pytest.importorskip("pymilvus")
    from pymilvus.exceptions import MilvusException

    monkeypatch.setenv("LBHASH_MILVUS_TOKEN", "secret")
    address = parse_address("milvus+http://h/c")
    with pytest.raises(ConnectionError) as caught, connection_module.connection_errors(address):
        raise MilvusException(16, "no user\nhas the token secret")
    assert (caught.value.strerror, caught.value.filename) == (
        "Milvus says: no user has the token …",
        "milvus+http://h/c",
    )


class TestAddresses:
    @pytest.mark.parametrize(
        ("text", "uri", "collection"),
        [
            ("http://host/codes", "http://host:19530", "codes"),
            ("https://host/codes", "https://host:443", "codes"),
            ("http://[::1]:7/codes", "http://[::1]:7", "codes"),
            ("./x.db", "x.db", "lbhash"),
            ("/a/b.db/c/x.db/codes", "/a/b.db/c/x.db", "codes"),
        ],
    )
    def test_forms(self, monkeypatch, text, uri, collection):
        monkeypatch.setenv("LBHASH_MILVUS_TOKEN", "secret")
        address = parse_address("milvus+" + text)
        assert (address.uri, address.collection) == (uri, collection)
        assert (address.file is None) == ("://" in text) == (address.token == "secret")
        assert "secret" not in repr(address)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("http://host", "COLLECTION begins with a letter"),
            ("http://host/a-b", "COLLECTION begins with a letter"),
            ("http://host:port/c", "an address of Milvus is milvus"),
            ("http://me:secret@host/c", "credentials or options; put the token into LBHASH_MILVUS_TOKEN"),
            ("http://host/c?token=secret", "credentials or options; put the token into LBHASH_MILVUS_TOKEN"),
            ("x.sqlite", "an address of Milvus is milvus"),
            ("a b.db", "has at most 35 letters"),
        ],
    )
    def test_bad_ones(self, text, said):
        with pytest.raises(ValueError, match=said) as caught:
            parse_address("milvus+" + text)
        assert "secret" not in str(caught.value)


class TestAttributes:
    def test_numbers_that_json_has_not(self):
        table = pa.table({"x": [1.5, float("nan"), float("inf")]})
        assert to_rows(table) == [{"x": 1.5}, {"x": None}, {"x": None}]

    @pytest.mark.parametrize(
        "kind", [pa.uint64(), pa.binary(), pa.decimal128(5), pa.list_(pa.float32()), pa.struct([("a", pa.int8())])]
    )
    def test_types_that_do_not_travel(self, kind):
        with pytest.raises(ValueError, match="which Milvus cannot hold here; it may hold booleans"):
            check_schema(pa.schema([("x", kind)]))


def test_milvus_lite_may_take_its_time_to_start(base, monkeypatch):
    import pymilvus

    connect, failed = pymilvus.MilvusClient, []

    def slow(*arguments, **settings):
        if len(failed) < 3:
            failed.append(arguments)
            raise pymilvus.MilvusException(pymilvus.Status.CONNECT_FAILED, "Fail connecting to server")
        return connect(*arguments, **settings)

    monkeypatch.setattr(pymilvus, "MilvusClient", slow)
    table = table_of(np.random.default_rng(0), 20, 16)
    assert len(build_index(table, f"{base}/late")) == 20
    assert len(failed) == 3
    monkeypatch.setattr("lbhash.index.milvus.connection.START_SECONDS", 0)
    failed.clear()
    with pytest.raises(ConnectionError, match="Fail connecting to server"):
        Index.open(f"{base}/late", mode="a")
