"""Answer requests from model, index and rows; called in a thread."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL.Image import Image
from pydantic import BaseModel

from lbhash.codes import PackedCodes, code_from_hex, pack_outputs
from lbhash.data.images.decoding import thumbnail_of
from lbhash.data.origin import ROW, data_fingerprint
from lbhash.index import DamagedIndexError, Index, SearchResult, UnknownIdError
from lbhash.index.base import (
    THUMBNAIL,
    BaseIndex,
    check_model,
    describe_items,
    describe_neighbors,
)
from lbhash.index.ids import INTEGER
from lbhash.index.results import Neighbors
from lbhash.models.backbone_files import load_backbone
from lbhash.models.encoder import Encoder, load_encoder
from lbhash.service import schemas
from lbhash.service.columns import exact_columns
from lbhash.service.decoding import Decoder
from lbhash.service.errors import ServiceError, blame_data, blame_request, refusal
from lbhash.service.rows import GrayRows, ImageRows, Rows, Usual, open_rows
from lbhash.service.settings import (
    CANDIDATES,
    DECODE_SECONDS,
    MAX_BATCH,
    MAX_BODY,
    MAX_K,
    MAX_PIXELS,
    QUEUE_SECONDS,
    Settings,
    max_json,
)
from lbhash.training.settings import PULL_MARKS
from lbhash.utils.files import LockedError
from lbhash.utils.formatting import one_line
from lbhash.utils.validation import check_int
from lbhash.utils.version import __version__

log = logging.getLogger("lbhash.service")

AT_ONCE = 256 << 20
"""Largest index, in bytes, that is checked before the service starts: less than a second even on a slow disk."""


class _Encoded(NamedTuple):
    """The code of a query or a new item, ``uint8 [bytes]``.

    ``vectors`` has its ``outputs``, ``soft`` outputs and ``embeddings``, as far as known; ``facts`` has its id, label
    and metadata, as far as known.
    """

    code: PackedCodes
    vectors: Mapping[str, npt.NDArray]
    facts: Mapping[str, Any] = MappingProxyType({})


class Engine:
    """Encodes queries and searches ``index``; loading a newer index replaces the whole object."""

    def __init__(self, settings: Settings, decoder: Decoder) -> None:
        self.settings, self.decoder = settings, decoder
        self.model = load_encoder(settings.model)
        self.fingerprint = self.model.fingerprint()
        backbone = _backbone(settings, self.model)
        self.rows: Rows | None = None
        self._origin = ""
        if settings.data is not None:
            self._origin = data_fingerprint(settings.data)
            reading = self.model.reading_of(settings.data, lambda: backbone)
            self.rows = open_rows(settings.data, **reading)
        embeddings = None if self.rows is None else self.rows.embeddings
        if embeddings is not None and embeddings.shape[1] != self.model.dim:
            raise ValueError(
                f"data is {str(settings.data)!r}, whose embeddings have {embeddings.shape[1]} numbers; "
                f"the model takes {self.model.dim}"
            )
        self._usual = None
        if self.rows is not None and embeddings is not None and len(self.rows.sound) > 1:
            self._usual = Usual(self.model, embeddings, self.rows.sound)
        self._embed_image: Callable[[Image], npt.NDArray] | None = None
        self._encoder: Any = backbone if self.model.takes_texts else None
        if backbone is not None and self._encoder is None:
            self._embed_image = lambda image: backbone.embed([image])[0]
        elif isinstance(self.rows, GrayRows):
            self._embed_image = self.rows.embed
        self._loading = Lock()  # only one thread at a time replaces the index
        self.index = self._open()
        if self.rows is not None and (line := self.why_no_rows(self.index)):
            log.warning("%s", line)
        if settings.writable:
            _check_writable(self.index, settings.index)
        self.check, self.damage = "running", ""
        if self.index.stored_bytes <= AT_ONCE:
            self.check_index()

    def check_index(self) -> None:
        """Read all files of the index, and check their checksums; ``DamagedIndexError`` if one is damaged."""
        index, damage = self.index, ""
        try:
            index.read_all()
        except Exception as error:
            damage = one_line(error)
            raise
        finally:
            if index is self.index:  # a newer one may have replaced it
                self.check, self.damage = "damaged" if damage else "intact", damage

    def encode(self, given: schemas.EncodeOptions, images: Sequence[bytes] = ()) -> schemas.EncodeAnswer:
        """Return the codes of queries (``EncodeRequest``), or of image files."""
        wanted = {"outputs"} | ({"embeddings"} if given.embeddings else set())
        answers = []
        for code, vectors, _ in self._encode(self.index, given, images):
            held = {name: vectors[name].tolist() for name in wanted & vectors.keys()}
            both = {"outputs": held.get("outputs"), "embedding": held.get("embeddings")}
            answers.append(schemas.Encoded(code=code.tobytes().hex(), bits=self.model.bits, **both))
        return schemas.EncodeAnswer(answers=answers)

    def search(self, given: schemas.Options, images: Sequence[bytes] = ()) -> schemas.SearchAnswer:
        """Return the nearest neighbors of each query (``SearchRequest``, ``PageSearch``) or image file."""
        started = time.perf_counter()
        index = self.index  # use one index for the whole search
        queries = self._encode(index, given, images)
        searching = time.perf_counter()
        found = _neighbors(index, queries, given)
        described = describe_neighbors(index, [nearest for nearest, *_ in found])
        answers = []
        for (code, vectors, facts), (_, within, by), some in zip(queries, found, described, strict=True):
            judged = self._usual.judge(vectors["outputs"]) if self._usual and "outputs" in vectors else {}
            neighbors = [schemas.Neighbor(**one, image=self.has_image(index, one["metadata"])) for one in some]
            query = schemas.Query(code=code.tobytes().hex(), bits=index.bits, **facts, **judged)
            answers.append(schemas.Found(query=query, ranking=by, neighbors=neighbors, within=within))
        ended = time.perf_counter()
        seconds = {"encode": searching - started, "search": ended - searching, "total": ended - started}
        return schemas.SearchAnswer(
            answers=answers,
            generation=index.generation,
            milliseconds=schemas.Milliseconds(**{name: round(1e3 * value, 3) for name, value in seconds.items()}),
        )

    def get_items(self, given: schemas.ItemIds) -> schemas.ItemsAnswer:
        """Return the items with the given ids."""
        index = self.index
        with blame_request():
            found = describe_items(index, _ids(index, given.ids))
        items = [schemas.Item(**one, image=self.has_image(index, one["metadata"])) for one in found]
        return schemas.ItemsAnswer(items=items, generation=index.generation)

    def health(self) -> schemas.Health:
        """Return which model and which index are loaded; status 503 if a file of the index is damaged."""
        if self.damage:
            raise ServiceError(503, self.damage)
        return schemas.Health(ready=True, build=self.index.build, **self._loaded(self.index))

    def ready(self) -> schemas.Health:
        """Return ``health`` once all files of the index have been checked; status 503 before."""
        health = self.health()
        if self.check == "running":
            raise ServiceError(503, "the files of the index are being compared with their checksums")
        return health

    def info(self) -> schemas.Info:
        """Return the service's facts and limits."""
        index, about = self.index, self.model.metadata
        held = index.info()
        return schemas.Info(
            version=__version__,
            method=about.get("method", "unknown") + PULL_MARKS.get(about.get("pull"), ""),
            kind=index.kind,
            dim=self.model.dim,
            rows=None if self.rows is None else len(self.rows),
            images=self._rows_have_images,
            takes_images=self._embed_image is not None,
            takes_texts=self._encoder is not None,
            ids=held["ids"],
            metadata=held["metadata"],
            label=index.label or None,
            rerank=[index.vectors] if index.vectors else [],
            limits=schemas.Limits(
                max_body=MAX_BODY,
                max_json=max_json(self.model.dim),
                max_pixels=MAX_PIXELS,
                max_k=MAX_K,
                max_batch=MAX_BATCH,
            ),
            **self._loaded(index),
        )

    def item_image(self, name: str) -> tuple[bytes, str]:
        """Return a small image of an item, from its thumbnail or its row in the data, and the media type."""
        index = self.index
        columns = [one for one in (THUMBNAIL, ROW) if one in index.state.columns]
        with blame_request("the "):
            (item,) = index.metadata_of([_id(index, name, "the id")], columns).to_pylist()
        if index.state.thumbnails and item[THUMBNAIL]:
            return self.decoder.thumbnail(item[THUMBNAIL]), "image/webp"
        row = self.row_of(index, item)
        if row is None:
            raise ServiceError(404, f"id is {name!r}, which has no row in the data, and so no image")
        return self.row_image(row)

    def row_image(self, row: int) -> tuple[bytes, str]:
        """Return a small image of a row, and its media type."""
        rows = self._rows_with(row)
        image = rows.image(row)
        if image is None:
            raise ServiceError(404, f"row {row} has no image")
        if isinstance(rows, GrayRows):
            return image, "image/png"  # made by lbhash, and small
        return self.decoder.thumbnail(image), "image/webp"

    def refresh(self) -> bool:
        """Reload the index if it is damaged, has changed, or was built again.

        Return whether it was loaded. All its files are checked before it replaces the old one.
        """
        with self._loading:
            if not self.damage and not self.index.outdated():
                return False
            self._take(self._open(None if self.damage else self.index))
            return True

    def add_items(self, given: schemas.ItemFacts, images: Sequence[bytes] = ()) -> schemas.Changed:
        """Add items (``Items``, or image files) to the index; later searches find them."""
        return self._store(given, images, Index.add)

    def put_items(self, given: schemas.ItemFacts, images: Sequence[bytes] = ()) -> schemas.Changed:
        """Add items as ``add_items`` does, and replace those whose id the index has."""
        return self._store(given, images, Index.upsert)

    def _store(self, given: schemas.ItemFacts, images: Sequence[bytes], how: Callable[..., Any]) -> schemas.Changed:
        thumbnails: list[bytes] = []
        with blame_request():  # before anything is embedded
            given.check_count(len(images) or given.count)
        items = self._new(given, images, thumbnails)

        def change(index: Index) -> list[int | str]:
            if index.vectors and not items[0].vectors:
                raise ValueError(
                    f"codes are given, and the index stores {index.vectors}; give embeddings, texts or images"
                )
            metadata = exact_columns(given.metadata, index.state)
            if images and index.state.thumbnails:
                metadata[THUMBNAIL] = thumbnails
            ids = None if given.ids is None else _ids(index, given.ids)
            vectors = np.array([one.vectors[index.vectors] for one in items]) if index.vectors else None
            codes = np.array([one.code for one in items])
            return how(index, codes, ids, metadata, vectors=vectors).tolist()

        return self._change(change)

    def _new(self, given: schemas.ItemFacts, images: Sequence[bytes], thumbnails: list[bytes]) -> list[_Encoded]:
        """Return the codes of new items; append thumbnails of image files to ``thumbnails``."""
        if images:
            return [*self._hash(self._embed_images(images, thumbnails)).values()]
        assert isinstance(given, schemas.Items)
        if given.codes is not None:
            made = []
            for place, code in enumerate(given.codes):
                with blame_request(f"codes.{place}: "):
                    made.append(_Encoded(code_from_hex(code, self.model.bits), {}))
            return made
        texts = {f"texts.{place}": text for place, text in enumerate(given.texts or ())}
        embeddings = {f"embeddings.{place}": one for place, one in enumerate(given.embeddings or ())}
        return [*self._hash(embeddings | self._embed_texts(texts)).values()]

    def delete_items(self, given: schemas.ItemIds) -> schemas.Changed:
        """Remove items from the index."""

        def change(index: Index) -> list[int | str]:
            ids = _ids(index, given.ids)
            index.remove(ids)
            return ids

        return self._change(change)

    def _change(self, change: Callable[[Index], list[int | str]]) -> schemas.Changed:
        """Apply a change to the newest index in the folder; later searches use the result."""
        with self._loading:
            try:
                index = self._open(None if self.damage else self.index)
                assert isinstance(index, Index)
                index.patience = QUEUE_SECONDS
                index.read_all()  # never change a damaged index
            except ValueError as error:
                raise ServiceError(503, one_line(error)) from None
            try:
                ids = change(index)
            except (ValueError, TypeError) as error:
                if isinstance(error, (DamagedIndexError, LockedError)) or index.outdated():
                    raise ServiceError(503, one_line(error), {"Retry-After": "1"}) from None
                raise refusal(error) from None
            except OSError as error:
                log.error("the index could not be changed: %s", error)
                raise ServiceError(503, f"the index could not be changed: {error.strerror or 'see the log'}") from None
            self._take(index)
            return schemas.Changed(ids=ids, codes=len(index), generation=index.generation)

    def _take(self, index: BaseIndex) -> None:
        """Check all files of another index, then use it for searches."""
        index.read_all()
        self.index, self.check, self.damage = index, "intact", ""

    def why_no_rows(self, index: BaseIndex) -> str:
        """Return why no item of an index has a row in the data, in one line; empty if items may have one."""
        state = index.state
        origin = state.origin.get("data", "") if ROW in state.columns else None
        if origin in ("", self._origin) or not len(index):
            return ""
        said = "the index has no column 'row'"
        if origin is not None:
            changed = "which the index was not built from, or which has changed since"
            said = f"data is {str(self.settings.data)!r}, {changed}"
        return f"{said}: no item has its row or its image in the data"

    def row_of(self, index: BaseIndex, metadata: Mapping[str, Any]) -> int | None:
        """Return the data row of an item with these metadata, or None if unknown."""
        row = metadata.get(ROW)
        if self.rows is None or not isinstance(row, int) or self.why_no_rows(index):
            return None
        return row if 0 <= row < len(self.rows) else None

    def has_image(self, index: BaseIndex, metadata: Mapping[str, Any]) -> bool:
        """Return whether an item with these metadata has an image."""
        thumbnail = index.state.thumbnails and metadata[THUMBNAIL]
        return thumbnail or (self._rows_have_images and self.row_of(index, metadata) is not None)

    @property
    def _rows_have_images(self) -> bool:
        return isinstance(self.rows, (GrayRows, ImageRows))

    def _metadata(self, index: BaseIndex, row: int) -> dict[str, Any]:
        """Return the metadata of the item of a data row; empty if the index has none."""
        try:
            metadata: dict[str, Any] = describe_items(index, [row])[0]["metadata"]
        except (UnknownIdError, TypeError):  # TypeError: ids are texts
            return {}
        return metadata if self.row_of(index, metadata) == row else {}

    def _loaded(self, index: BaseIndex) -> dict[str, Any]:
        return {"model": self.fingerprint, "generation": index.generation, "codes": len(index), "bits": index.bits}

    def _open(self, known: BaseIndex | None = None) -> BaseIndex:
        try:
            index = Index.open(self.settings.index, "a" if self.settings.writable else "r", known=known)
        except ValueError as error:
            raise ValueError(re.sub("^path is ", "index is ", str(error))) from None  # the settings' name for it
        check_model(index, self.fingerprint, self.model.bits)
        index.learns_classes = self.model.learns_classes
        return index

    def _rows_with(self, row: int) -> Rows:
        if self.rows is None:
            raise ServiceError(404, "this service has no data, and so no rows (see --data)")
        if not 0 <= row < len(self.rows):
            raise ServiceError(404, f"row is {row}; it must be from 0 to {len(self.rows) - 1}")
        return self.rows

    def _encode(self, index: BaseIndex, given: BaseModel, images: Sequence[bytes]) -> list[_Encoded]:
        """Encode the queries of a request, or image files."""
        if images:
            return [*self._hash(self._embed_images(images)).values()]
        if isinstance(given, schemas.PageSearch):
            return [self._encode_row(index, given.row) if given.id is None else self._encode_item(index, given.id)]
        assert isinstance(given, schemas.Queries)
        queries = [
            (f"queries.{place}.", kind, value)
            for place, query in enumerate(given.queries)
            for kind, value in query
            if value is not None
        ]
        embeddings = {place + kind: value for place, kind, value in queries if kind == "embedding"}
        texts = {place + kind: value for place, kind, value in queries if kind == "text"}
        encoded = self._hash(embeddings | self._embed_texts(texts, query=True))
        for place, kind, value in queries:
            with blame_request(place):
                if kind == "code":
                    encoded[place + kind] = _Encoded(code_from_hex(value, index.bits), {})
                elif kind == "id":
                    encoded[place + kind] = self._encode_id(index, _id(index, value, place + kind))
        return [encoded[place + kind] for place, kind, _ in queries]

    def _encode_id(self, index: BaseIndex, name: int | str) -> _Encoded:
        """Return an item of the index as a query."""
        (item,) = describe_items(index, [name])
        vectors = {index.vectors: index.vectors_of([name])[0]} if index.vectors else {}
        code = np.frombuffer(bytes.fromhex(item.pop("code")), np.uint8)
        return _Encoded(code, vectors, item | {"image": self.has_image(index, item["metadata"])})

    def _encode_item(self, index: BaseIndex, name: int | str) -> _Encoded:
        """Return an item of the index as a query, with the outputs of its row if the data have it."""
        with blame_request("the "):
            item = self._encode_id(index, _id(index, name, "the id"))
        row = self.row_of(index, item.facts["metadata"])
        try:
            of_row = item if row is None else self._encode_row(index, row)
        except ServiceError:  # the row's image cannot be read or embedded: the code is enough
            return item
        return of_row._replace(facts=item.facts) if np.array_equal(of_row.code, item.code) else item

    def _encode_row(self, index: BaseIndex, row: Any) -> _Encoded:
        """Return a row of the data as a query."""
        rows = self._rows_with(row)
        if rows.embeddings is not None:
            with blame_data():
                embedding = rows.embeddings[row]
            if not np.isfinite(embedding).all():
                raise ServiceError(422, f"row is {row}, whose embedding is not finite, and so has no code")
        elif (file := rows.image(row)) is not None:
            (embedding,) = self._embed_images([file]).values()
        elif (text := rows.text(row)) is not None:
            (embedding,) = self._embed_texts({"row": text}).values()
        else:
            raise ServiceError(422, f"row {row} has no image or text to encode")
        (encoded,) = self._hash({"row": embedding}).values()
        return encoded._replace(facts={"label": rows.label(row), "metadata": self._metadata(index, row)})

    def _hash(self, embeddings: Mapping[str, Any]) -> dict[str, _Encoded]:
        """Return the codes of embeddings, keyed by their names in the request."""
        for name, embedding in embeddings.items():
            if len(embedding) != self.model.dim:
                raise ServiceError(422, f"{name} has {len(embedding)} numbers; the model takes {self.model.dim}")
        if not embeddings:
            return {}
        rows = np.array([*embeddings.values()])
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = self.model.outputs(rows.astype(np.float32))
        if wrong := [name for name, row in zip(embeddings, outputs, strict=True) if not np.isfinite(row).all()]:
            raise ServiceError(422, f"{wrong[0]} is so large that the model's outputs are not finite")
        parts = zip(embeddings, pack_outputs(outputs), outputs, self.model.soft(outputs), rows, strict=True)
        return {
            name: _Encoded(code, {"outputs": real, "soft": soft, "embeddings": row})
            for name, code, real, soft, row in parts
        }

    def _embed_texts(self, texts: Mapping[str, str], *, query: bool = False) -> dict[str, Any]:
        """Return the embeddings of texts, keyed by their names in the request."""
        if not texts:
            return {}
        if self._encoder is None:
            raise ServiceError(422, f"{next(iter(texts))} is a text, and the model takes none; send its embedding")
        return dict(zip(texts, self._encoder.embed([*texts.values()], query=query), strict=True))

    def _embed_images(self, files: Sequence[bytes], thumbnails: list[bytes] | None = None) -> dict[str, npt.NDArray]:
        """Return the embeddings of image files; one is in memory at a time, and all share one image's time limit.

        A thumbnail of each is appended to ``thumbnails``.
        """
        if self._embed_image is None:
            raise ServiceError(422, "this service has no backbone to encode images; send an embedding instead")
        ends, found = time.monotonic() + DECODE_SECONDS, {}
        for place, file in enumerate(files):
            name = f"image {place + 1} of {len(files)}"
            if time.monotonic() > ends:
                raise ServiceError(422, f"{name}: the others took {DECODE_SECONDS:g} seconds; send fewer at once")
            try:
                # The backbone's preprocessing refuses some shapes, such as a line of pixels.
                with self.decoder.image(file) as image, blame_request():
                    found[name] = self._embed_image(image)
                    if thumbnails is not None:
                        thumbnails.append(thumbnail_of(image))
            except ServiceError as error:
                told = error.detail if len(files) == 1 else f"{name}: {error.detail}"
                raise ServiceError(error.status_code, told) from None
        return found


