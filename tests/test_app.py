from __future__ import annotations

import base64
import io
import json
import shutil

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from app_answers import HOME, assert_refused, found, png, wait_for
from lbhash import Hasher
from lbhash.codes import hamming_distances
from lbhash.codes.io import CodeTable
from lbhash.data import load_dataset, load_table
from lbhash.evaluation.report import evaluate
from lbhash.hasher import encode_split
from lbhash.index import Index, build_index
from lbhash.service import Settings, background, create_app
from lbhash.service.rows import GrayRows, Usual, open_rows
from lbhash.service.settings import MAX_BATCH
from lbhash.service.summary import neighborly, principal

BITS = 16
ROWS = [1790, 0, 1, 1790, 777]


@pytest.fixture(scope="module")
def hasher(digits_service):
    return Hasher.from_pretrained(digits_service.model)


def by_hand(code, index, k=None, radius=None, keep=lambda row: True):
    """Distances and ids of a search, by comparing with every code."""
    ids = np.array([name for name in index.ids().tolist() if keep(name)])
    distances = hamming_distances(code[None], index.codes_of(ids))[0]
    order = np.lexsort((ids, distances))
    if radius is not None:
        order = order[distances[order] <= radius]
    return distances[order][:k].tolist(), ids[order][:k].tolist()


def test_null_in_a_form_is_a_field_that_is_not_given(client):
    given = {"files": {"image": client.get("/v1/row/3/image").content}}
    wanted = found(client.post("/v1/search", **given))
    for name in ("k", "radius", "where", "rerank"):
        assert found(client.post("/v1/search", **given, data={name: "null"})) == wanted


def test_search_by_row_embedding_code_id_and_image_agree(client, digits_service, hasher):
    data, index = load_table("digits"), Index.open(digits_service.index, mode="a")
    row = int(index.ids()[40])
    code = hasher.encode(data.embeddings[row : row + 1])[0]
    wanted = by_hand(code, index, 7)
    for given in (
        {"row": row},
        {"id": row},
        {"embedding": data.embeddings[row].tolist()},
        {"embedding": base64.b64encode(data.embeddings[row].astype("<f4")).decode()},
        {"code": code.tobytes().hex()},
        {"code": code.tobytes().hex().upper()},
    ):
        answer = client.post("/v1/search", json={**given, "k": 7})
        assert found(answer) == wanted
        assert answer.json()["query"]["code"] == code.tobytes().hex()
    image = client.get(f"/v1/row/{row}/image").content
    assert found(client.post("/v1/search", files={"image": image}, data={"k": "7"})) == wanted


def test_what_a_neighbor_is(client, digits_service):
    index, labels = Index.open(digits_service.index, mode="a"), load_table("digits").labels
    body = client.post("/v1/search", json={"row": 1790, "k": 3}).json()
    asked = {"bits": BITS, "id": None, "row": 1790, "label": int(labels[1790]), "metadata": {}}
    assert {name: body["query"][name] for name in asked} == asked
    assert [one["rank"] for one in body["neighbors"]] == [1, 2, 3]
    for one in body["neighbors"]:
        assert one["row"] == one["id"]
        assert one["label"] == labels[one["id"]]
        assert one["metadata"] == {"row": one["id"], "label": one["label"]}
        assert one["code"] == index.codes_of([one["id"]])[0].tobytes().hex()
        assert one["score"] is None
    assert body["generation"] == index.generation
    spent = body["milliseconds"]
    assert 0 < spent["encode"] <= spent["total"]
    assert spent["search"] <= spent["total"]


@pytest.mark.parametrize("radius", [0, 3, 16])
def test_search_within_a_radius(client, digits_service, hasher, radius):
    index = Index.open(digits_service.index, mode="a")
    code = hasher.encode(load_table("digits").embeddings[:1])[0]
    everything = by_hand(code, index, radius=radius)
    answer = client.post("/v1/search", json={"row": 0, "radius": radius})
    assert found(answer) == tuple(part[:1000] for part in everything)
    assert answer.json()["within"] == len(everything[0])
    both = client.post("/v1/search", json={"row": 0, "radius": radius, "k": 20})
    assert found(both) == tuple(part[:20] for part in everything)
    assert both.json()["within"] is None
    filtered = client.post("/v1/search", json={"row": 0, "radius": radius, "where": "row < 500"})
    assert found(filtered) == by_hand(code, index, radius=radius, keep=lambda row: row < 500)


def test_encode(client, hasher):
    data = load_table("digits")
    for row in (0, 1790):
        body = client.post("/v1/encode", json={"row": row}).json()
        assert body["code"] == hasher.encode(data.embeddings[row : row + 1])[0].tobytes().hex()
        np.testing.assert_allclose(body["outputs"], hasher.model_.outputs(data.embeddings[row : row + 1])[0], rtol=1e-4)
        assert client.post("/v1/encode", files={"image": client.get(f"/v1/row/{row}/image").content}).json() == body
    assert client.post("/v1/encode", json={"code": "0b0c"}).json() == {"code": "0b0c", "bits": BITS, "outputs": None}


