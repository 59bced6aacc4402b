from __future__ import annotations

import base64
import io
import json
import shutil

import numpy as np
import pytest
from fastapi.testclient import TestClient
from PIL import Image

from app_answers import HOME, assert_refused, found, only, png, search, wait_for
from lbhash import Hasher
from lbhash.codes import hamming_distances
from lbhash.codes.io import CodeTable
from lbhash.data import load_dataset, load_table
from lbhash.evaluation.report import evaluate
from lbhash.hasher import encode_split
from lbhash.index import Index
from lbhash.index.factory import build_index
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
    given = {"files": {"image": client.get("/page/rows/3/image").content}}
    wanted = found(client.post("/v1/search", **given))
    for name in ("k", "radius", "where", "ranking", "rerank", "candidates"):
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
        answer = search(client, **given, k=7, ranking="hamming")
        assert found(answer) == wanted
        assert only(answer)["query"]["code"] == code.tobytes().hex()
    for path in (f"/page/rows/{row}/image", f"/v1/items/{row}/image"):
        image = client.get(path).content
        assert found(client.post("/v1/search", files={"image": image}, data={"k": "7", "ranking": "hamming"})) == wanted
    texts = [{"where": where, "k": 7} for where in ("label in (1, 7)", '"label in (1, 7)"', '{"label": [1, 7]}')]
    few, *same = (found(client.post("/v1/search", files={"image": image}, data=one)) for one in texts)
    assert same == [few, few]


def test_what_a_neighbor_is(client, digits_service):
    index, labels = Index.open(digits_service.index, mode="a"), load_table("digits").labels
    answer = search(client, row=1790, k=3, ranking="hamming")
    body, found = answer.json(), only(answer)
    asked = {"bits": BITS, "id": None, "label": int(labels[1790]), "metadata": {}}
    assert {name: found["query"][name] for name in asked} == asked
    code = np.frombuffer(bytes.fromhex(found["query"]["code"]), np.uint8)
    distances, ids = by_hand(code, index, 3)
    assert found["neighbors"] == [
        {
            "rank": place + 1,
            "id": name,
            "distance": float(distances[place]),
            "hamming": distances[place],
            "label": labels[name],
            "metadata": {"row": name, "label": labels[name]},
            "image": True,
            "code": index.codes_of([name])[0].tobytes().hex(),
        }
        for place, name in enumerate(ids)
    ]
    assert set(body) == {"answers", "generation", "milliseconds"}
    assert body["answers"][0]["ranking"] == "hamming"
    assert body["generation"] == index.generation
    spent = body["milliseconds"]
    assert 0 < spent["encode"] <= spent["total"]
    assert spent["search"] <= spent["total"]


@pytest.mark.parametrize("radius", [0, 3, 16])
def test_search_within_a_radius(client, digits_service, hasher, radius):
    index = Index.open(digits_service.index, mode="a")
    code = hasher.encode(load_table("digits").embeddings[:1])[0]
    everything = by_hand(code, index, radius=radius)
    answer = search(client, id=0, radius=radius)
    assert found(answer) == tuple(part[:1000] for part in everything)
    assert only(answer)["within"] == len(everything[0])
    both = search(client, id=0, radius=radius, k=20)
    assert found(both) == tuple(part[:20] for part in everything)
    assert only(both)["within"] is None
    filtered = search(client, id=0, radius=radius, where="row < 500")
    assert found(filtered) == by_hand(code, index, radius=radius, keep=lambda row: row < 500)


def test_encode(client, hasher):
    data = load_table("digits")
    rows = [0, 1790]
    x = data.embeddings[rows]
    queries = [{"embedding": row} for row in x.tolist()]
    body = client.post("/v1/encode", json={"queries": [*queries, {"code": "0b0c"}, {"id": 0}]}).json()
    *made, code, stored = body["answers"]
    assert [one["code"] for one in made] == [one.tobytes().hex() for one in hasher.encode(x)]
    np.testing.assert_allclose([one["outputs"] for one in made], hasher.model_.outputs(x), rtol=1e-4)
    assert code == {"code": "0b0c", "bits": BITS, "outputs": None, "embedding": None}
    assert stored == {**made[0], "outputs": None}
    images = [("image", client.get(f"/page/rows/{row}/image").content) for row in rows]
    assert client.post("/v1/encode", files=images).json() == {"answers": made}
    both = client.post("/v1/encode", files=images, data={"embeddings": "true"}).json()["answers"]
    assert [one["embedding"] for one in both] == x.tolist()


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