def _neighbors(
    index: BaseIndex, queries: Sequence[_Encoded], options: schemas.Options
) -> list[tuple[SearchResult, int | None, Any]]:
    """Return for each query its result, the number of codes within the radius (or None), and the ranking used.

    The number is known only for a range search without k.
    """

    def check(field: str, name: str) -> None:
        for place, query in enumerate(queries):
            if name not in query.vectors:
                said = f"{field} is {getattr(options, field)!r}, which needs the real numbers of a query"
                told = f"queries.{place} has only a code: give its embedding, text or image"
                raise ServiceError(422, f"{said}; {told}")

    if options.rerank not in (None, index.vectors):
        raise ServiceError(422, f"rerank is {options.rerank!r}, and the index stores {index.vectors or 'no vectors'}")
    if options.ranking == "real":
        check("ranking", "soft")
    if options.rerank is not None:
        check("rerank", options.rerank)
    usual = "real" if options.radius is None else "hamming"
    ranked = [options.ranking or (usual if "soft" in query.vectors else "hamming") for query in queries]
    found: dict[int, tuple[SearchResult, int | None, Any]] = {}
    with blame_request():
        options.check_size(len(queries))
        if options.radius is not None:
            check_int(options.radius, "radius", 0, index.bits, "the length of a code")
        for by in ("hamming", "real"):
            places = [place for place, one in enumerate(ranked) if one == by]
            if places:
                some = _ranked(index, [queries[place] for place in places], options, by)
                found |= {at: (*one, options.rerank or by) for at, one in zip(places, some, strict=True)}
    return [found[place] for place in range(len(queries))]


