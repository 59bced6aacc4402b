"""Errors that a client is told about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException


class ServiceError(HTTPException):
    """An error that is answered with its HTTP status and one line, ``{"detail": "…"}``."""


@contextmanager
def blame_request() -> Iterator[None]:
    """Turn a ``ValueError`` or ``TypeError`` about the request's values into status 422."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ServiceError(422, " ".join(str(error).split())) from None
