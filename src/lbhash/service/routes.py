"""The routes: ``probes`` at the root; ``router``, as the page uses them, and ``writes`` below ``/v1``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from lbhash.service import schemas
from lbhash.service.requests import FORM, JSON, Body, parse_body, read_body
from lbhash.service.state import Service


def _allowed(scope: str) -> list[Any]:
    """Return what refuses a request (403) whose token does not allow ``scope``."""

    async def check(request: Request) -> None:
        if (token := request.scope.get("token")) is not None:
            token.check_scope(scope)

    return [Depends(check)]


probes = APIRouter()
router, writes = APIRouter(dependencies=_allowed("search")), APIRouter(dependencies=_allowed("write"))

_IMAGE: Any = {200: {"content": {"image/png": {}, "image/webp": {}}}, 404: {"model": schemas.Detail}}


def _service(request: Request) -> Service:
    return request.app.state.service


Running = Annotated[Service, Depends(_service)]


def _post(path: str, query: type[schemas.Given], options: type[Any], answer: Any, example: dict[str, Any]) -> Any:
    """Return the decorator of a route that takes JSON, or a form with an image, as its OpenAPI schema says."""
    fields = {"image": {"type": "string", "format": "binary"}, **options.model_json_schema()["properties"]}
    form = {"type": "object", "properties": fields, "required": ["image"], "additionalProperties": False}
    content = {JSON: {"schema": query.model_json_schema(), "example": example}, FORM: {"schema": form}}
    body = {"requestBody": {"required": True, "content": content}}
    refusals: Any = {status: {"model": schemas.Detail} for status in (404, 415)}
    return router.post(path, openapi_extra=body, response_model=answer, responses=refusals)


def _change(path: str, given: type[BaseModel], example: dict[str, Any]) -> Any:
    """Return the decorator of a route that changes the index, and takes JSON."""
    body = {
        "requestBody": {"required": True, "content": {JSON: {"schema": given.model_json_schema(), "example": example}}}
    }
    refusals: Any = {415: {"model": schemas.Detail}}
    return writes.post(path, openapi_extra=body, response_model=schemas.Changed, responses=refusals)


async def _changed(request: Request, service: Service, given: type[BaseModel], change: Callable[..., Any]) -> Response:
    def answer(body: Body) -> Response:
        return _written(change(parse_body(body, given, schemas.Nothing)[0]))

    body = await read_body(request, (JSON,))
    async with service.writing.place():
        changed = await service.writing.run(answer, body)
    service.background.changed.set()
    return changed


def _written(answer: BaseModel) -> Response:
    """Return an answer as JSON, in the thread that computed it: a thousand neighbors would hold the event loop up."""
    return Response(answer.model_dump_json(), media_type=JSON)


@probes.get("/health")
async def health(service: Running) -> schemas.Health:
    """Say that the service answers, and with what; needs no token and never waits."""
    return service.engine.health()


@probes.get("/ready", responses={503: {"model": schemas.Detail}})
async def ready(service: Running) -> schemas.Health:
    """Say that the files of the index were all compared with their checksums, so that no request waits for them."""
    return service.engine.ready()


@probes.get(
    "/metrics",
    dependencies=_allowed("metrics"),
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}},
)
async def metrics(service: Running) -> Response:
    """Return the metrics for Prometheus; never waits."""
    return Response(service.monitor.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


@router.get("/about")
async def about(service: Running) -> schemas.About:
    """Say what this service can be asked for."""
    return service.engine.about()


@_post(
    "/search", schemas.SearchRequest, schemas.Options, schemas.SearchAnswer | schemas.SearchAnswers, {"id": 0, "k": 5}
)
async def search(request: Request, service: Running) -> Response:
    """Find the codes nearest to an image (a form), or to an embedding, several, a code, an id or a row (JSON)."""

    def answer(body: Body) -> Response:
        given, options, image = parse_body(body, schemas.SearchRequest, schemas.Options)
        return _written(service.engine.search(given, options, image))

    body = await read_body(request)
    async with service.admission.place():
        return await service.admission.run(answer, body)


@_post("/encode", schemas.Given, schemas.Nothing, schemas.EncodeAnswer, {"id": 0})
async def encode(request: Request, service: Running) -> Response:
    """Return the code of an image (a form), or of an embedding, an id or a row (JSON)."""

    def answer(body: Body) -> Response:
        given, _, image = parse_body(body, schemas.Given, schemas.Nothing)
        return _written(service.engine.encode(given, image))

    body = await read_body(request)
    async with service.admission.place():
        return await service.admission.run(answer, body)


@router.get("/row/{row}/image", response_class=Response, responses=_IMAGE)
async def row_image(service: Running, row: Annotated[int, Path(ge=0, lt=2**63)]) -> Response:
    """Return a small image of a row of the data."""
    async with service.admission.place():
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


@_change("/add", schemas.AddRequest, {"embeddings": [[0.5, 1.5]], "attributes": {"label": [3]}})
async def add(request: Request, service: Running) -> Response:
    """Add the codes of embeddings to the index, all of them or none; the answer comes when they are on the disk."""
    return await _changed(request, service, schemas.AddRequest, service.engine.add)


@_change("/remove", schemas.RemoveRequest, {"ids": [0]})
async def remove(request: Request, service: Running) -> Response:
    """Remove codes from the index by their ids, all of them or none."""
    return await _changed(request, service, schemas.RemoveRequest, service.engine.remove)