def _ranked(
    index: BaseIndex, queries: Sequence[_Encoded], options: schemas.Options, by: str
) -> list[tuple[SearchResult, int | None]]:
    """Return the neighbors of queries, ranked by Hamming distance or by real outputs (``by``)."""
    radius, k, rerank = options.radius, options.most, options.rerank
    codes = np.array([query.code for query in queries])
    if by == "hamming" and rerank is None and radius is not None and options.k is None:
        each = (index.range_search(code[None], radius, where=options.where).of(0) for code in codes)  # maybe all
        return [(Neighbors(distances[None, :k], ids[None, :k]).result(), len(ids)) for distances, ids in each]

    def held(name: str) -> npt.NDArray:
        return np.array([query.vectors[name] for query in queries])

    most = max(k, options.candidates or CANDIDATES) if rerank or (radius is not None and by == "real") else k
    how: dict[str, Any] = {"codes": codes} if by == "hamming" else {"outputs": held("soft")}
    if rerank is not None:
        how = how if rerank == "embeddings" else {}
        how |= {rerank: held(rerank), "rerank": rerank, "candidates": most}
    found = index.search(**how, k=most, where=options.where)
    limit = index.bits if radius is None else radius
    return [(_within(found, place, limit, k), None) for place in range(len(codes))]