@pytest.mark.parametrize("name", ["digits", "characters"])
def test_gray_images_go_there_and_back(name):
    rows = open_rows(name)
    assert isinstance(rows, GrayRows)
    for row in range(0, len(rows), 71):
        small = Image.open(io.BytesIO(rows.image(row)))
        large = small.convert("RGB").resize((168, 168), Image.Resampling.NEAREST)
        for image in (small.convert("RGB"), large):
            np.testing.assert_array_equal(rows.embed(image), rows.embeddings[row])
        paper = Image.fromarray(255 - np.asarray(large))
        np.testing.assert_array_equal(rows.embed(paper), rows.embeddings[row])


def test_health_and_about(client, digits_service, hasher):
    index = Index.open(digits_service.index, mode="a")
    facts = {"generation": index.generation, "codes": len(index), "bits": BITS, "model": hasher.model_.fingerprint()}
    assert client.get("/health").json() == {"ready": True, "build": index.build, **facts}
    about = client.get("/v1/about").json()
    assert facts.items() <= about.items()
    assert (about["dim"], about["rows"], about["pictures"], about["takes_pictures"]) == (64, 1797, True, True)
    assert (about["columns"], about["label"], about["rerank"]) == (["row", "label"], "label", ["asymmetric"])


def test_row_images(client):
    answer = client.get("/v1/row/5/image")
    assert answer.headers["content-type"] == "image/png"
    pixels = np.asarray(Image.open(io.BytesIO(answer.content)))
    np.testing.assert_array_equal(np.rint(pixels * (16 / 255)).ravel(), load_table("digits").embeddings[5])
    for row, status in (("1797", 404), ("-1", 422), ("x", 422), ("1e3", 422), (str(2**63), 422), (str(2**62), 404)):
        assert_refused(client.get(f"/v1/row/{row}/image"), status)


def test_the_summary_is_an_evaluation_of_the_index(client, digits_service, hasher):
    body = wait_for(client, "/v1/summary", lambda body: body["state"] != "computing")
    dataset = load_dataset("digits")
    codes = [encode_split(hasher, part) for part in (dataset.query, dataset.base)]
    new = ~np.isin(dataset.base.rows, dataset.train.rows)
    report = evaluate(codes[0], dataset.query.labels, codes[1][new], dataset.base.labels[new], bits=BITS)
    whole = evaluate(codes[0], dataset.query.labels, codes[1], dataset.base.labels, bits=BITS)
    assert body["state"] == "ready"
    assert body["notes"] == ["mAP and what else is of queries: in 797 new rows, which were not trained on"]
    for name in ("map", "map_worst", "map_best", "map_macro", "knn_accuracy", "queries", "base"):
        assert body[name] == pytest.approx(getattr(report, name))
    for name in ("inter", "intra", "ratio"):
        assert body[name] == getattr(whole.bound, name)
    assert [one["map"] for one in body["classes"]] == report.by_class.map.tolist()
    assert [one["intra"] for one in body["classes"]] == whole.bound.intra_per_class.tolist()
    far = whole.bound.inter_matrix() + 99 * np.eye(10)
    assert [one["inter"] for one in body["classes"]] == far.min(axis=0).tolist()
    wrong = round((1 - report.knn_accuracy) * report.queries)
    shown = [one["queries"] for one in body["confused"]]
    assert shown == sorted(shown, reverse=True)
    assert sum(shown) == wrong or (sum(shown) < wrong and len(shown) == 12)
    assert all(one["label"] != one["taken_for"] and 0 < one["share"] <= 1 for one in body["confused"])


def test_the_map_has_a_place_for_every_code(client, digits_service):
    body = wait_for(client, "/v1/map", lambda body: body["state"] == "ready")
    ids = Index.open(digits_service.index, mode="a").ids().tolist()
    assert body["ids"] == body["rows"] == ids
    assert body["labels"] == load_table("digits").labels[ids].tolist()
    for axis in ("x", "y"):
        assert len(body[axis]) == len(ids)
        assert max(np.abs(body[axis])) <= 1


