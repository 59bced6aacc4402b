"""Read the body of a request: JSON, or a form with images."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ValidationError
from python_multipart.exceptions import FormParserError
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from lbhash.service.errors import ServiceError, refusal
from lbhash.service.schemas import Body, check_names
from lbhash.service.settings import MAX_BATCH, MAX_JSON
from lbhash.utils.fields import wrong_field
from lbhash.utils.formatting import one_line

JSON, FORM = "application/json", "multipart/form-data"

_MAX_BRACKETS = 20_000  # in JSON: more than the largest filter has, even with a bracket in each value
_PIECE = 1 << 16  # bytes of a form parsed at a time: refuse a part that is too large before copying it


async def read_body(request: Request, model: type[Body]) -> tuple[str, bytes]:
    """Return the header ``Content-Type`` and the body; ``ServiceError`` 415 if the model does not accept this type.

    ``Security`` limits the body's size.
    """
    header, kinds = request.headers.get("content-type", ""), (JSON,) if model.FORM is None else (JSON, FORM)
    if (kind := media_type(header)) not in kinds:
        given = f"the body is {kind[:64]!r}" if kind else "the body has no Content-Type"
        raise ServiceError(415, f"{given}; it must be {' or '.join(kinds)}")
    return header, await request.body()


def parse_body(content_type: str, data: bytes, model: type[Body], dim: int) -> tuple[Any, ...]:
    """Parse JSON into the model, or a form into the model of its fields and its image files.

    JSON may have ``MAX_BATCH`` embeddings of ``dim`` numbers. Call it in a thread: it takes up to 60 milliseconds.
    Raises ``ServiceError`` 400 if a form cannot be read, and 422 if a field is missing or wrong.
    """
    try:
        if media_type(content_type) == JSON:
            value = parse_json(data, "the body", MAX_BATCH * dim)
            check_names(value if isinstance(value, dict) else (), model)
            return (model.model_validate(value),)
        assert model.FORM is not None
        images, values = _read_form(content_type, data, model.FORM)
        return model.FORM.model_validate(values), images
    except ValidationError as error:
        raise ServiceError(422, line_for(error)) from None
    except ValueError as error:
        raise refusal(error) from None


def media_type(header: str) -> str:
    """Return the media type of a ``Content-Type`` header, without parameters such as a charset."""
    return header.partition(";")[0].strip().lower()


def parse_json(text: bytes, name: str, numbers: int = 0) -> Any:
    """Parse JSON; ``ServiceError`` 422 if it is not JSON, or too large or too deep for any query.

    It may have ``numbers`` values more than fit into ``MAX_JSON``.
    """
    # Parsing holds Python's global lock and so stops the whole service; each list takes far longer than its one byte.
    if text.count(b"[") + text.count(b"{") > _MAX_BRACKETS:
        raise ServiceError(422, f"{name} is JSON that has more lists than any query")
    if text.count(b",") > MAX_JSON // 2 + numbers:
        raise ServiceError(422, f"{name} is JSON that has more values than any query")
    try:
        return json.loads(text)
    except RecursionError:
        raise ServiceError(422, f"{name} is JSON that is too deep") from None
    except ValueError as error:
        start = text[:64].decode(errors="replace")
        reason = getattr(error, "msg", "it is not UTF-8, or a number has too many digits")
        raise ServiceError(422, f"{name} is {start!r}, which is not JSON: {reason}") from None


def line_for(error: ValidationError | Any) -> str:
    """Return the first of Pydantic's errors as one line."""
    first = error.errors()[0]
    place = ".".join(str(step) for step in first["loc"] if step not in ("path", "query"))
    ours = first["type"] == "value_error"  # our own messages name the fields
    return " ".join(wrong_field(first, place or ("" if ours else "the body")).split())


def _read_form(content_type: str, data: bytes, model: type[BaseModel]) -> tuple[list[bytes], dict[str, Any]]:
    """Return the files in the field ``image``, and the other fields' values, given as JSON or plain words."""
    try:
        images, texts = asyncio.run(_parse_form(content_type, data))  # a coroutine that never waits
    except (MultiPartException, FormParserError, UnicodeError) as error:
        raise ServiceError(400, f"the body is not a form that can be read: {one_line(error)}") from None
    if not images:
        raise ServiceError(422, "the form has no file in its field 'image'")
    check_names((name for name, _ in texts), model)
    values: dict[str, Any] = {}
    for name, text in texts:
        if name in values:
            raise ServiceError(422, f"{name[:64]} is given twice")
        # "null" is JSON in every field: the schema allows it for a missing value.
        words = name in ("ranking", "rerank") or (name == "where" and str(text).lstrip()[:1] not in ("{", '"'))
        plain = not isinstance(text, str) or (words and text != "null")
        values[name] = text if plain else parse_json(text.encode(), name)
    return images, values


async def _parse_form(content_type: str, data: bytes) -> tuple[list[bytes], list[tuple[str, Any]]]:
    """Return the files in the field ``image``, and names and values of the other fields."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        for start in range(0, len(data), _PIECE):
            yield data[start : start + _PIECE]

    headers = Headers({"content-type": content_type})
    parser = MultiPartParser(headers, pieces(), max_files=MAX_BATCH, max_fields=16, max_part_size=MAX_JSON)
    parser.spool_max_size = len(data) + 1  # bytes; beyond that it would write a file
    form = await parser.parse()
    images = [await file.read() for file in form.getlist("image") if isinstance(file, UploadFile)]
    await form.close()
    return images, [(name, text) for name, text in form.multi_items() if name != "image"]
