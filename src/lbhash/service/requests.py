"""Reads the body of a request: JSON, or a form with an image."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ValidationError
from python_multipart.exceptions import FormParserError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from lbhash.service.errors import ServiceError
from lbhash.service.schemas import Given


async def read_query(request: Request, query: type[Given], options: type[BaseModel]) -> tuple[Any, Any, Any]:
    """Read a query and its options: JSON of the model ``query``, or a form with an image and fields of ``options``.

    Returns the query if it is JSON, the options, and the bytes of the image if it is a form. Raises ``ServiceError``
    with 415 if it is neither, 400 if the form cannot be read, and 422 if a field is missing or wrong.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            given = query.model_validate_json(await request.body())
            return given, given, None
        if kind == "multipart/form-data":
            image, values = await _read_form(request, options)
            return None, options.model_validate(values), image
    except ValidationError as error:
        raise ServiceError(422, line_for(error.errors())) from None
    raise ServiceError(415, f"the body is {kind!r}; it must be application/json or multipart/form-data")


async def _read_form(request: Request, options: type[BaseModel]) -> tuple[bytes, dict[str, Any]]:
    """Return the file in the field ``image``, and the others' values; one that is no string in ``options`` is JSON."""
    await request.body()  # all of it in memory, as its size is limited; the parser would write it to a file
    try:
        form = await request.form(max_files=1, max_fields=16)
    except (FormParserError, HTTPException, UnicodeError) as error:
        line = " ".join(str(getattr(error, "detail", error)).split())
        raise ServiceError(400, f"the body is not a form that can be read: {line}") from None
    file = form.get("image")
    if not isinstance(file, UploadFile):
        raise ServiceError(422, "the form has no file in its field 'image'")
    image = await file.read()
    await form.close()
    values: dict[str, Any] = {}
    for name, text in form.multi_items():
        if name == "image":
            continue
        if name in values:
            raise ServiceError(422, f"{name} is given twice")
        values[name] = text
        if name != "rerank" and name in options.model_fields and isinstance(text, str):
            try:
                values[name] = json.loads(text)
            except (ValueError, RecursionError):
                raise ServiceError(422, f"{name} is {text[:64]!r}; in a form it must be JSON") from None
    return image, values


def line_for(errors: Sequence[Any]) -> str:
    """Return the first of Pydantic's errors as one line, with the number of further errors."""
    first = errors[0]
    place = ".".join(str(step) for step in first["loc"] if step not in ("path", "query"))
    message = " ".join(str(first["msg"]).removeprefix("Value error, ").split())
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{place}: {message}{more}" if place else f"{message}{more}"