def test_metrics(digits_service):
    with TestClient(create_app(digits_service), base_url=HOME) as client:
        client.post("/v1/search", json={"row": 1})
        client.post("/v1/search", json={"row": -1})
        client.get("/v1/row/3/image")
        client.get("/nothing/of/the/kind")
        client.request("BREW", "/v1/search")
        lines = client.get("/metrics").text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values['lbhash_requests_total{method="POST",route="/search",status="200"}'] == "1.0"
    assert values['lbhash_requests_total{method="POST",route="/search",status="422"}'] == "1.0"
    assert values['lbhash_requests_total{method="GET",route="/row/{row}/image",status="200"}'] == "1.0"
    assert values['lbhash_requests_total{method="GET",route="none",status="404"}'] == "1.0"
    assert not any("BREW" in name for name in values)
    assert values['lbhash_request_seconds_count{route="/search"}'] in ("2.0", "3.0")
    assert values["lbhash_queue_depth"] == "0.0"


def test_the_page_and_its_headers(client):
    for path in ("/", "/docs", "/static/app.js", "/static/docs.js", "/static/style.css", "/static/icon.svg"):
        answer = client.get(path)
        assert answer.status_code == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-cache"
        assert "http://" not in answer.text.replace("http://www.w3.org/", "")
        assert "https://" not in answer.text
    assert client.get("/health").headers["cache-control"] == "no-store"
    for path in ("/redoc", "/static/../create.py", "/static/%2e%2e/create.py", "/static/nothing"):
        assert_refused(client.get(path), 404)


def test_without_data_and_backbone(digits_service):
    app = create_app(Settings(digits_service.model, digits_service.index))
    with TestClient(app, base_url=HOME) as client:
        about = client.get("/v1/about").json()
        assert (about["rows"], about["pictures"], about["takes_pictures"]) == (None, False, False)
        assert_refused(client.post("/v1/search", json={"row": 1}), 422, "no data")
        assert_refused(client.get("/v1/row/1/image"), 404, "no data")
        assert_refused(client.post("/v1/search", files={"image": png(np.zeros((8, 8)))}), 422, "no backbone")
        assert client.post("/v1/search", json={"id": 0}).json()["neighbors"][0]["row"] is None
        summary = wait_for(client, "/v1/summary", lambda body: body["state"] != "computing")
        assert (summary["map"], summary["confused"]) == (None, None)
        assert len(summary["classes"]) == 10
        assert "no data" in summary["notes"][0]


def test_an_index_of_queries_alone_is_shown_with_the_figures_of_the_training(tmp_path, digits_service, hasher):
    shutil.copytree(digits_service.model, tmp_path / "model")
    part = load_dataset("digits").query
    build_index(CodeTable(encode_split(hasher, part), BITS, part.rows, part.labels), tmp_path / "index")
    metrics = tmp_path / "model" / "metrics.json"
    figures = {"map": 0.5, "map_worst": 0.25, "map_best": 0.75, "map_macro": 0.5, "knn_accuracy": 1.0}
    metrics.write_text(json.dumps({"new_rows": figures, "trained_rows": None, "classes": [{"class": 3, "map": 0.25}]}))
    with TestClient(create_app(Settings(tmp_path / "model", tmp_path / "index", "digits")), base_url=HOME) as client:
        summary = wait_for(client, "/v1/summary", lambda body: body["state"] != "computing")
    assert summary["trained"] == {"searched": [{"name": "new rows", **figures}], "stored": []}
    assert (summary["codes"], summary["queries"], summary["map"], len(summary["classes"])) == (200, None, None, 10)
    assert [one["map"] for one in summary["classes"]] == [0.25 if label == 3 else None for label in range(10)]
    assert summary["notes"] == ["no mAP: the index holds nothing but the queries of the data"]
    for damaged in ({"new_rows": {"map": 7}}, {"alternatives": {"rows": [{"bytes": "x"}]}}, []):
        metrics.write_text(json.dumps(damaged))
        assert background._report(tmp_path / "model") == (None, {})


def test_an_index_that_does_not_answer_is_a_503(client, monkeypatch):
    def lost(*arguments, **options):
        raise ConnectionError("index is milvus+http://h/c, which does not answer")

    monkeypatch.setattr(Index, "search", lost)
    answer = client.post("/v1/search", json={"code": "0000"})
    assert answer.status_code == 503
    assert answer.json() == {"detail": "the index does not answer"}
    assert answer.headers["retry-after"] == "5"