def test_health_and_info(client, digits_service, hasher):
    index = Index.open(digits_service.index, mode="a")
    facts = {"generation": index.generation, "codes": len(index), "bits": BITS, "model": hasher.model_.fingerprint()}
    assert client.get("/health").json() == {"ready": True, "build": index.build, **facts}
    info = client.get("/v1/info").json()
    assert facts.items() <= info.items()
    assert (info["dim"], info["rows"], info["images"], info["takes_images"]) == (64, 1797, True, True)
    assert (info["metadata"], info["label"]) == ({"row": "int64", "label": "int64"}, "label")
    assert info["rerank"] == []


def test_row_images(client):
    answer = client.get("/page/rows/5/image")
    assert answer.headers["content-type"] == "image/png"
    pixels = np.asarray(Image.open(io.BytesIO(answer.content)))
    np.testing.assert_array_equal(np.rint(pixels * (16 / 255)).ravel(), load_table("digits").embeddings[5])
    assert client.get("/v1/items/5/image").content == answer.content
    for name, *statuses in (("1797", 404, 404), ("-1", 404, 404), ("x", 422, 422), (str(2**63), 404, 422)):
        for place, status in zip(("/page/rows", "/v1/items"), statuses, strict=True):
            assert_refused(
                client.get(f"{place}/{name}/image"), status, f"is {name}" if status == 404 else f"is '{name}'"
            )


def test_the_summary_is_an_evaluation_of_the_index(client, digits_service, hasher):
    body = wait_for(client, "/page/summary", lambda body: body["state"] != "computing")
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
    body = wait_for(client, "/page/map", lambda body: body["state"] == "ready")
    ids = Index.open(digits_service.index, mode="a").ids().tolist()
    assert body["ids"] == ids
    assert all(body["images"])
    assert body["labels"] == load_table("digits").labels[ids].tolist()
    for axis in ("x", "y"):
        assert len(body[axis]) == len(ids)
        assert max(np.abs(body[axis])) <= 1


def test_metrics(digits_service):
    with TestClient(create_app(digits_service), base_url=HOME) as client:
        search(client, id=1)
        search(client, code="")
        client.get("/v1/items/3/image")
        search(client, row=1)
        client.get("/nothing/of/the/kind")
        client.request("BREW", "/v1/search")
        lines = client.get("/metrics").text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values['lbhash_requests_total{method="POST",route="/search",status="200"}'] == "1.0"
    assert values['lbhash_requests_total{method="POST",route="/search",status="422"}'] == "1.0"
    assert values['lbhash_requests_total{method="GET",route="/items/{id}/image",status="200"}'] == "1.0"
    assert values['lbhash_requests_total{method="POST",route="/page/search",status="200"}'] == "1.0"
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
    for asked in ("bytes=0-3", "bytes=99999999-", "bytes=5-2", "items=0-1"):  # a server may send all of a file
        for path in ("/", "/static/app.js"):
            assert client.get(path, headers={"Range": asked}).text == client.get(path).text


def test_without_data_and_backbone(digits_service):
    app = create_app(Settings(digits_service.model, digits_service.index))
    with TestClient(app, base_url=HOME) as client:
        info = client.get("/v1/info").json()
        assert (info["rows"], info["images"], info["takes_images"]) == (None, False, False)
        assert_refused(search(client, row=1), 404, "no data")
        assert_refused(client.get("/page/rows/1/image"), 404, "no data")
        assert_refused(client.get("/v1/items/1/image"), 404, "id is '1', which has no row")
        assert_refused(client.post("/v1/search", files={"image": png(np.zeros((8, 8)))}), 422, "no backbone")
        summary = wait_for(client, "/page/summary", lambda body: body["state"] != "computing")
        assert (summary["map"], summary["confused"]) == (None, None)
        assert len(summary["classes"]) == 10
        assert "no data" in summary["notes"][0]


