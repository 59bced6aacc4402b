"""The errors that a client sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from starlette.exceptions import HTTPException

from lbhash.index import DamagedIndexError
from lbhash.utils.formatting import one_line

_MAX_DETAIL = 400  # characters


class ServiceError(HTTPException):
    """An error that the service answers with an HTTP status and one short line, ``{"detail": "…"}``."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        # Much of a detail can be the client's: it may be as long as a body, and hold what UTF-8 cannot.
        short = detail if len(detail) <= _MAX_DETAIL else f"{detail[:_MAX_DETAIL]}…"
        super().__init__(status, short.encode(errors="replace").decode(), headers)


@contextmanager
def blame_request(status: int = 422, detail: str = "") -> Iterator[None]:
    """Turn a ``ValueError`` or ``TypeError`` in the block, which the request's values caused, into a ``ServiceError``.

    It has the error's message if no ``detail`` is given.
    """
    try:
        yield
    except DamagedIndexError:
        raise  # which no request can cause
    except (ValueError, TypeError) as error:
        raise ServiceError(status, detail or one_line(error)) from None
