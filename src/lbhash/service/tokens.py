"""The tokens for reading and for changing the index."""

from __future__ import annotations

import hashlib
import hmac

from lbhash.service.errors import ServiceError
from lbhash.service.settings import Settings


class Tokens:
    """The tokens of the settings: the write token allows everything, the read token everything but changes.

    Without a read token, everybody may read. Without any token, everybody may also change the index.
    """

    def __init__(self, settings: Settings) -> None:
        self._read = None if settings.read_token is None else _digest(settings.read_token)
        self._write = None if settings.write_token is None else _digest(settings.write_token)

    def allow_change(self, authorization: str) -> bool:
        """Return whether a request with this ``Authorization`` header may change the index.

        Raises ``ServiceError`` 401 if it may not even read.
        """
        scheme, _, given = authorization.partition(" ")
        digest = _digest(given.strip() if scheme.lower() == "bearer" else "")
        writes, reads = _equal(self._write, digest), _equal(self._read, digest)
        if self._read and not (reads or writes):
            raise refusal("the token is wrong" if given else "this service needs a token")
        return writes if self._write else not self._read


def refusal(reason: str) -> ServiceError:
    """Return the answer to a request without the right token."""
    return ServiceError(401, f"{reason}: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _equal(digest: bytes | None, given: bytes) -> bool:
    """Compare digests in constant time, so the time reveals neither a token's characters nor its length."""
    return digest is not None and hmac.compare_digest(digest, given)