def test_doubt_is_how_far_outputs_are_from_those_of_the_data(client, hasher):
    x = load_table("digits").embeddings[:200].astype(np.float32)
    outputs, usual = hasher.model_.outputs(x), Usual(hasher.model_, x, np.arange(len(x)))
    distances = np.linalg.norm(outputs[:, None] - outputs, axis=2)
    gaps = np.where(np.eye(200, dtype=bool), np.inf, distances).min(axis=1)
    small = np.median(np.abs(outputs)) / 4
    for row in range(0, 200, 20):
        judged = usual.judge(hasher.model_.outputs(x[row : row + 1])[0])
        assert judged["doubt"] == pytest.approx((gaps < gaps[row]).mean(), abs=0.011)
        assert judged["unsure"] == np.flatnonzero(np.abs(outputs[row]) < small).tolist()
    noise = np.random.default_rng(0).integers(0, 17, 64).tolist()
    assert client.post("/v1/search", json={"embedding": noise}).json()["query"]["doubt"] > 0.99
    found = client.post("/v1/search", json={"row": 1, "k": 1}).json()["query"]
    assert found["doubt"] < 1
    assert found["metadata"]["label"] == found["label"] == 1


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
        {"radius": 2, "where": {"label": [3, 5]}, "k": 9},
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
                # Equal codes have equal scores but for the last digits, and so any order among them.
                for name in ("rank", "distance", "code") if "rerank" in options else one:
                    assert one[name] == other[name]
            assert answer["query"]["doubt"] == pytest.approx(alone["query"]["doubt"], abs=0.01)  # a rank
            assert answer["query"] | {"doubt": None} == alone["query"] | {"doubt": None}
            assert answer["within"] == alone["within"]


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        ({"embeddings": []}, ("embeddings has 0 values; it must have at least 1",)),
        ({"embeddings": [[0.0] * 64] * (MAX_BATCH + 1)}, ("embeddings has 101 values; it must have at most 100",)),
        ({"embeddings": [[0.0] * 64, [0.0] * 63]}, ("embeddings.1 has 63 numbers", "takes 64")),
        ({"embeddings": [[0.0] * 64, "AAA"]}, ("embeddings.1:", "base64")),
        ({"embeddings": [0.0] * 64}, ("embeddings.0 is 0.0; it must be a list",)),
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
    model = Index.open(digits_service.index, mode="a").model
    build_index(CodeTable(np.zeros((1, 2), np.uint8), 16, np.arange(1), None, model), tmp_path / "i").remove([0])
    with TestClient(create_app(Settings(digits_service.model, tmp_path / "i")), base_url=HOME) as client:
        for options in ({}, {"rerank": "asymmetric"}, {"radius": 3}, {"where": {"row": 0}}):
            answers = search(client, embeddings=[[0.0] * 64] * MAX_BATCH, k=9, **options)["answers"]
            assert [one["neighbors"] for one in answers] == [[]] * MAX_BATCH


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        (("--where", "label=3", "--where", "row in (3,13,23)"), {"where": {"label": 3, "row": [3, 13, 23]}}),
        (("--where", "20 <= row < 500, label in (3, 5)"), {"where": "20 <= row < 500 and label in (3, 5)"}),
        (
            ("--asymmetric", "-k", 4),
            {"rerank": "asymmetric", "k": 4},
        ),
    ],
)
def test_the_words_of_the_command_mean_the_same(client, command, digits_service, embeddings, typed, given):
    told = ("search", "--index", digits_service.index, "--model", digits_service.model, "--data", "digits")
    status, out, errors = command(*told, "--row", 1790, *typed, "--json")
    assert (status, errors) == (0, "")
    wanted = json.loads(out)["queries"][0]["neighbors"]
    assert wanted
    found = search(client, embedding=embeddings[1790].tolist(), **given)["neighbors"]
    assert [(one["id"], one["distance"], one["metadata"]) for one in found] == [
        (one["id"], one["distance"], one["metadata"]) for one in wanted
    ]
    assert [one["score"] or 0 for one in found] == pytest.approx([one["score"] or 0 for one in wanted], rel=1e-4)


def tsne(signs):
    return np.frombuffer(neighborly(signs), np.float32).reshape(-1, 2)


@pytest.mark.parametrize("project", [principal, tsne])
def test_codes_of_a_class_lie_together(project):
    rng = np.random.default_rng(0)
    classes = np.repeat(np.arange(3), 20)
    centers = np.where(np.arange(24) // 8 == np.arange(3)[:, None], 1, -1)
    signs = np.where(rng.random((60, 24)) < 0.03, -1, 1) * centers[classes]
    plane = project(signs.astype(np.int8))
    assert (plane.shape, plane.dtype) == ((60, 2), np.float32)
    assert np.abs(plane).max() == pytest.approx(1)
    distances = np.linalg.norm(plane[:, None] - plane, axis=2)
    same = classes[:, None] == classes
    assert np.median(distances[same]) < 0.3 * np.median(distances[~same])


def test_codes_that_span_no_plane_or_have_one_far_off():
    assert np.abs(principal(np.ones((5, 8), np.int8))).max() == 0
    assert len(np.unique(principal(np.array([[1], [1], [-1]], np.int8)), axis=0)) == 2
    signs = np.ones((101, 64), np.int8)
    signs[np.arange(100), np.arange(100) % 4] = -1
    signs[100] = -1
    plane = principal(signs)
    assert np.ptp(plane[:100], axis=0).max() > 0.2
