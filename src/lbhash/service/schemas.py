"""The requests and answers of the service, as its OpenAPI schema describes them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from lbhash.index.where import conditions, each
from lbhash.service.settings import CANDIDATES, MAX_BATCH, MAX_FOUND, MAX_K
from lbhash.utils.formatting import is_unicode

_Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]


def _whole(value: Any) -> Any:
    """Return a number, or refuse an integer of more than 64 bits, which as a float would be another one."""
    if type(value) is int and not -(2**63) <= value < 2**64:
        raise ValueError("it must be a number of 64 bits")
    return value


_Value = StrictBool | StrictStr | Annotated[StrictInt | _Finite, BeforeValidator(_whole, json_schema_input_type=float)]
_K = Annotated[StrictInt, Field(ge=1, le=MAX_K)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Label = Annotated[Any, Field(description="Mostly an integer, a text, or a list of these.")]
_MAX_COLUMNS, _MAX_VALUES = 16, 1000  # of a filter


def _numbers(value: Any) -> Any:
    """Decode numbers from base64; return any other value unchanged, for Pydantic to check."""
    if not isinstance(value, str):
        return value
    try:
        return np.frombuffer(base64.b64decode(value, validate=True), "<f4").tolist()
    except ValueError:  # includes binascii's error
        raise ValueError("it is text, but not the base64 of float32 numbers, four bytes each") from None


def _one_id(value: Any) -> Any:
    """Return an id, or refuse it; Pydantic's error for a union would list its members."""
    text = value if isinstance(value, str) else ""
    if not (type(value) is int and -(2**63) <= value < 2**63) and not (text and is_unicode(text)):
        raise ValueError("it must be an integer of 64 bits, or a text")
    return value


def _words(value: Any) -> Any:
    """Return a text, or refuse it if there is none."""
    if not isinstance(value, str) or not value.strip() or not is_unicode(value):
        raise ValueError("it must be a text with a word")
    return value


# Only the first error is reported, so lists stop at it; otherwise each value could make an error.
_Base64 = Annotated[str, Field(json_schema_extra={"contentEncoding": "base64"})]
_Embedding = Annotated[
    list[_Finite], Field(fail_fast=True), BeforeValidator(_numbers, json_schema_input_type=list[_Finite] | _Base64)
]
_Embeddings = Annotated[list[_Embedding], Field(min_length=1, max_length=MAX_BATCH, fail_fast=True)]
_Text = Annotated[StrictStr, BeforeValidator(_words, json_schema_input_type=str)]
_Texts = Annotated[list[_Text], Field(min_length=1, max_length=MAX_BATCH, fail_fast=True)]
_Id = Annotated[Any, BeforeValidator(_one_id, json_schema_input_type=int | str)]
_Ids = Annotated[list[_Id], Field(min_length=1, max_length=_MAX_VALUES, fail_fast=True)]
_Values = Annotated[list[_Value], Field(max_length=_MAX_VALUES, fail_fast=True)]
_Choices = Annotated[dict[StrictStr, _Value | _Values], Field(max_length=_MAX_COLUMNS)]
_CHOICES, _CELL = TypeAdapter(_Choices), TypeAdapter(_Value | _Values | None)
_TAKEN = f"a text, a number of 64 bits, true or false, or a list of at most {_MAX_VALUES:,} of these"


def _cell(value: Any) -> Any:
    """Return a column value, or refuse it; Pydantic's error for a union would list its members."""
    try:
        return _CELL.validate_python(value)
    except ValidationError:
        raise ValueError(f"it must be {_TAKEN}, or null") from None


_Cell = Annotated[Any, BeforeValidator(_cell, json_schema_input_type=_Value | _Values | None)]
_Column = Annotated[list[_Cell], Field(max_length=MAX_BATCH, fail_fast=True)]


