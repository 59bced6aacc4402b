"""The errors that a client sees."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.exceptions import HTTPException

from lbhash.index import DamagedIndexError
from lbhash.utils.formatting import one_line


class ServiceError(HTTPException):
    """An error that the service answers with an HTTP status and one line, ``{"detail": "…"}``."""


@contextmanager
def blame_request() -> Iterator[None]:
    """Turn a ``ValueError`` or ``TypeError`` in the block, which the request's values caused, into status 422."""
    try:
        yield
    except DamagedIndexError:
        raise  # which no request can cause
    except (ValueError, TypeError) as error:
        raise ServiceError(422, one_line(error)) from None
