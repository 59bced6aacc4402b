"""Searches for several embeddings in one request, and the words that a search shares with the command."""

from __future__ import annotations

import base64
import json

import numpy as np
import pytest
from fastapi.testclient import TestClient

from app_answers import HOME, assert_refused
from lbhash.codes.io import CodeTable
from lbhash.data import load_table
from lbhash.index import build_index, open_index
from lbhash.service import Settings, create_app
from lbhash.service.settings import MAX_BATCH

ROWS = [1790, 0, 1, 1790, 777]


@pytest.fixture(scope="module")
def client(digits_service):
    with TestClient(create_app(digits_service), base_url=HOME) as client:
        yield client


@pytest.fixture(scope="module")
def embeddings():
    return load_table("digits").embeddings.astype(np.float32)


def search(client, **body):
    answer = client.post("/v1/search", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k": 7},
        {"radius": 3},
        {"radius": 16},
        {"radius": 2, "k": 5},
        {"where": {"label": [3, 5]}, "k": 9},
        {"rerank": "asymmetric", "candidates": 60, "k": 4},
        {"rerank": "asymmetric", "radius": 1},
    ],
)
def test_several_embeddings_are_as_many_searches(client, embeddings, options):
    packed = [base64.b64encode(row.astype("<f4")).decode() for row in embeddings[ROWS]]
    wanted = [search(client, embedding=row.tolist(), **options) for row in embeddings[ROWS]]
    for given in (embeddings[ROWS].tolist(), packed, [*packed[:2], *embeddings[ROWS[2:]].tolist()]):
        body = search(client, embeddings=given, **options)
        assert set(body) == {"answers", "generation", "milliseconds"}
        assert len(body["answers"]) == len(ROWS)
        for answer, alone in zip(body["answers"], wanted, strict=True):
            for one, other in zip(answer["neighbors"], alone["neighbors"], strict=True):
                assert (one["score"] or 0) == pytest.approx(other["score"] or 0, rel=1e-4)
                assert one | {"score": None} == other | {"score": None}
            assert answer["query"]["doubt"] == pytest.approx(alone["query"]["doubt"], abs=0.01)  # a rank
            assert answer["query"] | {"doubt": None} == alone["query"] | {"doubt": None}
            assert answer["within"] == alone["within"]


def test_one_embedding_in_a_list_is_answered_with_a_list(client, embeddings):
    (answer,) = search(client, embeddings=embeddings[:1].tolist())["answers"]
    assert answer["neighbors"] == search(client, embedding=embeddings[0].tolist())["neighbors"]


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ({"embeddings": []}, ("embeddings:", "at least 1")),
        ({"embeddings": [[0.0] * 64] * (MAX_BATCH + 1)}, ("embeddings:", "at most 100")),
        ({"embeddings": [[0.0] * 64, [0.0] * 63]}, ("embeddings.1 has 63 numbers", "takes 64")),
        ({"embeddings": [[0.0] * 64, ["a"] * 64]}, ("embeddings.1.0:", "number")),
        ({"embeddings": [[0.0] * 64, "AAA"]}, ("embeddings.1:", "base64")),
        ({"embeddings": [0.0] * 64}, ("embeddings.0:", "list")),
        ({"embeddings": "AAAA"}, ("embeddings:", "list")),
        ({"embeddings": [[0.0] * 64, [1e39] * 64]}, ("not finite",)),
        (
            {"embeddings": [[0.0] * 64] * 11, "k": 1000},
            ("11 embeddings", "k is 1,000", "11,000", "10,000"),
        ),
        ({"embeddings": [[0.0] * 64] * 11, "radius": 2}, ("k is 1,000", "smaller k")),
        ({"embeddings": [[0.0] * 64], "row": 1}, ("embeddings and row is given",)),
    ],
)
def test_several_that_cannot_be(client, body, parts):
    assert_refused(client.post("/v1/search", json=body), 422, *parts)


def test_a_batch_is_for_searches(client):
    assert_refused(client.post("/v1/encode", json={"embeddings": [[0.0] * 64]}), 422, "no such field")
    assert client.get("/v1/about").json()["limits"]["max_batch"] == MAX_BATCH


def test_the_largest_batch_of_an_empty_index(digits_service, tmp_path):
    model = open_index(digits_service.index).model
    build_index(CodeTable(np.zeros((1, 2), np.uint8), 16, np.arange(1), None, model), tmp_path / "i").remove([0])
    with TestClient(create_app(Settings(digits_service.model, tmp_path / "i")), base_url=HOME) as client:
        answers = search(client, embeddings=[[0.0] * 64] * MAX_BATCH)["answers"]
        assert [one["neighbors"] for one in answers] == [[]] * MAX_BATCH


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        (("-k", 7), {"k": 7}),
        (("--where", "label=3,5", "-k", 9), {"where": {"label": [3, 5]}, "k": 9}),
        (("--where", "label=3", "--where", "row=3,13,23"), {"where": {"label": 3, "row": [3, 13, 23]}}),
        (
            ("--rerank", "asymmetric", "--candidates", 60, "-k", 4),
            {"rerank": "asymmetric", "candidates": 60, "k": 4},
        ),
        (("--radius", 2), {"radius": 2}),
    ],
)
def test_the_words_of_the_command_mean_the_same(client, command, digits_service, embeddings, typed, given):
    told = ("search", "--index", digits_service.index, "--model", digits_service.model, "--data", "digits")
    status, out, errors = command(*told, "--row", 1790, *typed, "--json")
    assert (status, errors) == (0, "")
    wanted = json.loads(out)["queries"][0]["neighbors"]
    assert wanted
    found = search(client, embedding=embeddings[1790].tolist(), **given)["neighbors"]
    assert [(one["id"], one["distance"], one["attributes"]) for one in found] == [
        (one["id"], one["distance"], one["attributes"]) for one in wanted
    ]
    assert [one["score"] or 0 for one in found] == pytest.approx([one["score"] or 0 for one in wanted], rel=1e-4)