def _filter(value: Any) -> Any:
    """Return a filter, or refuse it in one line, before an index gets it."""
    columns = value
    if isinstance(value, str):
        columns = {
            f"condition {place}": list(values) for place, (_, _, values) in enumerate(each(conditions(value)), 1)
        }
    if isinstance(columns, dict) and len(columns) > _MAX_COLUMNS:  # Pydantic would report each
        raise ValueError(f"{len(columns):,} columns are given; there may be {_MAX_COLUMNS}")
    try:
        checked = _CHOICES.validate_python(columns)
    except ValidationError as error:
        name = next(iter(error.errors()[0]["loc"]), "it")
        raise ValueError(
            f"{name} must be {_TAKEN}; "
            "a filter is a text, such as 'price < 20', or an object with the values of columns"
        ) from None
    return value if isinstance(value, str) else checked


_Where = Annotated[Any, BeforeValidator(_filter, json_schema_input_type=_Choices | str)]


class _Computed(BaseModel):
    state: Literal["computing", "ready", "failed"]
    generation: int


def _check_one(given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise ``ValueError`` unless exactly one of these fields is given."""
    names = [name for name in known if given.get(name) is not None]
    if len(names) != 1:
        *first, last = known
        raise ValueError(
            f"{' and '.join(names) or 'nothing'} is given; it must be one of {', '.join(first)} and {last}"
        )


def _one_of(*names: str) -> ConfigDict:
    """Return a configuration that expresses ``_check_one`` in the schema."""
    given: Any = [{"properties": {name: {"not": {"type": "null"}}}, "required": [name]} for name in names]
    return ConfigDict(extra="forbid", json_schema_extra={"oneOf": given})


class Body(BaseModel, extra="forbid"):
    """The body of a request: JSON, or if ``FORM`` is set, a form with images and the fields of ``FORM``."""

    FORM: ClassVar[type[BaseModel] | None] = None

    @classmethod
    def whole_schema(cls) -> dict[str, Any]:
        """Return the schema without references, because they would be resolved in the whole OpenAPI document."""
        schema = cls.model_json_schema()
        for name, part in schema.pop("$defs", {}).items():
            schema = json.loads(json.dumps(schema).replace(json.dumps({"$ref": f"#/$defs/{name}"}), json.dumps(part)))
        return schema


class Given(BaseModel):
    """A query: exactly one of these fields."""

    model_config = _one_of("embedding", "text", "code", "id")

    embedding: _Embedding | None = Field(
        None, description="As many numbers as /v1/info says: a list, or base64 of float32 in little-endian order."
    )
    text: _Text | None = Field(None, description="A text, if /v1/info says that the model takes texts.")
    code: StrictStr | None = Field(None, description="Hexadecimal, two digits a byte.")
    id: _Id | None = Field(None, description="The id of an item of the index. An integer may be sent as text.")

    @model_validator(mode="before")
    @classmethod
    def _check(cls, given: Any) -> Any:
        if isinstance(given, dict):
            check_names(given, cls)
            _check_one(given, [*cls.model_fields])
        return given


def check_names(names: Iterable[str], model: type[BaseModel]) -> None:
    """Refuse an unknown field, before Pydantic makes an error for each of maybe 100,000 fields."""
    for name in names:
        if name not in model.model_fields:
            known = ", ".join(model.model_fields) or "none"
            raise ValueError(f"{' '.join(name[:64].split())}: there is no such field; there are {known}")


class Queries(Body):
    """A search: some queries."""

    queries: Annotated[list[Given], Field(min_length=1, max_length=MAX_BATCH, fail_fast=True)] = Field(
        description=f"Up to {MAX_BATCH} queries, each with exactly one of these fields."
    )


class EncodeOptions(BaseModel, extra="forbid"):
    """The contents of the answer besides the codes."""

    embeddings: StrictBool = Field(
        False, description="Whether to return the embeddings, too; an id has one if the index stores embeddings."
    )


class EncodeRequest(EncodeOptions, Queries):
    """The queries to encode."""

    FORM: ClassVar[type[BaseModel] | None] = EncodeOptions


class Options(BaseModel, extra="forbid"):
    """How to search."""

    k: _K | None = Field(None, description=f"The number of neighbors: by default 10, or {MAX_K:,} with a radius.")
    radius: Annotated[StrictInt, Field(ge=0)] | None = Field(None, description="The largest Hamming distance, in bits.")
    where: _Where | None = Field(
        None,
        description="Return only items with this value, or one of these values, in each column; or a text as for "
        "'lbhash search', such as 20 <= price < 50 and color in (red, blue).",
    )
    ranking: Literal["hamming", "real"] | None = Field(
        None,
        description="Rank by the number of bits that differ (hamming), or by the distance from the query's real "
        "outputs (real). A query by code or id has no real outputs. The default is real if the query has them and no "
        "radius is given.",
    )
    rerank: Literal["outputs", "embeddings"] | None = Field(
        None, description="Re-rank the nearest candidates by the stored vectors."
    )
    candidates: _K | None = Field(
        None,
        description="The number of items to re-rank, or to search within a radius for ranking real; at least k, by "
        f"default {CANDIDATES}.",
    )

    @property
    def most(self) -> int:
        """The most neighbors that a query gets."""
        by_bits = self.rerank is None and self.ranking != "real"
        return self.k or (MAX_K if self.radius is not None and by_bits else 10)

    def check_size(self, queries: int) -> None:
        """Raise ``ValueError`` if the answer would be too large."""
        if queries * self.most > MAX_FOUND:
            together = f"together {queries * self.most:,} neighbors, and an answer has {MAX_FOUND:,} at most"
            raise ValueError(f"{queries} queries are given and k is {self.most:,}: {together}; give a smaller k")

    @model_validator(mode="after")
    def _enough(self) -> Options:
        if self.candidates is not None and self.candidates < self.most:
            raise ValueError(f"candidates is {self.candidates}; it must be at least k ({self.most})")
        return self


class SearchRequest(Options, Queries):
    """A search, by one query or by several."""

    FORM: ClassVar[type[BaseModel] | None] = Options


class PageSearch(Options, Body):
    """A search of the page: by an item, or by a row of the data, even one that is not in the index."""

    id: _Id | None = None
    row: StrictInt | None = None

    @model_validator(mode="after")
    def _check(self) -> PageSearch:
        _check_one(vars(self), ("id", "row"))
        return self


class ItemFacts(BaseModel, extra="forbid"):
    """The ids and metadata of new items."""

    ids: _Ids | None = Field(None, description="A new id for each item; by default the next integers.")
    metadata: dict[StrictStr, _Column] = Field(
        {},
        description="Columns of the index, each with a value of its type for every item; missing columns are null.",
    )

    @property
    def count(self) -> int:
        """The number of items; 0 if it is unknown."""
        return 0

    def check_count(self, count: int) -> None:
        """Raise ``ValueError`` unless each column has a value for each item."""
        columns = {f"metadata.{name}": values for name, values in self.metadata.items()}
        for name, values in {"ids": self.ids or [None] * count, **columns}.items():
            if len(values) != count:
                raise ValueError(f"{name} has {len(values)} values; it must have {count}, one for each item")


class FactsWithIds(ItemFacts):
    """The ids and metadata of items, with an id for each."""

    ids: _Ids = Field(description="An id for each.")


class Items(ItemFacts, Body):
    """Items to add, by their embeddings, texts or codes; a form has their images."""

    FORM: ClassVar[type[BaseModel] | None] = ItemFacts
    SOURCES: ClassVar[tuple[str, ...]] = ("embeddings", "texts", "codes")

    model_config = _one_of(*SOURCES)

    embeddings: _Embeddings | None = Field(
        None, description="A list of numbers for each item, or the base64 of float32."
    )
    texts: _Texts | None = Field(None, description="A text for each item, if the model takes texts.")
    codes: Annotated[list[StrictStr], Field(min_length=1, max_length=MAX_BATCH, fail_fast=True)] | None = Field(
        None, description="A code for each item, hexadecimal, if the index stores no vectors."
    )

    @model_validator(mode="after")
    def _check(self) -> Items:
        _check_one(vars(self), self.SOURCES)
        return self

    @property
    def count(self) -> int:
        """The number of items."""
        return len(self.embeddings or self.texts or self.codes or ())


class ItemsWithIds(Items):
    """Items to add, replacing items that have the same ids."""

    FORM: ClassVar[type[BaseModel] | None] = FactsWithIds

    ids: _Ids = Field(description="An id for each.")


class ItemIds(Body):
    """The ids of items to get or delete."""

    ids: _Ids = Field(description="The ids of items of the index.")


class Changed(BaseModel):
    """A change of the index, stored on disk and visible to later searches."""

    ids: list[int | str] = Field(description="The ids of the items that were added, replaced or deleted.")
    codes: int = Field(description="The number of codes in the index after the change.")
    generation: int


class Item(BaseModel):
    """An item of the index."""

    id: int | str
    code: str = Field(description="Hexadecimal.")
    label: _Label
    metadata: dict[str, Any] = Field(description="The item's metadata; for a thumbnail, whether there is one.")
    image: bool = Field(description="Whether /v1/items/{id}/image has an image of it.")


class ItemsAnswer(BaseModel):
    """Items, in the order of the requested ids."""

    items: list[Item]
    generation: int


class Query(BaseModel):
    """The query as the service understood it."""

    code: str = Field(description="Hexadecimal.")
    bits: int
    id: int | str | None = None
    label: _Label = None
    metadata: dict[str, Any] = Field({}, description="The item's metadata in the index.")
    image: bool = Field(False, description="Whether /v1/items/{id}/image has an image of it.")
    doubt: float | None = Field(
        None, description="The share of the data's rows whose outputs are closer to another row's than the query's are."
    )
    unsure: list[int] = Field([], description="The bits whose outputs are close to 0: below a quarter of the median.")


class _Ranked(BaseModel):
    rank: int
    distance: float = Field(description="The value that orders the neighbors; smaller is nearer.")
    hamming: int = Field(description="The Hamming distance: how many bits differ.")


class Neighbor(Item, _Ranked):
    """An item that was found."""


class Milliseconds(BaseModel):
    """How long each step took."""

    encode: float
    search: float
    total: float


class Found(BaseModel):
    """The answer to a query."""

    query: Query
    ranking: Literal["hamming", "real", "outputs", "embeddings"] = Field(
        description="The kind of the distances: Hamming distances, sums of the query's absolute outputs over bits that "
        "differ, or scores by the stored outputs or embeddings."
    )
    neighbors: list[Neighbor]
    within: int | None = Field(description="The number of codes within the radius, if no k was given.")


class SearchAnswer(BaseModel):
    """The answer to a search."""

    answers: list[Found] = Field(description="For each query, in their order.")
    generation: int = Field(description="The generation of the index that was searched.")
    milliseconds: Milliseconds


class Encoded(BaseModel):
    """The code of a query."""

    code: str = Field(description="Hexadecimal.")
    bits: int
    outputs: list[float] | None = Field(description="The model's real-valued outputs, whose signs are the bits.")
    embedding: list[float] | None = Field(description="The embedding, if it was requested and is known.")


class EncodeAnswer(BaseModel):
    """Codes."""

    answers: list[Encoded] = Field(description="For each query, in their order.")


class _Loaded(BaseModel):
    model: str = Field(description="The fingerprint of the model.")
    generation: int = Field(description="The generation of the index.")
    codes: int
    bits: int


class Health(_Loaded):
    """The state of the service."""

    ready: bool
    build: str = Field(description="The random id that the index got when it was built.")


class Limits(BaseModel):
    """The limits of a request."""

    max_body: int = Field(description="The bytes of a form.")
    max_json: int = Field(description="The bytes of JSON: enough for max_batch embeddings.")
    max_pixels: int
    max_k: int
    max_batch: int = Field(description="The number of queries or new items in one request.")


class Info(_Loaded):
    """The service's facts and limits."""

    version: str
    method: str
    kind: str
    dim: int = Field(description="The length of an embedding.")
    rows: int | None = Field(description="The number of rows of the data; null if the service has no data.")
    images: bool = Field(description="Whether rows have images.")
    takes_images: bool = Field(description="Whether an image can be the query.")
    takes_texts: bool = Field(description="Whether a text can be the query, or an item.")
    ids: Literal["int64", "string"] = Field(description="The type of the ids: integers or texts.")
    metadata: dict[str, str] = Field(description="The columns and their types.")
    label: str | None = Field(description="The column with the label.")
    rerank: list[str] = Field(description="The values that rerank may have: the vectors that the index stores.")
    limits: Limits


class ClassNumbers(BaseModel):
    """The distances of the bound for one class, in bits, and its mAP."""

    label: int | str
    codes: int
    intra: float = Field(description="D_intra: the largest distance of a code from the center of its class.")
    intra_mean: float
    inter: float | None = Field(description="The distance of its center from the nearest other center.")
    nearest: int | str | None = Field(description="The class of that other center.")
    map: float | None = Field(default=None, description="The mAP of its queries.")


class Confusion(BaseModel):
    """The queries of one class that a vote of the nearest codes assigns to another class."""

    label: int | str
    taken_for: int | str
    queries: int
    share: float = Field(description="The share of the queries of that class.")


class ByBits(BaseModel):
    """The mAP by Hamming distance."""

    map: _Share
    map_worst: _Share
    map_best: _Share


class Searched(BaseModel):
    """How well the training's real-valued queries found rows of their class."""

    name: str = Field(description="What was searched.")
    map: _Share
    map_macro: _Share
    knn_accuracy: _Share | None = None
    by_bits: ByBits


class Stored(BaseModel):
    """A way to store rows, and how well it finds new ones."""

    name: str
    bytes: int
    map: _Share | None = None
    recall: _Share = Field(description="The share of the ten nearest by cosine among the first ten.")
    reranked: _Share = Field(description="The same after re-ranking 100 candidates by embeddings.")


class Trained(BaseModel):
    """The report of 'lbhash train'."""

    searched: list[Searched] = []
    stored: list[Stored] = []


class Summary(_Computed):
    """The measures of the model on the codes of the index."""

    notes: list[str] = []
    trained: Trained | None = Field(default=None, description="The report of the training, if there is one.")
    codes: int | None = None
    queries: int | None = None
    base: int | None = Field(
        default=None, description="The number of codes searched: those of new rows, if there are any."
    )
    map: float | None = None
    map_worst: float | None = None
    map_best: float | None = None
    map_macro: float | None = Field(
        default=None, description="The mean of the classes' mAP, over the classes of the queries."
    )
    knn_accuracy: float | None = None
    precision_within_2: float | None = None
    inter: float | None = None
    intra: float | None = None
    ratio: float | None = None
    ratio_999: float | None = Field(
        default=None, description="The ratio of 99.9 % of the pairs of classes and of the codes."
    )
    classes: list[ClassNumbers] = []
    confused: list[Confusion] | None = Field(default=None, description="The most frequently confused classes.")


class Map(_Computed):
    """A sample of the codes as a 2-D map; each column has one value per code."""

    kind: Literal["pca", "tsne"] | None = None
    pending: bool = Field(description="Whether a better map is being computed.")
    ids: list[int | str] = []
    images: list[bool] = []
    labels: list[_Label] = []
    x: list[float] = []
    y: list[float] = []


class Detail(BaseModel):
    """Why a request was refused."""

    detail: str


REFUSALS = {
    400: "A form that cannot be read.",
    401: "No token, or one that does not allow the request.",
    403: "The request is from a page of another web site.",
    404: "There is no such id, image or route; changing items needs --writable.",
    408: "The body took too long to arrive.",
    409: "The index already has an id; PUT /v1/items replaces its item.",
    413: "The body is too large; /v1/info has the limits.",
    415: "The body has no Content-Type, or is neither JSON nor a form.",
    421: "The request is for another host (--allow-host).",
    422: "A field is wrong; the first one is named.",
    503: "The service is busy, or the index is damaged or does not answer; Retry-After says when to ask again.",
}
"""The meaning of each refusal's status."""


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI descriptions of statuses."""
    return {status: {"model": Detail, "description": REFUSALS[status]} for status in statuses}
