"""Tokens: who may ask the service for what, and how often."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from lbhash.service.errors import ServiceError
from lbhash.service.requests import line_for
from lbhash.service.settings import Settings, check_token
from lbhash.utils.files import read_toml

Scope = Literal["search", "write", "metrics"]
"""What a token may allow: to search and all else that reads, to change the index, to read the metrics."""


class Token(BaseModel, extra="forbid", strict=True):
    """A token by its name; it allows ``scopes``, and so many requests a minute (None: any number)."""

    name: str
    token: Annotated[str, AfterValidator(check_token)] = Field(repr=False)
    scopes: list[Scope] = Field(min_length=1)
    per_minute: float | None = Field(default=None, ge=1, allow_inf_nan=False)

    def model_post_init(self, _: object) -> None:
        """Allow as many requests at once as in a minute."""
        self._digest = _digest(self.token)
        self._left, self._counted = self.per_minute or 0.0, monotonic()

    def is_of(self, digest: bytes) -> bool:
        """Return whether this is the token of a digest, in a time that tells neither its characters nor its length."""
        return hmac.compare_digest(self._digest, digest)

    def check_rate(self) -> None:
        """Count a request; ``ServiceError`` 429 if there were too many."""
        if self.per_minute is None:
            return
        now = monotonic()
        self._left = min(self.per_minute, self._left + (now - self._counted) * self.per_minute / 60)
        self._counted = now
        if self._left < 1:
            wait = math.ceil((1 - self._left) * 60 / self.per_minute)
            told = f"the token {self.name!r} allows {self.per_minute:g} requests a minute"
            raise ServiceError(429, f"{told}; try again in {wait} s", {"Retry-After": str(wait)})
        self._left -= 1

    def check_scope(self, scope: Scope) -> None:
        """Raise ``ServiceError`` 403 if the token does not allow this."""
        if scope not in self.scopes:
            allowed = ", ".join(self.scopes)
            raise ServiceError(403, f"the token {self.name!r} does not allow {scope!r}; it allows {allowed}")


def tokens_of(settings: Settings) -> Sequence[Token]:
    """Return the tokens of the settings; ``ValueError`` if their file is not valid."""
    if settings.token is not None:
        return (Token(name="token", token=settings.token, scopes=list(get_args(Scope))),)
    return () if settings.tokens is None else read_tokens(settings.tokens)


def find_token(tokens: Sequence[Token], authorization: str) -> Token:
    """Return the token in a header ``Authorization``; ``ServiceError`` 401 if there is none or a wrong one."""
    scheme, _, given = authorization.partition(" ")
    digest = _digest(given.strip())
    found = [one for one in tokens if one.is_of(digest)]
    if not found or scheme.lower() != "bearer":
        detail = "the token is wrong" if given else "this service needs a token: Authorization: Bearer TOKEN"
        raise ServiceError(401, detail, {"WWW-Authenticate": "Bearer"})
    return found[0]


def read_tokens(path: str | Path) -> list[Token]:
    """Return the tokens of a TOML file, a table each; ``ValueError`` if it is not valid, or others may read it."""
    tables = read_toml(path, "tokens", private=True)
    if not tables:
        raise ValueError(f"tokens is {str(path)!r}, which has no token; give each a table, such as [page]")
    names: dict[str, str] = {}
    tokens = []
    for name, table in tables.items():
        tokens.append(one := _token(name, table))
        if (other := names.setdefault(one.token, name)) != name:
            raise ValueError(f"tokens {other!r} and {name!r} are the same; make another one")
    return tokens


def _token(name: str, table: Any) -> Token:
    if not isinstance(table, dict):
        raise ValueError(f"tokens.{name} must be a table with token and scopes")
    try:
        return Token.model_validate({**table, "name": name})
    except ValidationError as error:
        first = error.errors()[0]
        field = first["loc"][0]
        if first["type"] == "extra_forbidden":
            raise ValueError(
                f"tokens.{name}.{field}: there is no such field; there are token, scopes and per_minute"
            ) from None
        raise ValueError(f"tokens.{name}.{line_for(error, show=field != 'token')}") from None


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
