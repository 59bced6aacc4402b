"""Tokens: who may ask the service for what, and how often."""

from __future__ import annotations

import hashlib
import hmac
import math
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from lbhash.service.errors import ServiceError
from lbhash.service.settings import Settings, check_token
from lbhash.utils.files import read_toml
from lbhash.utils.validation import check_choice, check_float

SCOPES = ("search", "write", "metrics")
"""What a token may allow: to search and all else that reads, to change the index, to read the metrics."""

_FIELDS = ("token", "scopes", "per_minute")


@dataclass
class Token:
    """A token by its name; it allows ``scopes``, and so many requests a minute (None: any number)."""

    name: str
    digest: bytes = field(repr=False)
    scopes: tuple[str, ...] = SCOPES
    per_minute: float | None = None

    def __post_init__(self) -> None:
        self._left, self._counted = self.per_minute or 0.0, monotonic()

    def check_rate(self) -> None:
        """Count a request; ``ServiceError`` 429 if there were too many. As many as in a minute may come at once."""
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

    def check_scope(self, scope: str) -> None:
        """Raise ``ServiceError`` 403 if the token does not allow this."""
        if scope not in self.scopes:
            allowed = ", ".join(self.scopes)
            raise ServiceError(403, f"the token {self.name!r} does not allow {scope!r}; it allows {allowed}")


class Tokens:
    """The tokens of the settings; ``ValueError`` if their file is not valid."""

    def __init__(self, settings: Settings) -> None:
        self._all: tuple[Token, ...] = ()
        if settings.token is not None:
            self._all = (Token("token", _digest(settings.token)),)
        elif settings.tokens is not None:
            self._all = read_tokens(settings.tokens)

    def __len__(self) -> int:
        return len(self._all)

    def of(self, authorization: str) -> Token:
        """Return the token in a header ``Authorization``; ``ServiceError`` 401 if there is none or a wrong one."""
        scheme, _, given = authorization.partition(" ")
        # Hashes are compared, because the time of a comparison must tell neither the token's characters nor its length.
        digest = _digest(given.strip())
        found = [token for token in self._all if hmac.compare_digest(token.digest, digest)]
        if not found or scheme.lower() != "bearer":
            detail = "the token is wrong" if given else "this service needs a token: Authorization: Bearer TOKEN"
            raise ServiceError(401, detail, {"WWW-Authenticate": "Bearer"})
        return found[0]


def read_tokens(path: str | Path) -> tuple[Token, ...]:
    """Return the tokens of a TOML file, a table each; ``ValueError`` if it is not valid, or others may read it."""
    tokens = tuple(_token(name, values) for name, values in read_toml(path, "tokens", private=True).items())
    if not tokens:
        raise ValueError(f"tokens is {str(path)!r}, which has no token; give each a table, such as [page]")
    by_digest = {token.digest: token.name for token in tokens}
    for token in tokens:
        if by_digest[token.digest] != token.name:
            raise ValueError(f"tokens {token.name!r} and {by_digest[token.digest]!r} are the same; make another one")
    return tokens


def _token(name: str, values: Any) -> Token:
    what = f"tokens.{name}"
    if not isinstance(values, dict) or "token" not in values or "scopes" not in values:
        raise ValueError(f"{what} must be a table with token and scopes")
    for key in values:
        check_choice(key, f"a field of {what}", _FIELDS)
    scopes, rate = values["scopes"], values.get("per_minute")
    if not isinstance(scopes, list) or not scopes:
        raise ValueError(f"{what}.scopes is {scopes!r}; it must be a list of {', '.join(SCOPES)}")
    for scope in scopes:
        check_choice(scope, f"a scope of {what}", SCOPES)
    if rate is not None:
        check_float(rate, f"{what}.per_minute", 1)
    return Token(name, _digest(check_token(values["token"], f"{what}.token")), tuple(scopes), rate)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
