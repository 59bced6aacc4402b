"""docs/http.md and the OpenAPI schema say what the service does; every example is run against it."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lbhash.service.schemas import REFUSALS

pytestmark = pytest.mark.end_to_end

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
PAGE = Path(__file__).parents[1] / "docs" / "http.md"
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def address(digits_service, serving, tmp_path_factory):
    """A service with every route that there is."""
    index = shutil.copytree(digits_service.index, tmp_path_factory.mktemp("changed") / "i")
    with serving(replace(digits_service, index=index, writable=True)) as address:
        yield address


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_examples_run(address, tmp_path):
    assert len(BLOCKS) >= 6
    for language, block in BLOCKS:
        block = block.replace("http://127.0.0.1:8000", address)
        command = ["bash", "-euc"] if language == "sh" else [sys.executable, "-c"]
        done = subprocess.run(
            [*command, block],
            cwd=tmp_path,
            env={**os.environ, "LBHASH_READ_TOKEN": "any"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stderr) == (0, ""), block + done.stdout + done.stderr
        assert ("detail" in done.stdout) == ('"neighbors": 3' in block), block + done.stdout
        assert done.stdout


def test_the_schema_says_what_each_refusal_means(address):
    described = httpx.get(f"{address}/openapi.json").json()
    for operations in described["paths"].values():
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                assert status == "200" or answer["description"] == REFUSALS[int(status)]


def test_whatever_is_asked_is_answered_as_the_schema_says(address):
    asked = set()
    operations = schemathesis.openapi.from_url(f"{address}/openapi.json").get_all_operations()
    for found, mode in itertools.product(operations, GenerationMode):
        operation = found.ok()
        if mode == GenerationMode.NEGATIVE and not operation.body:
            continue  # there is nothing that could be wrong

        @settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(operation.as_strategy(generation_mode=mode))
        def answered(case):
            case.call_and_validate(checks=CHECKS)
            asked.add(case.path)

        answered()
    assert len(asked) == 10  # POST and PUT of /v1/items have one path


ROUTES = {
    "health": ("get", "/health", set()),
    "ready": ("get", "/ready", set()),
    "metrics": ("get", "/metrics", set()),
    "info": ("get", "/v1/info", set()),
    "search": ("post", "/v1/search", {404}),
    "encode": ("post", "/v1/encode", {404}),
    "get_items": ("post", "/v1/items/get", {404}),
    "item_image": ("get", "/v1/items/{id}/image", {404}),
    "add_items": ("post", "/v1/items", {409}),
    "put_items": ("put", "/v1/items", set()),
    "delete_items": ("post", "/v1/items/delete", {404}),
}
"""Each operation: method, path, and which of the statuses 404 and 409 it has."""


def test_the_schema_names_every_route_and_its_statuses(address):
    paths = httpx.get(f"{address}/openapi.json").json()["paths"]
    described = {
        one["operationId"]: (method, path, {int(status) for status in one["responses"]} & {404, 409})
        for path, operations in paths.items()
        for method, one in operations.items()
    }
    assert described == ROUTES
    for path in ("/v1/search", "/v1/encode"):
        body = paths[path]["post"]["requestBody"]["content"]
        assert set(body) == {"application/json", "multipart/form-data"}
        query = Draft202012Validator(body["application/json"]["schema"])
        for right in ({"id": 1}, {"id": "é/", "embedding": None}, {"embedding": "AAAA"}, {"embedding": [0.5]}):
            assert query.is_valid({"queries": [right, {"code": "00ff"}]})
        for wrong in ({}, {"id": None}, {"code": "00", "id": 1}, {"id": 1, "kk": 1}, {"row": 1}):
            assert not query.is_valid({"queries": [wrong]})
        assert not query.is_valid({"queries": []})
        assert query.is_valid({"queries": [{"id": 1}], "k": 3}) == (path == "/v1/search")
    items = Draft202012Validator(paths["/v1/items"]["post"]["requestBody"]["content"]["application/json"]["schema"])
    assert items.is_valid({"embeddings": [[0.5], "AAAA"]})
    assert not items.is_valid({"embeddings": [[0.5]], "texts": ["a"]})