def test_an_index_of_queries_alone_is_shown_with_the_figures_of_the_training(tmp_path, digits_service, hasher):
    shutil.copytree(digits_service.model, tmp_path / "model")
    part = load_dataset("digits").query
    build_index(CodeTable(encode_split(hasher, part), BITS, part.rows, part.labels), tmp_path / "index")
    metrics = tmp_path / "model" / "metrics.json"
    by_bits = {"map": 0.5, "map_worst": 0.25, "map_best": 0.75}
    figures = {"map": 0.5, "map_macro": 0.5, "knn_accuracy": 1.0, "by_bits": by_bits}
    metrics.write_text(json.dumps({"new_rows": figures, "trained_rows": None, "classes": [{"class": 3, "map": 0.25}]}))
    with TestClient(create_app(Settings(tmp_path / "model", tmp_path / "index", "digits")), base_url=HOME) as client:
        summary = wait_for(client, "/page/summary", lambda body: body["state"] != "computing")
    assert summary["trained"] == {"searched": [{"name": "new rows", **figures}], "stored": []}
    assert (summary["codes"], summary["queries"], summary["map"], len(summary["classes"])) == (200, None, None, 10)
    assert [one["map"] for one in summary["classes"]] == [0.25 if label == 3 else None for label in range(10)]
    assert summary["notes"] == ["no mAP: the index holds only the queries of the data"]
    for damaged in ({"new_rows": {"map": 7}}, {"alternatives": {"rows": [{"bytes": "x"}]}}, []):
        metrics.write_text(json.dumps(damaged))
        assert background._report(tmp_path / "model") == (None, {})


def test_an_index_that_does_not_answer_is_a_503(client, monkeypatch):
    def lost(*arguments, **options):
        raise ConnectionError("index is milvus+http://h/c, which does not answer")

    monkeypatch.setattr(Index, "search", lost)
    answer = search(client, code="0000")
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
    assert only(search(client, embedding=noise))["query"]["doubt"] > 0.99
    asked = only(search(client, row=1, k=1))["query"]
    assert asked["doubt"] < 1
    assert asked["metadata"]["label"] == asked["label"] == 1


@pytest.fixture(scope="module")
def embeddings():
    return load_table("digits").embeddings.astype(np.float32)


@pytest.mark.parametrize(
    "options",
    [
        {"radius": 2, "where": {"label": [3, 5]}, "k": 9},
        {"ranking": "real", "candidates": 60, "k": 4},
        {"ranking": "real", "radius": 1},
    ],
)
def test_several_queries_are_as_many_searches(client, embeddings, options):
    packed = [base64.b64encode(row.astype("<f4")).decode() for row in embeddings[ROWS]]
    wanted = [only(search(client, embedding=row, **options)) for row in embeddings[ROWS].tolist()]
    mixed = [*packed[:2], *embeddings[ROWS[2:]].tolist()]
    for given in (embeddings[ROWS].tolist(), packed, mixed):
        body = client.post("/v1/search", json={"queries": [{"embedding": one} for one in given], **options}).json()
        assert {one["ranking"] for one in body["answers"]} == {options.get("ranking", "hamming")}
        for answer, alone in zip(body["answers"], wanted, strict=True):
            for one, other in zip(answer["neighbors"], alone["neighbors"], strict=True):
                assert one["distance"] == pytest.approx(other["distance"], rel=1e-4)
                # Equal codes have equal distances but for the last digits, and so any order among them.
                for name in ("rank", "hamming", "code") if "ranking" in options else one:
                    assert one[name] == other[name]
            assert answer["query"]["doubt"] == pytest.approx(alone["query"]["doubt"], abs=0.01)  # a rank
            assert answer["query"] | {"doubt": None} == alone["query"] | {"doubt": None}
            assert answer["within"] == alone["within"]


def test_queries_of_several_kinds_go_together(client, embeddings):
    queries = [{"id": 3}, {"embedding": embeddings[1790].tolist()}, {"code": "00ff"}, {"id": "3"}]
    body = client.post("/v1/search", json={"queries": queries, "k": 4}).json()
    assert body["answers"] == [only(search(client, **query, k=4)) for query in queries]
    assert body["answers"][0] == body["answers"][3]
    assert [one["ranking"] for one in body["answers"]] == ["hamming", "real", "hamming", "hamming"]
    images = [client.get(f"/v1/items/{name}/image").content for name in (3, 5)]
    body = client.post("/v1/search", files=[("image", one) for one in images], data={"k": "4", "ranking": "real"})
    both = [only(client.post("/v1/search", files={"image": one}, data={"k": 4, "ranking": "real"})) for one in images]
    for answer, alone in zip(body.json()["answers"], both, strict=True):
        assert answer["query"] | {"doubt": None} == alone["query"] | {"doubt": None}
        assert [one["code"] for one in answer["neighbors"]] == [one["code"] for one in alone["neighbors"]]


