from __future__ import annotations

import itertools
import shutil
from dataclasses import replace

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

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def address(digits_service, serving, tmp_path_factory):
    """A service with every route that there is."""
    index = shutil.copytree(digits_service.index, tmp_path_factory.mktemp("changed") / "i")
    with serving(replace(digits_service, index=index, writable=True)) as address:
        yield address


def test_whatever_is_asked_is_answered_as_the_schema_says(address):
    asked = set()
    operations = schemathesis.openapi.from_url(f"{address}/openapi.json").get_all_operations()
    for found, mode in itertools.product(operations, GenerationMode):
        operation = found.ok()
        if mode == GenerationMode.NEGATIVE and not (operation.body or operation.path_parameters):
            continue  # there is nothing that could be wrong

        @settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
        @given(operation.as_strategy(generation_mode=mode))
        def answered(case):
            case.call_and_validate(checks=CHECKS)
            asked.add(case.path)

        answered()
    assert len(asked) == 11


def test_the_schema_names_every_route(address):
    paths = httpx.get(f"{address}/openapi.json").json()["paths"]
    assert set(paths) == {
        "/health", "/metrics", "/ready", "/v1/about", "/v1/add", "/v1/encode", "/v1/map", "/v1/remove",
        "/v1/row/{row}/image", "/v1/search", "/v1/summary"
    }  # fmt: skip
    for path in ("/v1/search", "/v1/encode"):
        body = paths[path]["post"]["requestBody"]["content"]
        assert set(body) == {"application/json", "multipart/form-data"}
        query = Draft202012Validator(body["application/json"]["schema"])
        assert query.is_valid({"row": 1})
        assert query.is_valid({"row": 1, "embedding": None})
        assert query.is_valid({"embedding": "AAAA"})
        assert query.is_valid({"embeddings": [[0.5], "AAAA"]}) == (path == "/v1/search")
        for wrong in (
            {},
            {"row": None},
            {"row": 1, "id": 1},
            {"row": 1, "kk": 1},
            [1],
            {"row": 1, "embeddings": [[1]]},
        ):
            assert not query.is_valid(wrong)
