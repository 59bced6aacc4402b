"""What the service takes and answers, as its OpenAPI schema says it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from lbhash.service.settings import MAX_K

_Int64 = Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)]
_Value = StrictBool | _Int64 | Annotated[StrictFloat, Field(allow_inf_nan=False)] | StrictStr
Natural = Annotated[StrictInt, Field(ge=0, lt=2**63)]
Rerank = Literal["asymmetric", "outputs", "embeddings"]


class Given(BaseModel):
    """What is encoded: exactly one of these."""

    model_config = ConfigDict(extra="forbid")

    embedding: list[Annotated[float, Field(strict=True, allow_inf_nan=False)]] | None = Field(
        default=None, description="As the model takes it: as many numbers as /about says."
    )
    id: Natural | None = Field(default=None, description="Of a code of the index.")
    code: StrictStr | None = Field(default=None, description="Hexadecimal: two digits a byte, the first bit lowest.")
    row: Natural | None = Field(default=None, description="Of the data, counted from 0.")

    @model_validator(mode="after")
    def _one_of_them(self) -> Given:
        given = [name for name in ("embedding", "id", "code", "row") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(
                f"{' and '.join(given) or 'nothing'} is given; it must be one of embedding, id, code and row"
            )
        return self


class Options(BaseModel):
    """How it is searched."""

    model_config = ConfigDict(extra="forbid")

    k: Annotated[StrictInt, Field(ge=1, le=MAX_K)] | None = Field(
        default=None,
        description=f"How many neighbors; 10, or {MAX_K:,} where a radius is given. All of a smaller index.",
    )
    radius: Annotated[StrictInt, Field(ge=0)] | None = Field(default=None, description="None that is farther, in bits.")
    where: dict[StrictStr, _Value | Annotated[list[_Value], Field(max_length=1000)]] | None = Field(
        default=None,
        max_length=16,
        description="Only codes with this value, or one of these values, in every column named.",
    )
    rerank: Rerank | None = Field(
        default=None,
        description="Order the nearest candidates anew, by the query's real-valued outputs or what is stored.",
    )
    candidates: Annotated[StrictInt, Field(ge=1, le=MAX_K)] = Field(
        default=100, description="How many codes are ordered anew; at least k."
    )


class Nothing(BaseModel):
    """No option, as a picture that is only encoded has none."""

    model_config = ConfigDict(extra="forbid")


class SearchRequest(Given, Options):
    """A search."""


class Query(BaseModel):
    """The query as it was understood."""

    code: str = Field(description="Hexadecimal.")
    bits: int
    id: int | None = None
    row: int | None = None
    label: int | list[int] | None = None


class Neighbor(BaseModel):
    """A code that was found."""

    rank: int
    id: int
    row: int | None = Field(description="Its row of the data, for /row/{row}/image.")
    distance: int = Field(description="Hamming distance in bits.")
    score: float | None = Field(description="What the codes are ordered by after re-ranking; smaller is nearer.")
    label: int | list[int] | None
    attributes: dict[str, Any]
    code: str


class Milliseconds(BaseModel):
    """Where the time went."""

    encode: float
    search: float
    total: float


class SearchAnswer(BaseModel):
    """What a search found."""

    query: Query
    neighbors: list[Neighbor]
    within: int | None = Field(description="How many codes are within the radius, where no k was given.")
    generation: int = Field(description="Of the index that was searched.")
    milliseconds: Milliseconds


class EncodeAnswer(BaseModel):
    """A code."""

    code: str = Field(description="Hexadecimal.")
    bits: int
    outputs: list[float] | None = Field(description="The model's real-valued outputs, whose signs are the bits.")


class Health(BaseModel):
    """Whether the service is there, and with what."""

    ready: bool
    model: str = Field(description="Its fingerprint.")
    build: str = Field(description="Of the index: drawn at random when it was built.")
    generation: int
    codes: int
    bits: int


class Limits(BaseModel):
    """The most that a request may have."""

    max_body: int
    max_pixels: int
    max_k: int


class About(BaseModel):
    """What can be asked of this service."""

    version: str
    model: str
    method: str
    kind: str
    generation: int
    codes: int
    bits: int
    dim: int = Field(description="Numbers of an embedding.")
    rows: int | None = Field(description="How many rows the data have; null where there are no data.")
    pictures: bool = Field(description="Whether rows have pictures.")
    takes_pictures: bool = Field(description="Whether a picture can be searched with.")
    columns: list[str]
    label: str | None = Field(description="The column with the label.")
    rerank: list[str]
    limits: Limits


class ClassNumbers(BaseModel):
    """The bound's distances of one class, in bits."""

    label: int
    codes: int
    intra: float = Field(description="D_intra: the largest distance of a code from the center of its class.")
    intra_mean: float
    inter: float | None = Field(description="The distance of its center from the nearest other center.")
    nearest: int | None = Field(description="Whose center that is.")


class Confusion(BaseModel):
    """Queries of one class that a vote of the nearest codes takes for another."""

    label: int
    taken_for: int
    queries: int
    share: float = Field(description="Of the queries of that class.")


class Summary(BaseModel):
    """The model's numbers on the index's codes."""

    state: Literal["computing", "ready", "failed"]
    generation: int
    notes: list[str] = []
    codes: int | None = None
    queries: int | None = None
    map: float | None = None
    map_worst: float | None = None
    map_best: float | None = None
    knn_accuracy: float | None = None
    precision_within_2: float | None = None
    inter: float | None = None
    intra: float | None = None
    ratio: float | None = None
    ratio_999: float | None = Field(default=None, description="With the 99.9th percentile of D_intra.")
    classes: list[ClassNumbers] = []
    confused: list[Confusion] | None = None


class Map(BaseModel):
    """A sample of the codes in the plane; the columns have a value for each code."""

    state: Literal["computing", "ready", "failed"]
    generation: int
    kind: Literal["pca", "tsne"] | None = None
    pending: bool = Field(description="Whether a better one is being computed.")
    ids: list[int] = []
    rows: list[int | None] = []
    labels: list[int | list[int] | None] = []
    x: list[float] = []
    y: list[float] = []


class Detail(BaseModel):
    """Why not."""

    detail: str
