"""The application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from lbhash.service.admission import Admission
from lbhash.service.background import Background
from lbhash.service.decoding import Decoder
from lbhash.service.engine import Engine
from lbhash.service.errors import Refused
from lbhash.service.middleware import BodyLimit, HostGuard, SecurityHeaders, TokenGuard
from lbhash.service.prometheus import Measured, Monitor
from lbhash.service.requests import line_for
from lbhash.service.routes import router
from lbhash.service.schemas import Detail
from lbhash.service.settings import Settings
from lbhash.service.state import Service
from lbhash.utils.version import __version__

STATIC = Path(__file__).parent / "static"

log = logging.getLogger("lbhash.service")


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI application, ready when it is returned.

    Args:
        settings: model, index, data and limits.

    Raises:
        TypeError, ValueError: a setting is wrong, or what it names cannot be loaded.

    For an ASGI server of one's own::

        # service.py, for "uvicorn service:app"
        from lbhash.service import Settings, create_app

        app = create_app(Settings(model="model", index="index", token=os.environ["LBHASH_TOKEN"]))
    """
    decoder = Decoder(settings.threads, settings.decode_seconds, settings.max_body, settings.max_pixels)
    engine = Engine(settings, decoder)
    admission = Admission(settings.threads, settings.queue, settings.queue_seconds)
    background = Background(engine)
    monitor = Monitor(engine, admission)
    service = Service(settings, engine, admission, background, monitor)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        background.start()
        watching = asyncio.create_task(_watch(service))
        try:
            yield
        finally:
            watching.cancel()
            admission.close()
            background.close()
            decoder.close()

    app = FastAPI(
        title="lbhash",
        summary="Search by short binary codes.",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # both load their scripts from elsewhere
        redoc_url=None,
        responses={status: {"model": Detail} for status in (400, 401, 408, 413, 421, 422, 503)},
    )
    app.state.service = service
    app.include_router(router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    app.exception_handler(Refused)(_refused)
    app.exception_handler(RequestValidationError)(_invalid)
    app.exception_handler(HTTPException)(_http)
    app.exception_handler(ConnectionError)(_unreachable)
    app.exception_handler(Exception)(_failed)
    # The last that is added is the first that a request meets.
    app.add_middleware(BodyLimit, limit=settings.max_body, seconds=settings.body_seconds)
    app.add_middleware(TokenGuard, token=settings.token)
    app.add_middleware(HostGuard, hosts=settings.hosts)
    app.add_middleware(SecurityHeaders)
    app.add_middleware(Measured, monitor=monitor)
    return app


async def _watch(service: Service) -> None:
    """Load a newer index when there is one; the requests that run end with the one that they began with."""
    said = ""
    while True:
        await asyncio.sleep(service.settings.reload_seconds)
        try:
            newer = await asyncio.to_thread(service.engine.refresh)
        except Exception as error:  # whatever is wrong with the new one, the old one still serves
            if str(error) != said:
                said = str(error)
                service.monitor.reloads.labels("failed").inc()
                log.warning("a newer index could not be loaded: %s", said)
            continue
        if newer:
            said = ""
            service.monitor.reloads.labels("loaded").inc()
            log.info("generation %d of the index is loaded", service.engine.index.generation)
            service.background.renew()


async def _refused(_: Request, error: Any) -> Response:
    return error.response()


async def _invalid(_: Request, error: Any) -> Response:
    return JSONResponse({"detail": line_for(error.errors())}, 422)


async def _http(_: Request, error: Any) -> Response:
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


async def _unreachable(_: Request, error: Any) -> Response:
    """The index is on another machine, which does not answer; it may again in a moment."""
    log.warning("%s", error)
    return JSONResponse({"detail": "the index does not answer"}, 503, {"Retry-After": "5"})


async def _failed(_: Request, error: Any) -> Response:
    return JSONResponse({"detail": "the service failed; its log says why"}, 500)
