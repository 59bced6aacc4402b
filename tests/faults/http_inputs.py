"""Requests and images made at random: from the schema of the service, and from whole images with damage."""

from __future__ import annotations

import io
import random
from typing import Any

from tests.faults.attack import Run, attack
from tests.faults.flips import damage
from tests.faults.http_service import Answer, Client, Ending, at_once, form, judge, request, served

FORM = "multipart/form-data"
ROUND = 50
"""Requests of one operation, before the next one has its turn."""


@attack("http-schema", "requests that schemathesis makes from the OpenAPI schema, valid ones and others")
def schema(run: Run) -> None:
    """No answer contradicts the schema, and none is an error of the server."""
    import hypothesis
    import jsonschema
    import requests
    import schemathesis
    from schemathesis.core.failures import Failure, FailureGroup
    from schemathesis.specs.openapi import checks

    asked_of = [
        schemathesis.checks.not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.negative_data_rejection,
    ]

    def answered(case: schemathesis.Case) -> None:
        sent = f"{case.method} {case.path} {case.media_type} {case.body!r}"[:300]
        try:
            response = case.call(timeout=60)
        except requests.RequestException as error:
            run.count("crashed", f"{type(error).__name__} for {sent}")
            return
        headers = {name.lower(): values[0] for name, values in response.headers.items()}
        outcome, what = judge(Answer(response.status_code, headers, response.content))
        valid = isinstance(case.body, dict) and case.media_type == FORM and is_valid_form(case.path, case.body)
        checked = asked_of[:-1] if valid or response.status_code >= 400 else asked_of  # also 413 is a refusal
        try:
            case.validate_response(response, checks=checked)
        except (Failure, FailureGroup) as failure:
            first = failure.exceptions[0] if isinstance(failure, FailureGroup) else failure
            outcome = "crashed" if outcome == "crashed" else "wrong"
            what = f"{first.title}, status {response.status_code}: {' '.join(str(first.message).split())[:300]}"
        run.count(outcome, what and f"{what} for {sent}")

    def is_valid_form(path: str, body: dict[str, Any]) -> bool:
        """Whether a form that schemathesis means to be wrong is not, which it does not see.

        A list of one is that one, a list of nothing is no field, and null in the place of a number may be a number.
        """
        fields = {name: value[0] if isinstance(value, list) and len(value) == 1 else value
                  for name, value in body.items() if value != []}  # fmt: skip
        if "image" in fields:
            fields["image"] = [""] * (len(body["image"]) if isinstance(body["image"], list) else 1)
        schema = described["paths"][path]["post"]["requestBody"]["content"][FORM]["schema"]
        return jsonschema.Draft202012Validator({**schema, "components": described["components"]}).is_valid(fields)

    with served(run) as service:
        described = service.get("/openapi.json")
        found = schemathesis.openapi.from_url(f"http://127.0.0.1:{service.port}/openapi.json").get_all_operations()
        operations = [operation.ok() for operation in found]
        for rng in run.faults():
            operation, mode = rng.choice(operations), rng.choice(list(schemathesis.GenerationMode))
            if mode == schemathesis.GenerationMode.NEGATIVE and not operation.body:
                continue  # there is nothing that could be wrong
            several = hypothesis.settings(
                max_examples=ROUND,
                deadline=None,
                database=None,
                phases=[hypothesis.Phase.generate],
                suppress_health_check=list(hypothesis.HealthCheck),
            )
            strategy = operation.as_strategy(generation_mode=mode)
            hypothesis.seed(rng.randrange(2**32))(several(hypothesis.given(strategy)(answered)))()


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Return the content with up to six kinds of damage."""
    for _ in range(rng.randint(0, 6)):
        content = damage(content or b"\0", rng)[0]
    return content


def pictures() -> list[bytes]:
    """Return small images of every format and mode that the service reads, and one nearly as large as it reads."""
    from PIL import Image
    from tests.faults.images import small_images

    large = io.BytesIO()
    Image.new("RGB", (5000, 4990), "red").save(large, "PNG")
    return [*small_images(), large.getvalue()]


def post_image(service: Client, rng: random.Random, whole: list[bytes]) -> Ending:
    """Send a form with an image, with damage in the image, in the form around it, or in neither."""
    boundary = rng.choice(["limit", "limit", "a", "-" * 70, "b" * 200])
    names = ["k", "radius", "where", "ranking", "rerank", "candidates", "x"]
    fields = [(rng.choice(names), rng.choice(FIELDS))] * rng.choice([0, 0, 1, 2])
    image = rng.choice(whole)
    how = rng.choice(["image", "image", "image", "form", "neither"])
    content, kind = form(mutated(image, rng) if how == "image" else image, fields, boundary)
    if how == "form":
        content = mutated(content[:200], rng) + content[200:-100] + mutated(content[-100:], rng)
    sent = request("POST", rng.choice(["/v1/search", "/v1/encode"]), content, [("Content-Type", kind)])
    outcome, what = judge(service.ask(sent))
    return outcome, what and f"{what} for {kind[:80]} {content[:120]!r}"


FIELDS = (
    "3", "0", "-1", "null", "", "1e9", "true", '"3"', "[", "{}", '{"label": [1, 2]}', '{"label": null}', "real",
    "outputs", "NaN", "9" * 5000, "\x00", "\n",
)  # fmt: skip


@attack("http-images", "images with damage, and forms with damage around them")
def images(run: Run) -> None:
    """Each is answered, or refused in one line."""
    whole = pictures()
    with served(run) as service:
        at_once(run, 4, lambda rng: post_image(service, rng, whole))
