"""``lbhash index`` and ``lbhash search``, by the program's own entry."""

from __future__ import annotations

import csv as plain_csv
import json
import re
from dataclasses import replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from lbhash import Hasher, TrainingArguments
from lbhash.codes import hamming_distances, unpack
from lbhash.codes.io import CodeTable, read_codes, write_codes
from lbhash.data import load_dataset
from lbhash.hasher import encode_split, fit_split
from lbhash.index import Index
from lbhash.index.factory import build_index
from lbhash.index.rerank import DISTANCE_WEIGHT

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a model of digits, the codes of its base, and an index of them that keeps the outputs."""
    folder = tmp_path_factory.mktemp("work")
    data = load_dataset("digits")
    hasher = fit_split(Hasher(bits=12, epochs=1, training=TrainingArguments(hidden=16)), data.train, data.classes)
    hasher.model_.metadata |= {"data": "digits", "protocol": "digits", "split_seed": 0}
    hasher.save_pretrained(folder / "model")
    base = data.base
    table = CodeTable(encode_split(hasher, base), 12, base.rows, base.labels, hasher.model_.fingerprint())
    write_codes(folder / "base.parquet", table)
    write_codes(
        folder / "query.npz", replace(table, codes=encode_split(hasher, data.query), rows=data.query.rows, labels=None)
    )
    return folder


@pytest.fixture
def inside(work, monkeypatch, tmp_path):
    """That folder as the working directory; what a test writes goes to ``tmp_path``."""
    monkeypatch.chdir(work)
    return tmp_path


def build(json_of, out, *arguments):
    return json_of("index", "build", "--out", out, *(arguments or ("--codes", "base.parquet")))


def test_from_a_model_and_from_codes(inside, json_of):
    facts = build(json_of, inside / "a", "digits", "--model", "model", "--kind", "ivf", "--option", "nprobe=3")
    assert (facts["kind"], facts["codes"], facts["bits"], facts["label"]) == ("ivf", 1597, 12, "label")
    assert facts["options"] == {"nlist": None, "nprobe": 3}
    assert facts["metadata"] == {"row": "int64", "label": "int64"}
    build(json_of, inside / "b")
    left, right = Index.open(inside / "a", mode="a"), Index.open(inside / "b", mode="a")
    np.testing.assert_array_equal(left.ids(), right.ids())
    np.testing.assert_array_equal(left.codes_of(left.ids()), right.codes_of(left.ids()))
    assert left.metadata_of(left.ids()).equals(right.metadata_of(left.ids()))
    assert left.model == right.model == Hasher.from_pretrained("model").model_.fingerprint()
    shown = json_of("info", inside / "a")
    assert shown == {"what": "index", "path": facts.pop("index"), **facts}
    assert json_of("index", "verify", inside / "a")["intact"] is True


def test_changes(inside, refuse, json_of):
    build(json_of, inside / "i")
    here = (inside / "i",)
    done = json_of("index", "add", *here, "--model", "model", "digits", "--split", "query")
    assert (done["added"], done["codes"], done["generation"]) == (200, 1797, 2)
    line = "ids holds 0, which the index already has; the ids are row numbers: --id-column 'next' takes new ones"
    assert line in refuse("index", "add", *here, "--codes", "base.parquet")
    done = json_of("index", "add", *here, "--codes", "base.parquet", "--id-column", "next")
    assert done["codes"] == 1797 + 1597
    done = json_of("index", "remove", *here, "--ids", 3, "--ids", 1797)
    assert (done["removed"], done["codes"], done["generation"]) == (2, 3392, 4)
    assert "ids holds 3, which the index does not have" in refuse("index", "remove", *here, "--ids", 3)
    for word in ("007", "-0"):  # which are no ids of the index
        line = f"--ids is '{word}'; it must be an integer such as 7, as the index's ids are"
        assert line in refuse("index", "remove", *here, "--ids", word)
    line = f"ids holds {2**64}; an integer must be at least -2^63 and below 2^63"
    assert line in refuse("index", "remove", *here, "--ids", 5, "--ids", 2**64)
    done = json_of("index", "compact", *here)
    assert (done["segments"], done["removed"], done["codes"]) == (1, 0, 3392)
    assert Index.open(inside / "i", mode="a").ids()[-1] == 1797 + 1596


def test_a_backup_of_codes_without_a_row_is_built_again(inside, command, json_of):
    """As after POST /v1/items without ``row``."""
    build(json_of, inside / "i")
    index = Index.open(inside / "i", mode="a")
    index.add(index.codes_of([0, 1]), metadata={"row": [None, 7], "label": [3, None]})
    command("index", "export", inside / "i", "--out", inside / "c.parquet")
    json_of("index", "build", "--codes", inside / "c.parquet", "--out", inside / "again")
    again, ids = Index.open(inside / "again"), index.ids()
    assert again.metadata_of(ids).equals(index.metadata_of(ids))
    np.testing.assert_array_equal(again.codes_of(ids), index.codes_of(ids))


def test_an_id_keeps_its_spaces(inside, json_of):
    index = Index(8)
    index.add(np.zeros((3, 1), np.uint8), ["a", "a ", " a"])
    index.save(inside / "i")
    for typed, left in (('"a "', ["a", " a"]), ('" a"', ["a"])):
        json_of("index", "remove", inside / "i", "--ids", typed)
        assert sorted(Index.open(inside / "i").ids()) == sorted(left)


def test_search_by_rows_and_by_codes(inside, succeed, json_of):
    build(json_of, inside / "i")
    where = ("--where", "label in (3, 5)")
    rows = ("--model", "model", inside / "i", "--data", "digits", "--row", 17, "--row", 1700)
    found = json_of("search", *rows, "-k", 4, *where, "--hamming")
    base, data = read_codes("base.parquet"), load_dataset("digits")
    codes = Hasher.from_pretrained("model").encode(data.base.embeddings[[17, 1700]])
    kept = np.isin(base.labels, (3, 5))
    for query, row, code in zip(found["queries"], (17, 1700), codes, strict=True):
        distances = hamming_distances(code[None], base.codes[kept])[0]
        order = np.lexsort((base.rows[kept], distances))[:4]
        assert (query["row"], query["code"]) == (row, code.tobytes().hex())
        assert [hit["id"] for hit in query["neighbors"]] == base.rows[kept][order].tolist()
        assert [hit["distance"] for hit in query["neighbors"]] == distances[order].tolist()
        assert [hit["metadata"]["label"] for hit in query["neighbors"]] == base.labels[kept][order].tolist()
        assert [hit["hamming"] for hit in query["neighbors"]] == distances[order].tolist()
    by_code = json_of("search", inside / "i", "--code", codes[0].tobytes().hex(), "--radius", 2)
    (query,) = by_code["queries"]
    near = hamming_distances(codes[:1], base.codes)[0] <= 2
    assert {hit["id"] for hit in query["neighbors"]} == set(base.rows[near].tolist())
    assert (query["row"], query["label"]) == (None, None)
    out, _ = succeed("search", inside / "i", "--code", codes[0].tobytes().hex(), "-k", 2)
    assert f"nearest to code {codes[0].tobytes().hex()}" in out


def test_neighbors_as_a_file(inside, command, succeed, json_of):
    build(json_of, inside / "i")
    out = inside / "n.parquet"
    arguments = ("--model", "model", inside / "i", "--data", "digits", "--row", 4, "--row", 9, "-k", 3, "--out", out)
    found = json_of("search", *arguments)
    table = pq.read_table(out)
    assert table.column_names == [
        "query",
        "query_row",
        "query_code",
        "rank",
        "id",
        "distance",
        "hamming",
        "row",
        "label",
    ]
    assert table["query"].to_pylist() == [0, 0, 0, 1, 1, 1]
    assert table["query_row"].to_pylist() == [4, 4, 4, 9, 9, 9]
    assert table["id"].to_pylist() == [hit["id"] for query in found["queries"] for hit in query["neighbors"]]
    assert "6 neighbors are in " in command("search", *arguments)[1]
    lists = Hasher.from_pretrained("model").encode(load_dataset("digits").base.embeddings[:20])
    tagged = CodeTable(lists, 12, np.arange(20), None, "", pa.table({"tags": [["a, b", 'c"'], None] * 10}))
    write_codes(inside / "c.parquet", tagged)
    for where in (inside / "i", inside / "c.parquet"):
        rows = ("search", "--model", "model", where, "--data", "digits", "--row", "4,9", "-k", 3)
        for file in (out, inside / "n.csv"):
            succeed(*rows, "--out", file)
        table, (names, *lines) = pq.read_table(out), list(plain_csv.reader((inside / "n.csv").read_text().splitlines()))
        assert (names, len(lines)) == (table.column_names, 6)
        for line, row in zip(lines, table.to_pylist(), strict=True):
            cells = [json.dumps(one) if isinstance(one, list) else one for one in row.values()]
            assert line == ["" if cell is None else str(cell) for cell in cells]


def test_neighbors_as_a_file_keep_columns_named_like_its_own(inside, succeed):
    names = ["distance", "metadata_distance", "rank"]
    index = Index(12)
    index.add(np.zeros((2, 2), np.uint8), metadata={name: [place, place] for place, name in enumerate(names)})
    index.save(inside / "named")
    succeed("search", inside / "named", "--code", "0000", "-k", 2, "--out", inside / "named.csv")
    head, line, _ = plain_csv.reader((inside / "named.csv").read_text().splitlines())
    held = dict(zip(head, line, strict=True))
    assert (held["metadata_metadata_distance"], held["metadata_distance"], held["metadata_rank"]) == ("0", "1", "2")


@pytest.mark.parametrize(
    ("typed", "rows"),
    [
        (("0-5",), range(6)),
        (("0:100",), range(100)),
        ((":3", "1790:"), [0, 1, 2, *range(1790, 1797)]),
        (("7, 3-4", "1"), [7, 3, 4, 1]),
        (("all",), range(1797)),
    ],
)
def test_many_rows_need_one_option(inside, json_of, typed, rows):
    given = [part for text in typed for part in ("--row", text)]
    found = json_of("search", "--model", "model", "base.parquet", "--data", "digits", *given, "-k", 1)
    assert [query["row"] for query in found["queries"]] == list(rows)


def test_rows_of_another_length_are_refused(inside, refuse):
    np.save(inside / "narrow.npy", np.ones((3, 5), np.float32))
    line = refuse("search", "--model", "model", "base.parquet", "--data", inside / "narrow.npy", "--row", 0)
    assert line == "lbhash: error: embeddings have 5 numbers a row; the model takes 64"


def test_the_second_stage(inside, refuse, json_of):
    build(json_of, inside / "i", "digits", "--model", "model", "--vectors", "embeddings")
    arguments = ("--model", "model", inside / "i", "--data", "digits", "--row", 1500, "-k", 5, "--rerank", "embeddings")
    (query,) = json_of("search", *arguments, "--candidates", 1597)["queries"]
    hasher, data = Hasher.from_pretrained("model"), load_dataset("digits")
    embeddings = data.base.take(slice(None))
    asked = data.base.embeddings[1500:1501].astype(np.float32)
    scores = 1 - embeddings @ asked[0] / np.linalg.norm(embeddings, axis=1) / np.linalg.norm(asked)
    codes = read_codes("base.parquet").codes
    scores = scores + DISTANCE_WEIGHT * hamming_distances(hasher.encode(asked), codes)[0] / 12
    np.testing.assert_allclose([hit["distance"] for hit in query["neighbors"]], np.sort(scores)[:5], atol=2e-3)
    assert "candidates is 4; it must be at least k (5)" in refuse("search", *arguments, "--candidates", 4)


def test_the_second_stage_of_codes_without_classes_is_by_the_cosine_alone(inside, json_of):
    data = load_dataset("digits")
    base, asked = data.base.take(slice(None)), data.base.embeddings[1500:1501].astype(np.float32)
    Hasher(12, method="itq").fit(data.train.take(slice(None))).save_pretrained(inside / "itq")
    build(json_of, inside / "i", "digits", "--model", inside / "itq", "--vectors", "embeddings")
    arguments = ("--model", inside / "itq", inside / "i", "--data", "digits", "--row", 1500, "-k", 5)
    arguments += ("--rerank", "embeddings", "--candidates", 1597, "--json")
    (query,) = json_of("search", *arguments)["queries"]
    scores = 1 - base @ asked[0] / np.linalg.norm(base, axis=1) / np.linalg.norm(asked)
    np.testing.assert_allclose([hit["distance"] for hit in query["neighbors"]], np.sort(scores)[:5], atol=2e-3)


def test_real_outputs_of_a_row_against_all_codes(inside, json_of):
    build(json_of, inside / "i")
    for where in (inside / "i", "base.parquet"):  # an index, and a file of codes
        arguments = ("--model", "model", where, "--data", "digits", "--row", 1500, "-k", 5)
        (query,) = json_of("search", *arguments)["queries"]
        hasher, table = Hasher.from_pretrained("model"), read_codes("base.parquet")
        asked = load_dataset("digits").base.embeddings[1500:1501].astype(np.float32)
        outputs = hasher.model_.outputs(asked)[0]  # joined, with tanh in them
        scores = (unpack(table.codes, 12) != np.where(outputs >= 0, 1, -1)) @ np.abs(outputs)
        np.testing.assert_allclose([hit["distance"] for hit in query["neighbors"]], np.sort(scores)[:5], rtol=1e-4)
        distances = dict(zip(table.rows, hamming_distances(hasher.encode(asked), table.codes)[0], strict=True))
        assert [hit["hamming"] for hit in query["neighbors"]] == [distances[hit["id"]] for hit in query["neighbors"]]


def test_codes_made_elsewhere(inside, command, json_of):
    signs = np.random.default_rng(0).choice([-1, 1], (50, 20)).astype(np.int8)
    np.save(inside / "c.npy", signs)
    facts = build(json_of, inside / "i", "--codes", inside / "c.npy", "--id-column", "next")
    assert (facts["bits"], facts["codes"], facts["label"], facts["model"]) == (20, 50, "", "")
    code = np.packbits(signs[7] > 0).tobytes().hex()
    (query,) = json_of("search", inside / "c.npy", "--code", code, "-k", 1)["queries"]
    assert [(hit["id"], hit["distance"], hit["label"]) for hit in query["neighbors"]] == [(7, 0, None)]
    assert "label" not in command("search", inside / "c.npy", "--code", code, "-k", 1)[1]


BUILD = ("build", "--out", "new", "--codes", "base.parquet")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("build", "--out", "new"),
            "DATA is missing; an index takes codes, or what a model makes of data: give DATA and --model, or --codes",
        ),
        (("build", "--out", "new", "--model", "model"), "DATA is missing; an index takes codes"),
        (
            (*BUILD, "digits"),
            "codes is 'base.parquet', and DATA is 'digits'; codes are taken as they are: leave",
        ),
        ((*BUILD, "--vectors", "outputs"), "the index stores outputs, which a file"),
        (("build", "--out", "new", "--codes", "no.parquet"), "and there is no such file"),
        ((*BUILD, "--kind", "tree"), "tree"),
        ((*BUILD, "--option", "nprobe"), "option is 'nprobe'; it must be NAME="),
        ((*BUILD, "--id-column", "title"), "id-column is 'title'; it must be row, next, or"),
        (("verify", "nowhere"), "and there is no such folder"),
        (("add", "base.parquet", "--codes", "base.parquet"), "which is a file; it must be a folder"),
    ],
)
def test_bad_commands(inside, work, arguments, said, refuse):
    assert said in refuse("index", *arguments)
    assert not (work / "new").exists()


def test_bad_searches(inside, refuse, json_of):
    build(json_of, inside / "i")
    here = ("search", inside / "i")
    row = (*here, "--model", "model", "--data", "digits", "--row", 1)
    for arguments, said in (
        (
            (*here, "--text", "a"),
            "--model is missing; rows, images and texts need the model that encodes them: give --model, or --code",
        ),
        (
            (*row, "--code", "0000"),
            "row is '1', and --code is '0000'; a search has queries of one kind: leave one of the two out",
        ),
        ((*here, "--code", "00"), "code is '00'; it must be 4 hexadecimal digits, for 12 bits"),
        ((*row, "--radius", 3, "-k", 2), "radius is 3, and -k is 2; within it all codes are returned, by distance"),
        (
            (*row, "--candidates", 5),
            "candidates is 5, and --rerank is not given; it says how many codes are ranked again: give --rerank, or",
        ),
        ((*row, "-k", 0, "--rerank", "outputs"), "k is 0; it must be at least 1"),
        ((*row, "--where", "label"), "where is 'label'; it must be conditions such as price < 20"),
        (
            (*row, "--where", "label < 3) or (label > 5", "--where", "label = 4"),
            "where is 'label < 3) or (label > 5'; it must be conditions such as price < 20",
        ),
        ((*row, "--rerank", "outputs"), "rerank is 'outputs' and the index stores no vectors"),
        (
            (*here, "--code", "0000", "--rerank", "embeddings"),
            "rerank is 'embeddings', and --code is '0000'; a code has no real",
        ),
        (
            (*here, "--code", "0000", "--rerank", "outputs"),
            "--rerank is 'outputs', and --code is '0000'; a code has no real",
        ),
        ((*row, "--out", "n.txt"), "out is 'n.txt'; it must end in .parquet or .csv"),
        ((*row[:-1], 2000), "row is 2000; it must be from 0 to 1796"),
        ((*row[:-1], "5-3"), "row is 5-3; it must be from 0 to 1796, the lower end first"),
        (
            (*row[:-1], "-5"),
            "row is '-5'; it must be a row counted from 0, such as 3; several, such as 3,7; a range, such",
        ),
    ):
        assert said in refuse(*arguments)


@pytest.fixture
def unencoding(monkeypatch):
    """No model may encode: what is refused is refused before."""

    def encode(*_):
        raise AssertionError("a model encodes")

    monkeypatch.setattr("lbhash.models.encoder.Encoder.outputs", encode)


def test_what_is_wrong_is_said_before_anything_is_encoded(inside, refuse, json_of, with_words, unencoding):
    build(json_of, inside / "i")
    source = (with_words, "--model", "model", "--split", "base")
    held = (inside / "i" / "index.json").read_bytes()
    for arguments, said in (
        (("build", "--out", inside / "i"), "which already holds an index; give another folder, or --overwrite"),
        (("build", "--out", with_words), "which is a file; it must be a folder"),
        (("build", "--out", inside / "n", "--option", "nprobe=3"), "--option has 'nprobe', which an index"),
        (("build", "--out", "milvus+x.db/c", "--vectors", "outputs"), "Milvus stores codes and metadata only"),
        (
            ("build", "--out", inside / "n", "--id-column", "wordy"),
            "id-column has 'wordy'; it must name columns of the",
        ),
        (("build", "--out", inside / "n", "--metadata", "nothing"), "metadata has 'nothing'"),
        (("add", inside / "i", "--id-column", "half"), "id-column is 'half', a column of double"),
        (("add", inside / "i", "--metadata", "half"), "metadata has 'half'; the index has none: leave it out"),
    ):
        assert said in refuse("index", *arguments, *source)
    assert not (inside / "n").exists()
    assert (inside / "i" / "index.json").read_bytes() == held


def test_another_models_codes(inside, refuse, json_of):
    write_codes(inside / "other.npz", replace(read_codes("base.parquet"), model="0123456789abcdef"))
    build(json_of, inside / "i", "--codes", inside / "other.npz")
    said = "index and the model do not go together: codes of model 0123456789abcdef and of model "
    assert said in refuse("search", inside / "i", "--model", "model", "--data", "digits", "--row", 0)
    arguments = ("index", "add", inside / "i", "--model", "model", "digits")
    assert said in refuse(*arguments)
    assert said.replace("the model", "codes") in refuse("index", "add", inside / "i", "--codes", "base.parquet")


def test_what_people_see(inside, succeed):
    out, _ = succeed("index", "build", "--codes", "base.parquet", "--out", inside / "i")
    assert "1,597" in out
    for arguments, said in (
        (("info", inside / "i"), "generation"),
        (("index", "verify", inside / "i"), "is intact: 1,597 codes, generation 1"),
        (("index", "remove", inside / "i", "--ids", 9), "1 codes removed"),
        (("index", "--help"), "build"),
    ):
        out, _ = succeed(*arguments)
        assert said in out


def test_attributes_of_any_type_are_printed_as_json(inside, json_of):
    when, share = datetime(2026, 5, 4, 3, 2, 1), [0.5, float("nan")]
    table = CodeTable(np.array([[1], [2]], np.uint8), 8, np.arange(2))
    build_index(table, inside / "typed", metadata={"when": [when, None], "share": share, "raw": [b"\xff", b""]})
    found = json_of("search", inside / "typed", "--code", "01", "-k", 2)
    first, second = (hit["metadata"] for hit in found["queries"][0]["neighbors"])
    assert (first["when"], first["share"], first["raw"]) == ("2026-05-04 03:02:01", 0.5, "ff")
    assert (second["when"], second["share"], second["raw"]) == (None, None, "")


@pytest.fixture
def with_words(inside, write_parquet):
    """The digits as a file with two more columns."""
    data = load_dataset("digits")
    embeddings, labels = data.base.embeddings, np.zeros(len(data.base.embeddings), np.int64)
    for part in (data.train, data.base, data.query):
        labels[part.rows] = part.labels
    words = [f"row {row}" for row in range(len(labels))]
    flags = {
        f"in_{name}": np.isin(np.arange(len(labels)), data.split(name).rows) for name in ("train", "base", "query")
    }
    return write_parquet(inside / "words.parquet", embeddings, label=labels, word=words, half=labels / 2, **flags)


def test_columns_of_any_table_travel(inside, with_words, succeed):
    whole = pq.read_table(with_words)
    (inside / "parts").mkdir()
    for at in range(3):
        pq.write_table(whole.slice(600 * at, 600), inside / "parts" / f"part-{at}.parquet")
    source = ("--model", "model", "--split", "base", "--metadata", "word", "--metadata", "half")
    for data, out in ((with_words, "wanted"), (inside / "parts", "found")):
        succeed("encode", data, *source, "--out", inside / f"{out}.parquet")
    assert pq.read_table(inside / "found.parquet").equals(pq.read_table(inside / "wanted.parquet"))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--metadata", "nothing"), r"metadata has 'nothing'; it must name columns of the data \(.*word.*\)"),
        (("--metadata", "label"), "metadata has 'label'; it must name columns of the data"),
        (("--metadata", "word", "--out", "x.npz"), "metadata is given and --out is 'x.npz'; only a .parquet file"),
        (("--metadata", "word", "DATA", "digits"), "metadata is word and data is 'digits'; it must be one table"),
    ],
)
def test_columns_that_cannot_travel(inside, with_words, refuse, arguments, line):
    given = {"--model": "model", "DATA": str(with_words), "--split": "base", "--out": "x.parquet"}
    given |= dict(zip(arguments[::2], arguments[1::2], strict=True))
    errors = refuse("encode", given.pop("DATA"), *(word for pair in given.items() for word in pair))
    assert re.search(line, errors)
    assert not (inside / "x.parquet").exists()


def test_the_column_id_of_data_has_the_ids(inside, refuse, json_of, with_words):
    table = pq.read_table(with_words)
    given = (inside / "d.parquet", "--model", "model", "--split", "query")
    pq.write_table(table.append_column("id", table["word"]), given[0])
    assert build(json_of, inside / "i", *given)["ids"] == "string"
    assert build(json_of, inside / "j", *given, "--id-column", "row")["ids"] == "int64"
    rows = Index.open(inside / "j", mode="a").ids()
    assert sorted(Index.open(inside / "i", mode="a").ids()) == sorted(f"row {row}" for row in rows)
    assert json_of("index", "add", inside / "i", *given[:3], "--split", "train")["added"] > 0
    pq.write_table(table.append_column("id", table["half"]), given[0])
    line = "--id-column is 'id', a column of double; it must hold integers or texts, or be row"
    assert line in refuse("index", "build", *given, "--out", inside / "k")


def test_texts_as_ids_all_the_way(inside, command, refuse, json_of, with_words):
    data, here = (with_words, "--model", "model"), (inside / "i",)
    facts = build(json_of, inside / "i", *data, "--split", "base", "--id-column", "word", "--metadata", "half")
    assert (facts["ids"], list(facts["metadata"])) == ("string", ["row", "label", "half"])
    more = (*here, *data, "--split", "query")
    line = "ids holds integers, and the index's ids are texts"
    assert line in refuse("index", "add", *more, "--id-column", "row")
    json_of("index", "add", *more)
    said = "which the index already has; upsert, or give another"
    assert said in refuse("index", "add", *more, "--id-column", "word", "--json")
    assert "ids holds 'row', which the index does not have" in refuse("index", "remove", *here, "--ids", "row")
    assert json_of("index", "remove", *here, "--ids", 'row 3,"row 4"', "--ids", "row 5")["removed"] == 3
    row = ("search", *here, *data[1:], "--data", with_words, "--row", 17, "-k", 3)
    neighbors = json_of(*row, "--where", "id in ('row 3', 'row 17', row 1790)")["queries"][0]["neighbors"]
    assert [hit["id"] for hit in neighbors] == ["row 17", "row 1790"]
    assert [hit["metadata"]["row"] for hit in neighbors] == [17, 1790]
    assert "row 17 " in command(*row)[1]
    for name in ("n.parquet", "n.csv"):
        command(*row, "--out", inside / name)
    assert pq.read_table(inside / "n.parquet")["id"].to_pylist() == csv.read_csv(inside / "n.csv")["id"].to_pylist()
    command("index", "export", *here, "--out", inside / "c.parquet")
    again = build(json_of, inside / "j", "--codes", inside / "c.parquet")
    assert again["metadata"] == facts["metadata"]
    one, other = Index.open(inside / "i", mode="a"), Index.open(inside / "j", mode="a")
    assert other.metadata_of(one.ids()).equals(one.metadata_of(one.ids()))
    by_file = json_of("search", inside / "c.parquet", *row[2:])["queries"]
    assert by_file == json_of(*row)["queries"]
