"""The routes: ``probes`` at the root; ``router``, as the page uses them, and ``writes`` below ``/v1``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from lbhash.service import schemas
from lbhash.service.admission import Admission
from lbhash.service.requests import FORM, JSON, parse_body, read_body
from lbhash.service.state import Service
from lbhash.service.tokens import refusal


async def _check_change(request: Request) -> None:
    """Refuse a request (401) that does not bring the token to write."""
    if not request.scope["may_change"]:
        raise refusal("a change of the index needs the token to write")


probes, router = APIRouter(), APIRouter()
writes = APIRouter(dependencies=[Depends(_check_change)])


def _service(request: Request) -> Service:
    return request.app.state.service


Running = Annotated[Service, Depends(_service)]


def _takes(model: type[schemas.Body], **example: Any) -> dict[str, Any]:
    """Return what OpenAPI says of a route's body and of its refusals."""
    content: dict[str, Any] = {JSON: {"schema": model.model_json_schema(), "example": example}}
    if model.FORM is not None:
        fields = {"image": {"type": "string", "format": "binary"}, **model.FORM.model_json_schema()["properties"]}
        form = {"type": "object", "properties": fields, "required": ["image"], "additionalProperties": False}
        content[FORM] = {"schema": form}
    refused = schemas.refusals(*((415,) if model.FORM is None else (404, 415)))
    return {"openapi_extra": {"requestBody": {"required": True, "content": content}}, "responses": refused}


async def _answer(
    request: Request, admission: Admission, model: type[schemas.Body], compute: Callable[..., BaseModel]
) -> Response:
    """Return what ``compute`` makes of a body: of the model, or of the fields of a form and its image."""
    body = await read_body(request, model)

    def written() -> Response:
        # In the thread that computed it, as a thousand neighbors would hold the event loop up.
        return Response(compute(*parse_body(*body, model)).model_dump_json(), media_type=JSON)

    return await admission.run(written)


@probes.get("/health")
async def health(service: Running) -> schemas.Health:
    """Say that the service answers, and with what; needs no token and never waits."""
    return service.engine.health()


@probes.get("/ready", responses=schemas.refusals(503))
async def ready(service: Running) -> schemas.Health:
    """Say that the files of the index were all compared with their checksums, so that no request waits for them."""
    return service.engine.ready()


@probes.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(service: Running) -> Response:
    """Return the metrics for Prometheus; never waits."""
    return Response(service.monitor.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


@router.get("/about")
async def about(service: Running) -> schemas.About:
    """Say what this service can be asked for."""
    return service.engine.about()


@router.post(
    "/search",
    response_model=schemas.SearchAnswer | schemas.SearchAnswers,
    **_takes(schemas.SearchRequest, id=0, k=5),
)
async def search(request: Request, service: Running) -> Response:
    """Find the codes nearest to an image (a form), or to an embedding, several, a code, an id or a row (JSON)."""
    return await _answer(request, service.admission, schemas.SearchRequest, service.engine.search)


@router.post("/encode", response_model=schemas.EncodeAnswer, **_takes(schemas.Given, id=0))
async def encode(request: Request, service: Running) -> Response:
    """Return the code of an image (a form), or of an embedding, an id or a row (JSON)."""
    return await _answer(request, service.admission, schemas.Given, service.engine.encode)


@router.get(
    "/row/{row}/image",
    response_class=Response,
    responses={200: {"content": {"image/png": {}, "image/webp": {}}}, **schemas.refusals(404)},
)
async def row_image(service: Running, row: Annotated[int, Path(ge=0, lt=2**63)]) -> Response:
    """Return a small image of a row of the data."""
    data, kind = await service.admission.run(service.engine.thumbnail, row)
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


@router.get("/summary")
async def summary(service: Running) -> schemas.Summary:
    """Return the model's numbers, which are computed once for every generation of the index."""
    return service.background.summary


@router.get("/map")
async def code_map(service: Running) -> schemas.Map:
    """Return a sample of the codes in the plane: by principal components at once, and later by t-SNE."""
    return service.background.map


@writes.post(
    "/add",
    response_model=schemas.Changed,
    **_takes(schemas.AddRequest, embeddings=[[0.5, 1.5]], metadata={"label": [3]}),
)
async def add(request: Request, service: Running) -> Response:
    """Add the codes of embeddings to the index, all of them or none; the answer comes when they are on the disk."""
    return await _change(request, service, schemas.AddRequest, service.engine.add)


@writes.post("/remove", response_model=schemas.Changed, **_takes(schemas.RemoveRequest, ids=[0]))
async def remove(request: Request, service: Running) -> Response:
    """Remove codes from the index by their ids, all of them or none."""
    return await _change(request, service, schemas.RemoveRequest, service.engine.remove)


async def _change(
    request: Request, service: Service, model: type[schemas.Body], change: Callable[..., BaseModel]
) -> Response:
    changed = await _answer(request, service.writing, model, change)
    service.background.changed.set()
    return changed
