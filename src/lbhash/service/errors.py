"""The errors that a client sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from starlette.exceptions import HTTPException

from lbhash.index import DamagedIndexError, UnknownIdError
from lbhash.index.ids import TakenIdError
from lbhash.utils.formatting import one_line

_MAX_DETAIL = 400  # characters


class ServiceError(HTTPException):
    """An error that the service answers with an HTTP status and one short line, ``{"detail": "…"}``."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        # The detail may quote the client: as long as a body, with characters that UTF-8 cannot encode.
        short = detail if len(detail) <= _MAX_DETAIL else f"{detail[:_MAX_DETAIL]}…"
        super().__init__(status, short.encode(errors="replace").decode(), headers)


@contextmanager
def blame_request(place: str = "") -> Iterator[None]:
    """Turn a ``ValueError`` or ``TypeError`` that the request's values cause into a ``ServiceError``.

    ``place`` is a prefix for the field name in the message, such as ``queries.0.``.
    """
    try:
        yield
    except DamagedIndexError:
        raise  # not caused by the request
    except (ValueError, TypeError) as error:
        raise refusal(error, place) from None


@contextmanager
def blame_data() -> Iterator[None]:
    """Turn a ``ValueError`` of reading the data into a ``ServiceError``: a file has changed, or is damaged."""
    try:
        yield
    except ValueError as error:
        raise ServiceError(503, one_line(error)) from None


def refusal(error: Exception, place: str = "") -> ServiceError:
    """Return the answer to a request whose values caused an error (``blame_request``)."""
    if isinstance(error, TakenIdError):
        return ServiceError(409, f"ids holds {error.name!r}, which the index already has; PUT replaces its item")
    if not isinstance(error, UnknownIdError):
        return ServiceError(422, f"{place}{one_line(error)}")
    which = f"{place}id is" if place else "ids holds"
    return ServiceError(404, f"{which} {error.name!r}, which the index does not have")
