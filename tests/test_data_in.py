"""Data as people have it: what the commands take of it, and what they say that they took."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from lbhash import Hasher, TrainingArguments
from lbhash.codes.io import read_codes
from lbhash.data import load_dataset, load_table
from lbhash.index import Index
from lbhash.pipeline.columns import open_columns
from lbhash.utils.arrays import as_matrix

ROWS, DIM, CLASSES = 60, 6, 3


@pytest.fixture(scope="module")
def vectors():
    """Embeddings of three classes, ``float32 [60, 6]``, and their class numbers."""
    rng = np.random.default_rng(0)
    labels = np.arange(ROWS) % CLASSES
    return (rng.normal(size=(ROWS, DIM)) + 4 * labels[:, None]).astype(np.float32), labels


@pytest.fixture(scope="module")
def model(vectors, tmp_path_factory):
    """A folder with a model that was trained on a file without flags (``holdout``)."""
    folder = tmp_path_factory.mktemp("model")
    hasher = Hasher(bits=8, epochs=1, progress=False, training=TrainingArguments(hidden=8)).fit(*vectors)
    hasher.model_.metadata |= {"protocol": "holdout", "split_seed": 0}
    hasher.save_pretrained(folder)
    return folder


def columns_of(embeddings, **others):
    return pa.table({"embedding": list(embeddings), **others})


def test_an_index_takes_all_rows_of_a_file_without_flags(vectors, model, succeed, tmp_path):
    pq.write_table(columns_of(vectors[0], label=vectors[1]), tmp_path / "rows.parquet")
    given = [str(tmp_path / "rows.parquet"), "--model", str(model)]
    _, said = succeed("index", "build", *given, "--out", str(tmp_path / "index"))
    assert len(Index.open(tmp_path / "index", mode="a")) == ROWS
    assert "left out" not in said
    succeed("index", "build", *given, "--split", "base", "--out", str(tmp_path / "base"))
    assert len(Index.open(tmp_path / "base", mode="a")) < ROWS


def test_an_index_of_a_file_with_flags_says_what_it_leaves_out(vectors, model, succeed, tmp_path):
    query = np.arange(ROWS) < 15
    flags = {"in_train": ~query, "in_base": ~query, "in_query": query}
    pq.write_table(columns_of(vectors[0], **flags), tmp_path / "rows.parquet")  # and no labels
    given = [str(tmp_path / "rows.parquet"), "--model", str(model), "--json"]
    out, said = succeed("index", "build", *given, "--out", str(tmp_path / "index"))
    assert json.loads(out)["codes"] == 45
    assert "the 45 base rows of the data are taken, and 15 are left out; --split all takes all 60" in said
    out, said = succeed("index", "add", str(tmp_path / "index"), *given, "--split", "query")
    assert json.loads(out)["codes"] == 60
    assert "left out" not in said


def test_rows_without_labels_are_encoded_indexed_and_searched(vectors, model, succeed, json_of, tmp_path):
    np.save(tmp_path / "rows.npy", vectors[0])
    given = [str(tmp_path / "rows.npy"), "--model", str(model)]
    succeed("encode", *given, "--out", str(tmp_path / "codes.parquet"))
    succeed("index", "build", *given, "--out", str(tmp_path / "index"))
    succeed("index", "add", str(tmp_path / "index"), *given, "--id-column", "next")
    assert len(Index.open(tmp_path / "index", mode="a")) == 2 * ROWS
    asked = ["search", str(tmp_path / "index"), *given[1:], "--data", given[0], "--row", "5"]
    nearest = json_of(*asked)["queries"][0]["neighbors"][0]
    assert (nearest["distance"], nearest["label"]) == (0, None)


def test_a_split_is_drawn_by_the_labels_that_the_model_was_trained_with(vectors, succeed, tmp_path):
    file = str(tmp_path / "rows.parquet")
    pq.write_table(columns_of(vectors[0], queue=vectors[1]), file)
    train = ["train", file, "--label-column", "queue", "--bits", "8", "--epochs", "1"]
    succeed(*train, "--out", str(tmp_path / "model"))
    given = [file, "--model", str(tmp_path / "model"), "--split", "query"]
    succeed("encode", *given, "--out", str(tmp_path / "codes.parquet"))
    succeed("encode", *given, "--label-column", "queue", "--out", str(tmp_path / "named.parquet"))
    found, named = (read_codes(tmp_path / f"{name}.parquet", "codes") for name in ("codes", "named"))
    np.testing.assert_array_equal(found.rows, named.rows)
    np.testing.assert_array_equal(found.labels, vectors[1][found.rows])


NAMES = np.array(["cat", "dog", "eel"])


def write_parts(table, folder):
    folder.mkdir()
    for part in range(3):
        pq.write_table(table.slice(20 * part, 20), folder / f"{part}.parquet")


def write_saved(table, folder):
    datasets = pytest.importorskip("datasets")
    whole = datasets.Dataset(table)
    if folder.name == "dict":
        whole = datasets.DatasetDict({"train": whole.select(range(40)), "test": whole.select(range(40, ROWS))})
    whole.save_to_disk(str(folder))


def write_json_lists(table, file):
    frame = table.to_pandas()
    frame.assign(embedding=frame["embedding"].map(lambda row: str(row.tolist()))).to_csv(file, index=False)


WRITERS = {
    "rows.parquet": pq.write_table,
    "rows.arrow": lambda table, file: pa.feather.write_feather(table, file, compression="uncompressed"),
    "rows.feather": lambda table, file: pa.feather.write_feather(table, file, compression="uncompressed"),
    "rows.jsonl": lambda table, file: table.to_pandas().to_json(file, orient="records", lines=True),
    "rows.csv": write_json_lists,
    "rows.npz": lambda table, file: np.savez(file, X=table["embedding"].to_pylist(), y=table["label"].to_pylist()),
    "parts": write_parts,
    "saved": write_saved,
    "dict": write_saved,
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_same_rows_from_every_format(vectors, tmp_path, name):
    WRITERS[name](columns_of(vectors[0], label=NAMES[vectors[1]]), tmp_path / name)
    table = load_table(tmp_path / name)
    np.testing.assert_allclose(table.embeddings, vectors[0], rtol=1e-6, atol=1e-9)
    assert (table.labels.tolist(), table.class_names) == (vectors[1].tolist(), tuple(NAMES))


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_a_column_for_each_number(vectors, tmp_path, suffix, capsys):
    import pandas as pd

    names = [f"emb_{at}" for at in range(DIM)][::-1]  # whose order is that of the numbers
    frame = pd.DataFrame(vectors[0], columns=names).assign(price=1.5, category=NAMES[vectors[1]])
    file = tmp_path / f"rows{suffix}"
    frame.to_parquet(file) if suffix == ".parquet" else frame.to_csv(file, index=False)
    table = load_table(file)
    np.testing.assert_allclose(table.embeddings, vectors[0][:, ::-1], rtol=1e-5)
    said = capsys.readouterr().err
    assert "the 6 columns 'emb_0' to 'emb_5', labels in 'category'" in said
    assert load_table(file, embedding_column="emb_[01]", label_column="none").embeddings.shape == (ROWS, 2)
    with pytest.raises(ValueError, match=r"^embedding_column is 'vec', and data is .* which has no such column"):
        load_table(file, embedding_column="vec")


def test_a_csv_without_names_of_columns_is_refused(vectors, tmp_path):
    np.savetxt(tmp_path / "rows.csv", vectors[0], delimiter=",", fmt=["%f", *["%e"] * (DIM - 1)])
    with pytest.raises(ValueError, match=rf"whose first line has the number {vectors[0][0, 0]:f} for a name; name all"):
        load_table(tmp_path / "rows.csv")


def test_other_names_of_columns(vectors, tmp_path, capsys):
    pq.write_table(pa.table({"vector": list(vectors[0]), "target": [0.5] * ROWS}), tmp_path / "a.parquet")
    table = load_table(tmp_path / "a.parquet")
    assert (table.embeddings.shape, table.labels) == ((ROWS, DIM), None)  # a measurement is no label
    assert "embeddings are in 'vector'" in capsys.readouterr().err
    pq.write_table(pa.table({"clip": list(vectors[0]), "kind": NAMES[vectors[1]]}), tmp_path / "b.parquet")
    table = load_table(tmp_path / "b.parquet", label_column="kind")
    assert (table.embeddings.shape, table.class_names) == ((ROWS, DIM), tuple(NAMES))
    pq.write_table(columns_of(vectors[0], labels=[["red", "big"], ["red"], []] * 20), tmp_path / "several.parquet")
    table = load_table(tmp_path / "several.parquet")
    assert (table.class_names, table.labels[:3].tolist()) == (("big", "red"), [[1, 1], [0, 1], [0, 0]])
    capsys.readouterr()
    np.savez(tmp_path / "c.npz", X=vectors[0], y=vectors[1])
    assert load_table(tmp_path / "c.npz").labels.tolist() == vectors[1].tolist()
    assert "c.npz': embeddings are in 'X', labels in 'y' (embedding_column," in capsys.readouterr().err


def test_rows_at_an_address(vectors, tmp_path, monkeypatch):
    import fsspec

    monkeypatch.setenv("LBHASH_CACHE", str(tmp_path / "cache"))
    memory = fsspec.filesystem("memory")
    for rows in (ROWS, 20):  # the second time it has changed
        pq.write_table(columns_of(vectors[0][:rows]), tmp_path / "rows.parquet")
        memory.put_file(str(tmp_path / "rows.parquet"), "/lbhash/rows.parquet")
        assert len(load_table("memory://lbhash/rows.parquet")) == rows
    with pytest.raises(ValueError, match=r"^data is 'memory://lbhash/no.parquet', which could not be fetched"):
        load_table("memory://lbhash/no.parquet")


def test_class_names_from_the_training_to_the_search(vectors, succeed, refuse, tmp_path):
    pq.write_table(columns_of(vectors[0], category=NAMES[vectors[1]]), tmp_path / "rows.parquet")
    rows = tmp_path / "rows.parquet"
    fast = ["--bits", "8", "--epochs", "2", "--hidden", "8"]
    succeed("train", rows, *fast, "--out", tmp_path / "model")
    assert Hasher.from_pretrained(tmp_path / "model").classes_.tolist() == NAMES.tolist()
    given = [rows, "--model", tmp_path / "model"]
    for split, suffix in (("query", "parquet"), ("base", "npz")):
        succeed("encode", *given, "--split", split, "--out", tmp_path / f"{split}.{suffix}")
    assert set(pq.read_table(tmp_path / "query.parquet")["label"].to_pylist()) == set(NAMES)
    codes = ["--queries", tmp_path / "query.parquet", "--base", tmp_path / "base.npz"]
    out, _ = succeed("evaluate", *codes, "--json")
    assert json.loads(out)["map"] > 0.5
    succeed("index", "build", *given, "--out", tmp_path / "index")
    asked = [tmp_path / "index", "--row", "1", "-k", "1", "--where", "label=dog"]
    out, _ = succeed("search", *given[1:], "--data", rows, *asked)
    assert "label dog" in out
    assert "the labels of queries are text, such as 'cat', and those of base are numbers" in refuse(
        "evaluate", *codes[:3], tmp_path / "base.npz", "--base-labels", base_numbers(tmp_path)
    )


def base_numbers(folder):
    count = len(np.load(folder / "base.npz")["codes"])
    np.save(folder / "numbers.npy", np.zeros(count, int))
    return folder / "numbers.npy"


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "objects", "frame"])
def test_rows_of_lists(vectors, kind):
    import pandas as pd
    import polars

    X, _ = vectors
    given = {
        "pandas": lambda: pd.Series(list(X)),
        "polars": lambda: polars.Series(X.tolist()),
        "arrow": lambda: pa.chunked_array([X.tolist()]),
        "objects": lambda: np.array([*list(X), None], object)[:-1],
        "frame": lambda: pd.DataFrame({"vector": list(X)}),
    }[kind]()
    np.testing.assert_array_equal(as_matrix(given, "X"), X)


def test_what_is_no_matrix(vectors):
    import pandas as pd
    import polars

    X, y = vectors
    both = {"vector": X.tolist(), "name": NAMES[y].tolist()}
    said = r"^X has a list in column 'vector' beside others; give columns of numbers, or one of lists$"
    for given, message in (
        (pd.DataFrame(both), said),
        (polars.DataFrame(both), said),
        (pd.DataFrame({"a": X[:, 0], "name": both["name"]}), r"^X has a text in column 'name' beside others"),
        (np.array([[1.0], [1.0, 2.0]], object), r"^X has 2 numbers in row 1; every row must have as many as the first"),
        (["a cat", "a dog"], r"^X has the text 'a cat' in row 0, .*; of texts name an encoder"),
    ):
        with pytest.raises(ValueError, match=message):
            Hasher(method="itq").fit(given)


def test_an_unfinished_training_is_not_overwritten(vectors, tmp_path):
    from lbhash.pipeline.train import train_files

    (tmp_path / "out" / "checkpoints").mkdir(parents=True)
    (tmp_path / "out" / "checkpoints" / "last.ckpt").write_bytes(b"eleven epochs")
    with pytest.raises(ValueError, match=r"^out is .*, which holds the checkpoint of an unfinished training; .*--res"):
        train_files("digits", tmp_path / "out", epochs=1, bits=8)
    assert (tmp_path / "out" / "checkpoints" / "last.ckpt").read_bytes() == b"eleven epochs"


def test_a_column_of_texts_named_id_is_not_lost(vectors, model, succeed, refuse, tmp_path):
    pq.write_table(columns_of(vectors[0], id=[f"sku-{row}" for row in range(ROWS)]), tmp_path / "rows.parquet")
    build = ["index", "build", "--model", model, tmp_path / "rows.parquet", "--out", tmp_path / "index"]
    assert "the column 'id' holds string, and --id-column is 'row'; rename it" in refuse(
        *build, "--metadata", "id", "--id-column", "row"
    )
    succeed(*build, "--metadata", "id")
    assert sorted(Index.open(tmp_path / "index", mode="a").ids()) == sorted(f"sku-{row}" for row in range(ROWS))


def test_the_numbers_of_the_page_have_the_names_of_classes():
    from lbhash.service.summary import Evidence, summarize

    codes = np.array([[0], [1], [254], [255]] * 5, np.uint8)
    labels = ["cat", "cat", "dog", "dog"] * 5
    found = json.loads(summarize(Evidence(codes, labels, 8, codes[:3], ["cat", "dog", "dog"])))
    assert [(row["label"], row["nearest"]) for row in found["classes"]] == [("cat", "dog"), ("dog", "cat")]
    assert [(row["label"], row["taken_for"]) for row in found["confused"]] == [("dog", "cat")]
    (row,) = json.loads(summarize(Evidence(codes, [["x"]] * 20, 8)))["classes"]  # lists of one class
    assert (row["label"], row["codes"], row["nearest"]) == ("x", 20, None)


def test_search_and_service_read_a_file_by_the_columns_of_the_training(vectors, succeed, json_of, tmp_path):
    from lbhash.service.engine import Engine
    from lbhash.service.settings import Settings

    table = columns_of(-vectors[0], own=list(vectors[0]), queue=vectors[1])  # not the column that is found by its name
    pq.write_table(table, tmp_path / "rows.parquet")
    rows = tmp_path / "rows.parquet"
    columns = ["--embedding-column", "own", "--label-column", "queue"]
    fast = ["--bits", "8", "--epochs", "2", "--hidden", "8"]
    succeed("train", rows, *columns, *fast, "--out", tmp_path / "model")
    given = [rows, "--model", tmp_path / "model"]
    succeed("index", "build", *given, "--out", tmp_path / "index")
    query = json_of("search", tmp_path / "index", *given[1:], "--data", rows, "--row", "4")["queries"][0]
    assert (query["neighbors"][0]["distance"], query["label"]) == (0, int(vectors[1][4]))
    settings = Settings(model=tmp_path / "model", index=str(tmp_path / "index"), data=tmp_path / "rows.parquet")
    engine = Engine(settings, None)
    np.testing.assert_array_equal(engine.rows.embeddings, vectors[0])


def test_columns_that_are_not_what_they_should_be(vectors, succeed, refuse, tmp_path):
    queue = pa.array(NAMES[vectors[1]]).dictionary_encode()
    pq.write_table(columns_of(vectors[0], queue=queue), tmp_path / "rows.parquet")
    given = ["train", tmp_path / "rows.parquet", "--bits", "6", "--method", "itq"]
    _, said = succeed(*given, "--out", tmp_path / "model")
    assert "rows.parquet has no column with a usual name for labels; it has queue; --label-column names one" in said
    _, said = succeed(*given, "--label-column", "none", "--out", tmp_path / "other")
    assert "names one" not in said
    (tmp_path / "rows.csv").write_text('embedding,text\n"[1, 2]",a cat\n')
    given = ["train", tmp_path / "rows.csv", "--embedding-column", "text", "--out", tmp_path / "third"]
    assert "column 'text' of data is 'a cat' in row 0; it must hold lists of numbers" in refuse(*given)


def test_a_model_that_is_saved_over_a_trained_one_leaves_no_metrics_of_that(vectors, tmp_path):
    hasher = Hasher(bits=6, method="itq").fit(vectors[0])
    hasher.save_pretrained(tmp_path)
    (tmp_path / "metrics.json").write_text("{}")
    hasher.save_pretrained(tmp_path)
    assert not (tmp_path / "metrics.json").exists()


def frame_of(vectors):
    import pandas as pd

    names = [f"emb_{at}" for at in range(DIM)]
    return pd.DataFrame(vectors[0].round(4), columns=names).assign(kind=np.array(["café", "déjà", "x"])[vectors[1]])


FILES = {
    "rows.tsv": (lambda frame, file: frame.to_csv(file, sep="\t", index=False), ""),
    "rows.CSV": (lambda frame, file: frame.to_csv(file, index=False), ""),
    "semicolons.csv": (lambda frame, file: frame.to_csv(file, sep=";", index=False), "columns are separated by ';'"),
    "commas.csv": (lambda frame, file: frame.to_csv(file, sep=";", decimal=",", index=False), "have a decimal comma"),
    "tabs.csv": (lambda frame, file: frame.to_csv(file, sep="\t", index=False), "columns are separated by tabs"),
    "bars.csv": (lambda frame, file: frame.to_csv(file, sep="|", index=False), "columns are separated by '|'"),
    "latin.csv": (lambda frame, file: frame.to_csv(file, index=False, encoding="latin-1"), "not UTF-8 and read as"),
    "utf16.csv": (lambda frame, file: frame.to_csv(file, index=False, encoding="utf-16"), "read as utf-16"),
    "bom.csv": (lambda frame, file: frame.to_csv(file, index=False, encoding="utf-8-sig"), ""),
    "lines.csv": (lambda frame, file: frame.assign(text='a\n"b", c; d').to_csv(file, index=False), ""),
    "rows.csv.gz": (lambda frame, file: frame.to_csv(file, index=False), ""),
    "rows.tsv.gz": (lambda frame, file: frame.to_csv(file, sep="\t", index=False), ""),
    "list.json": (lambda frame, file: frame.to_json(file, orient="records"), ""),
    "lines.json": (lambda frame, file: frame.to_json(file, orient="records", lines=True), ""),
    "rows.ndjson": (lambda frame, file: frame.to_json(file, orient="records", lines=True), ""),
    "rows.jsonl.gz": (lambda frame, file: frame.to_json(file, orient="records", lines=True), ""),
}


@pytest.mark.parametrize("name", FILES)
def test_files_as_people_have_them(vectors, tmp_path, name, capsys):
    """The rows in their order, and a line of what is unusual."""
    write_file, said = FILES[name]
    write_file(frame_of(vectors), tmp_path / name)
    table = load_table(tmp_path / name, label_column="kind")
    np.testing.assert_allclose(table.embeddings, vectors[0].round(4), atol=1e-6)
    assert [table.class_names[label] for label in table.labels] == frame_of(vectors)["kind"].tolist()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 + bool(said)
    assert said in lines[0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "latin-1"])
def test_codes_made_of_digits_stay_text(tmp_path, encoding):
    """As a number, "00123" would lose its zeros, and a number of 20 digits its last ones."""
    heads = "sku,size,big,é,e0,e1,zip5"
    lines = heads, "00123,1,18446744073709551616,é,007,1,01234", ",1234567890123456789,1,è,010,2,3", "7,3,2,ê,1,3,4"
    (tmp_path / "rows.csv").write_text("\n".join(lines), encoding=encoding)
    table = open_columns(tmp_path / "rows.csv", ["sku", "size", "big", "zip5"]).take(np.arange(3))
    assert table["sku"].to_pylist() == ["00123", None, "7"]
    assert table["zip5"].to_pylist() == ["01234", "3", "4"]
    assert table["size"].to_pylist() == [1, 1234567890123456789, 3]
    assert table["big"].to_pylist() == ["18446744073709551616", "1", "2"]
    assert load_table(tmp_path / "rows.csv").embeddings.tolist() == [[7, 1], [10, 2], [1, 3]]


def test_only_the_largest_group_of_numbered_columns_is_of_an_embedding(tmp_path):
    (tmp_path / "rows.csv").write_text("phone1,phone2,e0,e1,e2\n0170,2,007,1,2\n3,030,010,2,3\n")
    table = open_columns(tmp_path / "rows.csv", ["phone1", "phone2"]).take(np.arange(2))
    assert table.to_pydict() == {"phone1": ["0170", "3"], "phone2": ["2", "030"]}
    assert load_table(tmp_path / "rows.csv").embeddings.tolist() == [[7, 1, 2], [10, 2, 3]]


def test_text_that_is_no_table(tmp_path):
    for name, content, said in (
        ("a.json", b"[1, 2]", "which is not a list of JSON objects"),
        ("c.csv", b"0,5;1,5\n1,0;2,0\n", "whose first line has the number 0,5 for a name"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=said):
            load_table(tmp_path / name)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_an_arrow_file_is_read_by_its_footer(tmp_path, compression):
    """Polars writes files that do not begin with a schema, as streams do."""
    import polars

    rows = {"embedding": [[1.0, 2.0], [3.0, 4.0]] * 10, "label": ["b", "a"] * 10}
    polars.DataFrame(rows).write_ipc(tmp_path / "rows.arrow", compression=compression)
    table = load_table(tmp_path / "rows.arrow")
    assert table.embeddings.tolist() == rows["embedding"]
    assert table.labels.tolist() == [1, 0] * 10
    whole = (tmp_path / "rows.arrow").read_bytes()
    for damaged in (whole[:-30], whole[:-30] + b"\xff" * 20 + whole[-10:], whole[:8] + whole[-10:]):
        (tmp_path / "rows.arrow").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"which is damaged or no \.arrow file"):
            load_table(tmp_path / "rows.arrow")


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow"])
def test_metadata_may_be_views_of_texts_and_bytes(tmp_path, name):
    held = {"tags": [["red", None], [], ["new"]], "raw": [b"a", None, b"b"]}
    table = pa.table(held, pa.schema([("tags", pa.large_list(pa.string_view())), ("raw", pa.binary_view())]))
    if name == "rows.parquet":
        pq.write_table(table, tmp_path / name)
    else:
        with pa.ipc.new_file(tmp_path / name, table.schema) as opened:
            opened.write_table(table)
    taken = open_columns(tmp_path / name, list(held)).take(np.array([2, 0]))
    assert taken.to_pydict() == {key: [values[2], values[0]] for key, values in held.items()}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "lists"])
def test_a_frame_is_a_data_set(vectors, kind):
    import polars

    frame = frame_of(vectors)
    if kind == "lists":
        frame = frame[["kind"]].assign(vector=vectors[0].tolist())
    elif kind != "pandas":
        frame = polars.from_pandas(frame)
        frame = frame.to_arrow() if kind == "arrow" else frame.with_columns(polars.col("kind").cast(polars.Categorical))
    data = load_dataset(frame, label_column="kind")
    assert (data.name, data.class_names) == ("data", ("café", "déjà", "x"))
    every = np.concatenate([data.base.rows, data.query.rows])
    labels = np.concatenate([data.base.labels, data.query.labels])
    np.testing.assert_array_equal(labels, vectors[1][every])
    np.testing.assert_allclose(data.train.take(slice(None)), vectors[0][data.train.rows], atol=1e-4)
    assert load_table(frame, label_column="none").labels is None
    with pytest.raises(ValueError, match=r"^label_column is 'knd', and data is a frame, which has no such column"):
        load_table(frame, label_column="knd")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy"])
def test_labels_of_a_table_beside_embeddings(vectors, succeed, tmp_path, suffix):
    import pandas as pd

    products = pd.DataFrame({"id": range(ROWS), "category": NAMES[vectors[1]], "price": 1.5})
    np.save(tmp_path / "rows.npy", vectors[0])
    pq.write_table(columns_of(vectors[0], label=vectors[1][::-1]), tmp_path / "rows.parquet")
    products.to_csv(tmp_path / "products.csv", index=False)
    products.to_parquet(tmp_path / "products.parquet")
    np.save(tmp_path / "products.npy", NAMES[vectors[1]])
    labels = tmp_path / f"products{suffix}"
    column = {} if suffix == ".npy" else {"label_column": "category"}
    for rows in ("rows.npy", "rows.parquet"):
        table = load_table(tmp_path / rows, labels=labels, **column)
        assert [table.class_names[label] for label in table.labels] == NAMES[vectors[1]].tolist()
    if suffix == ".npy":
        return
    with pytest.raises(ValueError, match=r"^label_column is 'categry', and labels is .*; did you mean category\?"):
        load_table(tmp_path / "rows.npy", labels=labels, label_column="categry")
    train = ["train", tmp_path / "rows.parquet", "--labels", labels, "--label-column", "category"]
    succeed(*train, "--bits", "6", "--method", "itq", "--out", tmp_path / "model")
    given = [tmp_path / "rows.parquet", "--model", tmp_path / "model"]
    succeed("index", "build", *given, "--out", tmp_path / "index")  # whose column 'category' there is not


def test_labels_of_codes_in_a_table(vectors, tmp_path):
    import pandas as pd

    np.save(tmp_path / "codes.npy", np.where(vectors[0] > 0, 1, -1))
    pd.DataFrame({"id": range(ROWS), "category": NAMES[vectors[1]]}).to_csv(tmp_path / "labels.tsv", sep="\t")
    found = read_codes(tmp_path / "codes.npy", labels=tmp_path / "labels.tsv")
    assert (found.class_names, found.labels.tolist()) == (tuple(NAMES), vectors[1].tolist())
