"""What a client is told when it cannot have what it asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from starlette.responses import JSONResponse


class Refused(Exception):
    """A request that is answered with a status from 400 to 503 and one line.

    Args:
        status: of HTTP.
        detail: the line.
        headers: of the answer.
    """

    def __init__(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers

    def response(self) -> JSONResponse:
        """The answer, ``{"detail": "…"}``."""
        return JSONResponse({"detail": self.detail}, self.status, self.headers)


@contextmanager
def blamed_on_the_request() -> Iterator[None]:
    """Turn a ``ValueError`` or ``TypeError`` of what the request gave into a 422 with its line."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise Refused(422, " ".join(str(error).split())) from None
