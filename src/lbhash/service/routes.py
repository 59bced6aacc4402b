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


def _post(
    routes: APIRouter,
    path: str,
    given: type[BaseModel],
    options: type[Any] | None,
    answer: Any,
    example: dict[str, Any],
) -> Any:
    """Return the decorator of a route that takes JSON, or with ``options`` a form with an image, as its schema says."""
    content: dict[str, Any] = {JSON: {"schema": given.model_json_schema(), "example": example}}
    if options is not None:
        fields = {"image": {"type": "string", "format": "binary"}, **options.model_json_schema()["properties"]}
        form = {"type": "object", "properties": fields, "required": ["image"], "additionalProperties": False}
        content[FORM] = {"schema": form}
    body = {"requestBody": {"required": True, "content": content}}
    statuses = (415,) if options is None else (404, 415)
    refusals: Any = {status: {"model": schemas.Detail} for status in statuses}
    return routes.post(path, openapi_extra=body, response_model=answer, responses=refusals)


async def _answer(
    request: Request,
    admission: Admission,
    given: type[BaseModel],
    options: type[BaseModel] | None,
    compute: Callable[[Any, Any, bytes | None], BaseModel],
) -> Response:
    """Return what ``compute`` makes of a query, its options and an image; without ``options`` there is no image."""
    body = await read_body(request, (JSON,) if options is None else (JSON, FORM))

    def written() -> Response:
        # In the thread that computed it, as a thousand neighbors would hold the event loop up.
        answer = compute(*parse_body(body, given, options or schemas.Nothing))
        return Response(answer.model_dump_json(), media_type=JSON)

    return await admission.run(written)


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
    router,
    "/search",
    schemas.SearchRequest,
    schemas.Options,
    schemas.SearchAnswer | schemas.SearchAnswers,
    {"id": 0, "k": 5},
)
async def search(request: Request, service: Running) -> Response:
    """Find the codes nearest to an image (a form), or to an embedding, several, a code, an id or a row (JSON)."""
    return await _answer(request, service.admission, schemas.SearchRequest, schemas.Options, service.engine.search)


@_post(router, "/encode", schemas.Given, schemas.Nothing, schemas.EncodeAnswer, {"id": 0})
async def encode(request: Request, service: Running) -> Response:
    """Return the code of an image (a form), or of an embedding, an id or a row (JSON)."""
    encode = service.engine.encode
    return await _answer(
        request, service.admission, schemas.Given, schemas.Nothing, lambda given, _, image: encode(given, image)
    )


@router.get("/row/{row}/image", response_class=Response, responses=_IMAGE)
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


@_post(
    writes,
    "/add",
    schemas.AddRequest,
    None,
    schemas.Changed,
    {"embeddings": [[0.5, 1.5]], "attributes": {"label": [3]}},
)
async def add(request: Request, service: Running) -> Response:
    """Add the codes of embeddings to the index, all of them or none; the answer comes when they are on the disk."""
    return await _change(request, service, schemas.AddRequest, service.engine.add)


@_post(writes, "/remove", schemas.RemoveRequest, None, schemas.Changed, {"ids": [0]})
async def remove(request: Request, service: Running) -> Response:
    """Remove codes from the index by their ids, all of them or none."""
    return await _change(request, service, schemas.RemoveRequest, service.engine.remove)


async def _change(request: Request, service: Service, given: type[BaseModel], change: Callable[..., Any]) -> Response:
    changed = await _answer(request, service.writing, given, None, lambda query, *_: change(query))
    service.background.changed.set()
    return changed