def many(count, **given):
    return {"queries": [{"embedding": [0.0] * 64}] * count, **given}


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        (many(0), ("queries has 0 values; it must have at least 1",)),
        (many(MAX_BATCH + 1), ("queries has 101 values; it must have at most 100",)),
        ({"queries": [{"id": 0}, {"embedding": [0.0] * 63}]}, ("queries.1.embedding has 63 numbers", "takes 64")),
        ({"queries": [{"id": 0}, {"embedding": "AAA"}]}, ("queries.1.embedding:", "base64")),
        ({"queries": [{"id": 0}, {"text": "a"}]}, ("queries.1.text is a text, and the model takes none",)),
        ({"queries": [{"id": 0}, {}]}, ("queries.1: nothing is given",)),
        (many(11, k=1000), ("11 queries", "k is 1,000", "11,000", "10,000")),
        (many(11, radius=2), ("k is 1,000", "smaller k")),
        (many(1, k=10, candidates=9), ("candidates is 9; it must be at least k (10)",)),
    ],
)
def test_several_that_cannot_be(client, body, parts):
    assert_refused(client.post("/v1/search", json=body), 422, *parts)


def test_a_request_encodes_as_many_as_it_searches(client):
    assert len(client.post("/v1/encode", json=many(MAX_BATCH)).json()["answers"]) == MAX_BATCH
    assert_refused(client.post("/v1/encode", json=many(1, k=3)), 422, "k: there is no such field")
    assert client.get("/v1/info").json()["limits"]["max_batch"] == MAX_BATCH


def test_images_of_a_request_have_the_time_of_one(client, monkeypatch):
    monkeypatch.setattr("lbhash.service.engine.DECODE_SECONDS", -1)
    image = client.get("/v1/items/3/image").content
    refused = client.post("/v1/encode", files=[("image", image)] * 2)
    assert_refused(refused, 422, "image 1 of 2", "send fewer at once")


def test_the_largest_batch_of_an_empty_index(digits_service, tmp_path):
    model = Index.open(digits_service.index, mode="a").model
    build_index(CodeTable(np.zeros((1, 2), np.uint8), 16, np.arange(1), None, model), tmp_path / "i").remove([0])
    with TestClient(create_app(Settings(digits_service.model, tmp_path / "i")), base_url=HOME) as client:
        for options in ({}, {"ranking": "real"}, {"radius": 3}, {"where": {"row": 0}}):
            answers = client.post("/v1/search", json=many(MAX_BATCH, k=9, **options)).json()["answers"]
            assert [one["neighbors"] for one in answers] == [[]] * MAX_BATCH


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        (("--where", "label=3", "--where", "row in (3,13,23)"), {"where": {"label": 3, "row": [3, 13, 23]}}),
        (("--where", "20 <= row < 500, label in (3, 5)"), {"where": "20 <= row < 500 and label in (3, 5)"}),
        (("-k", 4), {"k": 4}),
        (("--hamming", "-k", 4), {"ranking": "hamming", "k": 4}),
    ],
)
def test_the_words_of_the_command_mean_the_same(client, command, digits_service, embeddings, typed, given):
    told = ("search", digits_service.index, "--model", digits_service.model, "--data", "digits")
    status, out, errors = command(*told, "--row", 1790, *typed, "--json")
    assert (status, errors) == (0, "")
    wanted = json.loads(out)["queries"][0]["neighbors"]
    assert wanted
    found = only(search(client, embedding=embeddings[1790].tolist(), **given))["neighbors"]
    assert [(one["id"], one["metadata"]) for one in found] == [(one["id"], one["metadata"]) for one in wanted]
    for name in ("distance", "hamming"):
        assert [one[name] for one in found] == pytest.approx([one[name] for one in wanted], rel=1e-4)


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