def _within(found: SearchResult, query: int, radius: int, k: int) -> SearchResult:
    """Return a query's first k neighbors with a Hamming distance of at most ``radius``."""
    near = np.flatnonzero(found.hamming[query] <= radius)[:k]
    taken = np.s_[query : query + 1, near]
    return SearchResult(found.distances[taken], found.ids[taken], found.hamming[taken])


def _id(index: BaseIndex, given: int | str, name: str) -> int | str:
    """Convert an id of a request to the index's type; an integer and its digits are the same id.

    JavaScript numbers cannot hold 64 bits, so clients may send digits; and an index may store numbers as texts.
    """
    if index.state.schema is None or isinstance(given, str) == index.state.texts:
        return given
    if isinstance(given, int):
        return str(given)
    if INTEGER.fullmatch(given) and -(2**63) <= (number := int(given)) < 2**63:
        return number
    raise ServiceError(422, f"{name} is {given!r}; the index's ids are integers of 64 bits, such as 7")


def _ids(index: BaseIndex, given: Sequence[int | str]) -> list[int | str]:
    return [_id(index, name, f"ids.{place}") for place, name in enumerate(given)]


def _check_writable(index: BaseIndex, path: str | Path) -> None:
    """Raise ``ValueError`` if requests cannot change an index."""
    if not isinstance(index, Index):
        raise ValueError(
            f"writable is for an index in a folder; this one is of kind {index.kind}, change it by commands"
        )
    if not os.access(path, os.W_OK):
        raise ValueError(f"index is {str(path)!r}, which this user may not write; allow it, or leave out --writable")


def _backbone(settings: Settings, model: Encoder) -> Any:
    """Return the backbone of the settings or of the model (or its text encoder), or None.

    If the model's image backbone is missing on this machine, only log it: rows of embeddings can still be searched.
    """
    if settings.backbone is None and not model.metadata.get("backbone"):
        return None
    try:
        return load_backbone(model, settings.model, name=settings.backbone)
    except ValueError as error:
        if settings.backbone is not None or model.takes_texts or model.has_tuned_backbone:
            raise
        log.warning("images cannot be queries: %s", error)
        return None
