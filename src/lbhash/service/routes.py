"""The routes: what is asked, in the order in which the page asks it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST

from lbhash.service.requests import is_form, read_form, read_json
from lbhash.service.schemas import (
    About,
    Detail,
    EncodeAnswer,
    Given,
    Health,
    Map,
    Nothing,
    Options,
    SearchAnswer,
    SearchRequest,
    Summary,
)
from lbhash.service.state import Service

router = APIRouter()


def _body(form: type[Given], options: type[Any] | None) -> dict[str, Any]:
    """The body in the OpenAPI schema: JSON, or a form with a picture."""
    fields: dict[str, Any] = {"image": {"type": "string", "format": "binary"}}
    if options is not None:
        fields |= options.model_json_schema()["properties"]
    picture = {"type": "object", "properties": fields, "required": ["image"], "additionalProperties": False}
    content = {
        "application/json": {"schema": form.model_json_schema()},
        "multipart/form-data": {"schema": picture},
    }
    return {"requestBody": {"required": True, "content": content}}


def _service(request: Request) -> Service:
    return request.app.state.service


@router.get("/health")
async def health(request: Request) -> Health:
    """Whether the service is there; without a token and without a queue."""
    engine = _service(request).engine
    index = engine.index
    return Health(
        ready=True,
        model=engine.fingerprint,
        build=index.build,
        generation=index.generation,
        codes=len(index),
        bits=index.bits,
    )


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """For Prometheus; without a queue."""
    return Response(_service(request).monitor.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


@router.get("/about")
async def about(request: Request) -> About:
    """What can be asked of this service."""
    return _service(request).engine.about()


@router.post(
    "/search",
    openapi_extra=_body(SearchRequest, Options),
    responses={404: {"model": Detail}, 415: {"model": Detail}},
)
async def search(request: Request) -> SearchAnswer:
    """The codes nearest to a picture (a form), or to an embedding, a code, an id or a row (JSON)."""
    service = _service(request)
    async with service.admission.place():
        if is_form(request):
            picture, options = await read_form(request, Options)
            return await service.admission.run(service.engine.search, None, options, picture)
        asked = await read_json(request, SearchRequest)
        return await service.admission.run(service.engine.search, asked, asked)


@router.post("/encode", openapi_extra=_body(Given, None), responses={404: {"model": Detail}, 415: {"model": Detail}})
async def encode(request: Request) -> EncodeAnswer:
    """The code of a picture (a form), or of an embedding, an id or a row (JSON)."""
    service = _service(request)
    async with service.admission.place():
        if is_form(request):
            picture, _ = await read_form(request, Nothing)
            return await service.admission.run(service.engine.encode, None, picture)
        return await service.admission.run(service.engine.encode, await read_json(request, Given))


@router.get(
    "/row/{row}/image",
    response_class=Response,
    responses={200: {"content": {"image/png": {}, "image/webp": {}}}, 404: {"model": Detail}},
)
async def row_image(request: Request, row: Annotated[int, Path(ge=0, lt=2**63)]) -> Response:
    """A small picture of a row of the data."""
    service = _service(request)
    async with service.admission.place():
        data, kind = await service.admission.run(service.engine.thumbnail, row)
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


@router.get("/summary")
async def summary(request: Request) -> Summary:
    """The model's numbers, which are computed once for every state of the index."""
    return _service(request).background.summary


@router.get("/map")
async def code_map(request: Request) -> Map:
    """A sample of the codes in the plane: by principal components at once, and by t-SNE when that is done."""
    return _service(request).background.map
