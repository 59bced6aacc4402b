"""Bodies of requests: JSON, or a form with a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError
from python_multipart.exceptions import FormParserError
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException

from lbhash.service.errors import Refused

B = TypeVar("B", bound=BaseModel)

_FIELDS = 16  # of a form


async def read_json(request: Request, form: type[B]) -> B:
    """The body as JSON of that form; ``Refused`` with 422 where it is something else."""
    try:
        return form.model_validate_json(await request.body())
    except ValidationError as error:
        raise Refused(422, line_for(error.errors())) from None


async def read_form(request: Request, options: type[B]) -> tuple[bytes, B]:
    """The file in the field ``image`` and the other fields, of which those of no string are JSON.

    Raises:
        Refused: 400 where it is no form; 422 where there is no picture in it, or another field is wrong.
    """
    await request.body()  # whole and in memory, as its size is limited: the parser would write it to a file
    try:
        form = await request.form(max_files=1, max_fields=_FIELDS)
    except (FormParserError, HTTPException, UnicodeError) as error:
        line = " ".join(str(getattr(error, "detail", error)).split())
        raise Refused(400, f"the body is no form: {line}") from None
    file = form.get("image")
    if not isinstance(file, UploadFile):
        raise Refused(422, "the form has no file in its field 'image'")
    picture = await file.read()
    try:
        return picture, options.model_validate(_values(form, options))
    except ValidationError as error:
        raise Refused(422, line_for(error.errors())) from None
    finally:
        await form.close()


def is_form(request: Request) -> bool:
    """Whether the body is a form; ``Refused`` with 415 where it is neither that nor JSON."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind not in ("application/json", "multipart/form-data"):
        raise Refused(415, f"the body is {kind!r}; it must be application/json or multipart/form-data")
    return kind == "multipart/form-data"


def line_for(errors: Sequence[Any]) -> str:
    """The first of Pydantic's errors as one line, and how many more there are."""
    first = errors[0]
    place = ".".join(str(step) for step in first["loc"] if step not in ("path", "query"))
    said = " ".join(str(first["msg"]).removeprefix("Value error, ").split())
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{place}: {said}{more}" if place else f"{said}{more}"


def _values(form: FormData, options: type[BaseModel]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in form.multi_items():
        if name == "image":
            continue
        if name in values:
            raise Refused(422, f"{name} is given twice")
        if name == "rerank" or name not in options.model_fields or not isinstance(text, str):
            values[name] = text
            continue
        try:
            values[name] = json.loads(text)
        except (ValueError, RecursionError):
            raise Refused(422, f"{name} is {text[:64]!r}; in a form it must be JSON") from None
    return values
