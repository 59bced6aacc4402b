"""The ASGI application."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.middleware import Middleware

from lbhash.index import DamagedIndexError
from lbhash.service.middleware import PAGES, Security
from lbhash.service.requests import line_for
from lbhash.service.routes import page, probes, router, writes
from lbhash.service.schemas import refusals
from lbhash.service.settings import Settings, max_json
from lbhash.service.state import Service
from lbhash.utils.memory import shortage
from lbhash.utils.version import __version__

VERSION = "v1"
"""The version of the routes; a route whose answers change their meaning gets the next version."""

STATIC = Path(__file__).parent / "static"

log = logging.getLogger("lbhash.service")


def create_app(settings: Settings) -> FastAPI:
    """Return the service as an ASGI application; ``TypeError`` or ``ValueError`` if model, index or data are invalid.

    For an ASGI server of your choice::

        # service.py, for "uvicorn service:app"
        from lbhash.service import Settings, create_app

        app = create_app(Settings(model="model", index="index", read_token=os.environ["LBHASH_READ_TOKEN"]))

    >>> from lbhash.service import Settings
    >>> create_app(Settings(model="missing", index="missing"))
    Traceback (most recent call last):
    ValueError: model is 'missing', and there is no such folder; it must be a folder that lbhash wrote
    """
    service = Service(settings)
    app = FastAPI(
        title="lbhash",
        summary="Search by short binary codes.",
        version=__version__,
        lifespan=lambda _: service.running(),
        docs_url=None,  # both load scripts from other sites; docs.html replaces them
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,  # names for generated clients
        redirect_slashes=False,  # redirects would go to any host that the request names
        responses=refusals(400, 401, 403, 408, 413, 421, 422, 503),
        middleware=[
            Middleware(service.monitor.measured),
            Middleware(Security, settings=settings, max_json=max_json(service.engine.model.dim)),
        ],
        exception_handlers={
            RequestValidationError: _invalid,
            ConnectionError: _refused("the index does not answer", retry=True),
            MemoryError: _refused("there is not enough memory for this request now", retry=True),
            DamagedIndexError: _refused(None),
            404: _nowhere(settings),
            Exception: _failed,
        },
    )
    app.state.service = service
    app.include_router(probes)
    app.include_router(page)
    app.include_router(router, prefix=f"/{VERSION}")
    if settings.writable:
        app.include_router(writes, prefix=f"/{VERSION}")
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for path, file in PAGES.items():
        app.add_api_route(path, _page(STATIC / file), include_in_schema=False)
    return app


def _page(file: Path) -> Callable[[], Response]:
    return lambda: FileResponse(file)


async def _invalid(_: Request, error: Any) -> Response:
    return JSONResponse({"detail": line_for(error)}, 422)


def _nowhere(settings: Settings) -> Callable[[Request, Any], Coroutine[Any, Any, Response]]:
    """Return the 404 handler: it answers the error's detail, or for an unknown route a hint."""

    async def answer(request: Request, error: Any) -> Response:
        detail = getattr(error, "detail", "Not Found")
        if detail == "Not Found":
            detail = f"there is no route {request.url.path[:64]!r} for {request.method}"
            change = request.method != "GET" and request.url.path.startswith(f"/{VERSION}/items")
            if change and not settings.writable:
                detail += "; to change items, start the service with --writable"
        return JSONResponse({"detail": detail}, 404, getattr(error, "headers", None))

    return answer


def _refused(detail: str | None, *, retry: bool = False) -> Callable[[Request, Any], Coroutine[Any, Any, Response]]:
    """Return a handler that answers 503, because a later request or another instance may succeed."""

    async def answer(_: Request, error: Any) -> Response:
        log.log(logging.WARNING if retry else logging.ERROR, "%s", shortage(error) or error)
        return JSONResponse({"detail": detail or str(error)}, 503, {"Retry-After": "5"} if retry else {})

    return answer


async def _failed(_: Request, error: Any) -> Response:
    return JSONResponse({"detail": "the service failed; its log says why"}, 500)
