"""The routes: ``probes`` at the root; ``router`` and ``writes`` below ``/v1``; ``page`` for the page only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel

from lbhash.service import schemas
from lbhash.service.admission import Admission
from lbhash.service.requests import FORM, JSON, parse_body, read_body
from lbhash.service.settings import MAX_BATCH
from lbhash.service.state import Service
from lbhash.service.tokens import refusal


async def _check_change(request: Request) -> None:
    """Refuse a request (401) without the write token."""
    if not request.scope["may_change"]:
        raise refusal("a change of the index needs the token to write")


probes, router, page = APIRouter(), APIRouter(), APIRouter(prefix="/page", include_in_schema=False)
writes = APIRouter(dependencies=[Depends(_check_change)])


def _service(request: Request) -> Service:
    return request.app.state.service


Running = Annotated[Service, Depends(_service)]


def _takes(model: type[schemas.Body], *statuses: int, **example: Any) -> dict[str, Any]:
    """Return the OpenAPI description of a route's body and of its refusals, which include ``statuses``."""
    content: dict[str, Any] = {JSON: {"schema": model.whole_schema(), "example": example}}
    if model.FORM is not None:
        file = {"type": "string", "format": "binary"}
        images = {"type": "array", "items": file, "minItems": 1, "maxItems": MAX_BATCH}
        images["description"] = f"Up to {MAX_BATCH} files, one for each query or item."
        described = model.FORM.model_json_schema()
        form: dict[str, Any] = {"type": "object", "additionalProperties": False}
        form |= {"properties": {"image": images, **described["properties"]}}
        form["required"] = ["image", *described.get("required", ())]
        content[FORM] = {"schema": form}
    body = {"requestBody": {"required": True, "content": content}}
    return {"openapi_extra": body, "responses": schemas.refusals(*statuses, 415)}


async def _answer(
    request: Request, admission: Admission, model: type[schemas.Body], compute: Callable[..., BaseModel]
) -> Response:
    """Answer with ``compute`` of the parsed body: the model, or a form's fields and its images."""
    body, dim = await read_body(request, model), request.app.state.service.engine.model.dim

    def written() -> Response:
        # Serialize in the same thread: a thousand neighbors would block the event loop.
        return Response(compute(*parse_body(*body, model, dim)).model_dump_json(), media_type=JSON)

    return await admission.run(written)


@probes.get("/health")
async def health(service: Running) -> schemas.Health:
    """Return the state of the service; needs no token and never waits."""
    return service.engine.health()


@probes.get("/ready", responses=schemas.refusals(503))
async def ready(service: Running) -> schemas.Health:
    """Return ``health`` once all files of the index have been checked, so no request waits for them."""
    return service.engine.ready()


@probes.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(service: Running) -> Response:
    """Return the metrics for Prometheus; never waits."""
    return Response(service.monitor.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


@router.get("/info")
async def info(service: Running) -> schemas.Info:
    """Return the service's facts and limits."""
    return service.engine.info()


@router.post(
    "/search",
    response_model=schemas.SearchAnswer,
    **_takes(schemas.SearchRequest, 404, queries=[{"id": 0}], k=5),
)
async def search(request: Request, service: Running) -> Response:
    """Find the items nearest to embeddings, texts, codes or ids (JSON), or to images (a form)."""
    return await _answer(request, service.admission, schemas.SearchRequest, service.engine.search)


@router.post("/encode", response_model=schemas.EncodeAnswer, **_takes(schemas.EncodeRequest, 404, queries=[{"id": 0}]))
async def encode(request: Request, service: Running) -> Response:
    """Return the codes of embeddings, texts or ids (JSON), or of images (a form), and maybe the embeddings."""
    return await _answer(request, service.admission, schemas.EncodeRequest, service.engine.encode)


@router.post("/items/get", response_model=schemas.ItemsAnswer, **_takes(schemas.ItemIds, 404, ids=[0]))
async def get_items(request: Request, service: Running) -> Response:
    """Return the codes and the metadata of items by their ids."""
    return await _answer(request, service.admission, schemas.ItemIds, service.engine.get_items)


_IMAGE: dict[str, Any] = {
    "response_class": Response,
    "responses": {200: {"content": {"image/png": {}, "image/webp": {}}}, **schemas.refusals(404)},
}


@router.get("/items/{id:path}/image", **_IMAGE)
async def item_image(
    service: Running,
    id: str,
    generation: Annotated[int | None, Query(description="The index's generation; allows caching.")] = None,
) -> Response:
    """Return a small image of an item, from its thumbnail or from its row of the data."""
    answer = await _image(service, service.engine.item_image, id)
    if generation is None:  # the id may get another image
        answer.headers["Cache-Control"] = "no-cache"
    return answer


@page.get("/rows/{row}/image", **_IMAGE)
async def row_image(service: Running, row: int) -> Response:
    """Return a small image of a row of the data."""
    return await _image(service, service.engine.row_image, row)


async def _image(service: Service, thumbnail: Callable[..., tuple[bytes, str]], name: Any) -> Response:
    data, kind = await service.admission.run(thumbnail, name)
    return Response(data, media_type=kind, headers={"Cache-Control": "private, max-age=3600"})


@page.post("/search")
async def search_by_item_or_row(request: Request, service: Running) -> Response:
    """Find the items nearest to an item, or to a row of the data, even one that is not in the index."""
    return await _answer(request, service.admission, schemas.PageSearch, service.engine.search)


@page.get("/summary")
async def summary(service: Running) -> schemas.Summary:
    """Return the model's measures, computed once per generation of the index."""
    return service.background.summary


@page.get("/map")
async def code_map(service: Running) -> schemas.Map:
    """Return a sample of the codes as a 2-D map: first by principal components, later by t-SNE."""
    return service.background.map


_NEW = {"embeddings": [[0.5, 1.5]], "metadata": {"label": [3]}}


@writes.post("/items", response_model=schemas.Changed, **_takes(schemas.Items, 409, **_NEW))
async def add_items(request: Request, service: Running) -> Response:
    """Add items by embeddings, texts or codes (JSON), or images (a form), all or none.

    The answer comes once they are on disk.
    """
    return await _change(request, service, schemas.Items, service.engine.add_items)


@writes.put("/items", response_model=schemas.Changed, **_takes(schemas.ItemsWithIds, ids=[0], **_NEW))
async def put_items(request: Request, service: Running) -> Response:
    """Add items as POST does, and replace those whose id the index has, all or none."""
    return await _change(request, service, schemas.ItemsWithIds, service.engine.put_items)


@writes.post("/items/delete", response_model=schemas.Changed, **_takes(schemas.ItemIds, 404, ids=[0]))
async def delete_items(request: Request, service: Running) -> Response:
    """Delete items by their ids, all or none."""
    return await _change(request, service, schemas.ItemIds, service.engine.delete_items)


async def _change(
    request: Request, service: Service, model: type[schemas.Body], change: Callable[..., BaseModel]
) -> Response:
    changed = await _answer(request, service.writing, model, change)
    service.background.changed.set()
    return changed
