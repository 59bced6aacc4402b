"""Answers requests from model, index and rows; called in a thread."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from PIL.Image import Image
from pydantic import BaseModel

from lbhash.codes import PackedCodes, code_from_hex, pack_outputs
from lbhash.index import BaseIndex, DamagedIndexError, Index, SearchResult, check_model
from lbhash.index.base import describe_neighbors, metadata_rows
from lbhash.index.results import Neighbors
from lbhash.models.backbone_files import load_backbone
from lbhash.models.encoder import Encoder, load_encoder
from lbhash.service import schemas
from lbhash.service.decoding import Decoder
from lbhash.service.errors import ServiceError, blame_request
from lbhash.service.rows import GrayRows, ImageRows, Rows, Usual, open_rows
from lbhash.service.settings import MAX_BATCH, MAX_BODY, MAX_JSON, MAX_K, MAX_PIXELS, QUEUE_SECONDS, Settings
from lbhash.training.settings import PULL_MARKS
from lbhash.utils.files import LockedError
from lbhash.utils.formatting import one_line
from lbhash.utils.serialization import json_value
from lbhash.utils.validation import check_int
from lbhash.utils.version import __version__

log = logging.getLogger("lbhash.service")

AT_ONCE = 256 << 20
"""Bytes of an index that is checked before anything else, which takes less than a second even on a slow disk."""

_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)

_Encoded = tuple[PackedCodes, dict[str, npt.NDArray], dict[str, Any]]
"""Codes of n queries, ``uint8 [n, bytes]``; their real-valued ``outputs`` and ``embeddings``, ``[n, …]``; the id, row
and label of one that has them."""


class Engine:
    """Encodes queries and searches ``index``, which is replaced as a whole when a newer one is loaded."""

    def __init__(self, settings: Settings, decoder: Decoder) -> None:
        self.settings, self.decoder = settings, decoder
        self.model = load_encoder(settings.model)
        self.fingerprint = self.model.fingerprint()
        backbone = _backbone(settings, self.model)
        self.rows: Rows | None = None
        if settings.data is not None:
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
        self._loading = Lock()  # one at a time puts a newer index in the place of the old one
        self.index = self._open()
        if settings.writable:
            _check_writable(self.index, settings.index)
        self.check, self.damage = "running", ""
        if self.index.stored_bytes <= AT_ONCE:
            self.check_index()

    def check_index(self) -> None:
        """Read all files of the index, and compare their checksums; ``DamagedIndexError`` if one is damaged."""
        index, damage = self.index, ""
        try:
            index.read_all()
        except Exception as error:
            damage = one_line(error)
            raise
        finally:
            if index is self.index:  # it may have been replaced by a newer one
                self.check, self.damage = "damaged" if damage else "intact", damage

    def encode(self, given: BaseModel | None, image: bytes | None = None) -> schemas.EncodeAnswer:
        """Return the code of a query (``schemas.Given``), or of an image file."""
        codes, vectors, _ = self._encode(self.index, given, image)
        outputs = vectors["outputs"][0].tolist() if "outputs" in vectors else None
        return schemas.EncodeAnswer(code=codes.tobytes().hex(), bits=self.model.bits, outputs=outputs)

    def search(
        self, given: schemas.Options, image: bytes | None = None
    ) -> schemas.SearchAnswer | schemas.SearchAnswers:
        """Return the codes nearest to a query or to each of several (``SearchRequest``), or to an image file."""
        started = time.perf_counter()
        index = self.index  # a search ends with the index that it began with
        codes, vectors, facts = self._encode(index, given, image)
        searching = time.perf_counter()
        answers: list[dict[str, Any]] = []
        for place, (found, within) in enumerate(_neighbors(index, codes, vectors, given)):
            judged = self._usual.judge(vectors["outputs"][place]) if self._usual and "outputs" in vectors else {}
            query = schemas.Query(code=codes[place].tobytes().hex(), bits=index.bits, **facts, **judged)
            neighbors = self._described(index, found, scored=given.rerank is not None)
            answers.append({"query": query, "neighbors": neighbors, "within": within})
        ended = time.perf_counter()
        seconds = {"encode": searching - started, "search": ended - searching, "total": ended - started}
        milliseconds = {name: round(1e3 * value, 3) for name, value in seconds.items()}
        searched: dict[str, Any] = {"generation": index.generation, "milliseconds": milliseconds}
        if isinstance(given, schemas.SearchRequest) and given.embeddings is not None:
            return schemas.SearchAnswers(answers=[schemas.Found(**one) for one in answers], **searched)
        return schemas.SearchAnswer(**answers[0], **searched)

    def health(self) -> schemas.Health:
        """Return which model and which index are loaded; status 503 if a file of the index is damaged."""
        if self.damage:
            raise ServiceError(503, self.damage)
        return schemas.Health(ready=True, build=self.index.build, **self._loaded(self.index))

    def ready(self) -> schemas.Health:
        """Return the same once all files of the index are compared with their checksums; status 503 before."""
        health = self.health()
        if self.check == "running":
            raise ServiceError(503, "the files of the index are being compared with their checksums")
        return health

    def about(self) -> schemas.About:
        """Return what the service can be asked for."""
        index, about = self.index, self.model.metadata
        return schemas.About(
            version=__version__,
            method=about.get("method", "unknown") + PULL_MARKS.get(about.get("pull"), ""),
            kind=index.kind,
            dim=self.model.dim,
            rows=None if self.rows is None else len(self.rows),
            pictures=isinstance(self.rows, (GrayRows, ImageRows)),
            takes_pictures=self._embed_image is not None,
            takes_texts=self._encoder is not None,
            ids=index.info()["ids"],
            columns=index.metadata_of([]).column_names[1:],
            label=index.label or None,
            rerank=["asymmetric", *filter(None, [index.vectors])],
            limits=schemas.Limits(
                max_body=MAX_BODY,
                max_json=MAX_JSON,
                max_pixels=MAX_PIXELS,
                max_k=MAX_K,
                max_batch=MAX_BATCH,
            ),
            **self._loaded(index),
        )

    def thumbnail(self, row: int) -> tuple[bytes, str]:
        """Return a small image of a row, and its media type."""
        rows = self._rows_with(row, 404)
        image = rows.image(row)
        if image is None:
            raise ServiceError(404, f"row {row} has no image")
        if isinstance(rows, GrayRows):
            return image, "image/png"  # our own, and small
        return self.decoder.thumbnail(image), "image/webp"

    def refresh(self) -> bool:
        """Load the index again if it is damaged, or if another generation or build is at its path.

        Return whether it was loaded. All of its files are checked before it takes the place of the old one.
        """
        with self._loading:
            if not self.damage and not self.index.outdated():
                return False
            self._take(self._open(None if self.damage else self.index))
            return True

    def add(self, given: schemas.AddRequest) -> schemas.Changed:
        """Add the codes of embeddings to the index, as ``lbhash index add`` does, and search them from now on."""
        codes, vectors = self._hash_given(given.embeddings)
        count = len(codes)

        def change(index: BaseIndex) -> Sequence[int | str]:
            missing = {field.name: pa.nulls(count, field.type) for field in index.state.metadata}
            ids = None if given.ids is None else _ids(index, given.ids)
            index.add(codes, ids, missing | given.metadata, vectors=vectors.get(index.vectors))
            return ids or range(index.state.next_id - count, index.state.next_id)

        return self._change(change)

    def remove(self, given: schemas.RemoveRequest) -> schemas.Changed:
        """Remove codes from the index, as ``lbhash index remove`` does."""

        def change(index: BaseIndex) -> Sequence[int | str]:
            ids = _ids(index, given.ids)
            index.remove(ids)
            return ids

        return self._change(change)

    def _change(self, change: Callable[[BaseIndex], Sequence[int | str]]) -> schemas.Changed:
        """Change what is in the folder now, and put the result in the place of the index that is searched."""
        with self._loading:
            try:
                index = self._open(None if self.damage else self.index)
                assert isinstance(index, Index)
                index.patience = QUEUE_SECONDS
                index.read_all()  # nothing is added to what is damaged
            except ValueError as error:
                raise ServiceError(503, one_line(error)) from None
            try:
                ids = change(index)
            except (ValueError, TypeError) as error:
                if isinstance(error, (DamagedIndexError, LockedError)) or index.outdated():
                    raise ServiceError(503, one_line(error), {"Retry-After": "1"}) from None
                raise ServiceError(422, one_line(error)) from None
            except OSError as error:
                log.error("the index could not be changed: %s", error)
                raise ServiceError(503, f"the index could not be changed: {error.strerror or 'see the log'}") from None
            self._take(index)
            return schemas.Changed(ids=list(ids), codes=len(index), generation=index.generation)

    def _take(self, index: BaseIndex) -> None:
        """Search another index from now on, once all of its files are compared with their checksums."""
        index.read_all()
        self.index, self.check, self.damage = index, "intact", ""

    def row_of(self, name: int | str, metadata: Mapping[str, Any]) -> int | None:
        """Return the row of the data that the code with the id ``name`` was made from, or None if there is none."""
        row = metadata.get("row", name)
        return row if self.rows is not None and isinstance(row, int) and 0 <= row < len(self.rows) else None

    def _metadata(self, index: BaseIndex, row: int) -> dict[str, Any]:
        """Return what the index holds of a row of the data, if it is there under its own number."""
        try:
            metadata = metadata_rows(index, [row])[0]
        except DamagedIndexError:
            raise
        except (ValueError, TypeError):  # TypeError if ids are texts
            return {}
        return json_value(metadata) if self.row_of(row, metadata) == row else {}

    def _described(self, index: BaseIndex, found: SearchResult, *, scored: bool) -> list[schemas.Neighbor]:
        described = describe_neighbors(index, found, 0, scored=scored)
        return [
            schemas.Neighbor(row=self.row_of(one["id"], one["metadata"]), code=held.tobytes().hex(), **json_value(one))
            for one, held in zip(described, index.codes_of(found.ids[0]), strict=True)
        ]

    def _loaded(self, index: BaseIndex) -> dict[str, Any]:
        return {"model": self.fingerprint, "generation": index.generation, "codes": len(index), "bits": index.bits}

    def _open(self, known: BaseIndex | None = None) -> BaseIndex:
        index = Index.open(self.settings.index, "a" if self.settings.writable else "r", known=known)
        check_model(index, self.fingerprint, self.model.bits)
        index.learns_classes = self.model.learns_classes
        return index

    def _rows_with(self, row: int, status: int) -> Rows:
        if self.rows is None:
            raise ServiceError(status, "this service has no data, and so no rows (see --data)")
        if row >= len(self.rows):
            raise ServiceError(status, f"row is {row}; it must be from 0 to {len(self.rows) - 1}")
        return self.rows

    def _encode(self, index: BaseIndex, given: BaseModel | None, image: bytes | None) -> _Encoded:
        """Return the queries that a request describes: an image, or what is in ``schemas.Given``."""
        if image is not None:
            return *self._hash(self._embed(image)[None]), {}
        assert isinstance(given, schemas.Given)
        if isinstance(given, schemas.SearchRequest) and given.embeddings is not None:
            return *self._hash_given(given.embeddings), {}
        if given.embedding is not None:
            return *self._hash_given([given.embedding], "embedding"), {}
        if given.text is not None:
            if self._encoder is None:
                raise ServiceError(422, "the model was not trained on texts; send an embedding instead")
            return *self._hash(self._encoder.embed([given.text], query=True)), {}
        if given.row is not None:
            rows = self._rows_with(given.row, 422)
            if rows.embeddings is not None:
                embedding = rows.embeddings[given.row]
                if not np.isfinite(embedding).all():
                    raise ServiceError(422, f"row is {given.row}, whose embedding is not finite, and so has no code")
            elif (file := rows.image(given.row)) is not None:
                embedding = self._embed(file)
            elif (text := rows.text(given.row)) is not None:
                embedding = self._encoder.embed([text])[0]
            else:
                raise ServiceError(422, f"row {given.row} has no image or text to encode")
            facts = {"label": rows.label(given.row), "metadata": self._metadata(index, given.row)}
            return *self._hash(embedding[None]), {"row": given.row, **facts}
        if given.id is not None:
            with blame_request(404, f"id is {given.id!r}, and the index has no such code"):
                ids = _ids(index, [given.id])
                code = index.codes_of(ids)
            vectors = {index.vectors: index.vectors_of(ids)} if index.vectors else {}
            metadata = metadata_rows(index, ids)[0]
            row, label = self.row_of(ids[0], metadata), metadata.get(index.label)
            return code, vectors, {"id": ids[0], "row": row, "label": label, "metadata": json_value(metadata)}
        with blame_request():
            return code_from_hex(given.code or "", index.bits)[None], {}, {}

    def _hash_given(
        self, embeddings: Sequence[Sequence[float]], name: str = "embeddings.{}"
    ) -> tuple[PackedCodes, dict[str, npt.NDArray]]:
        """Return the codes of embeddings of a request, and their vectors."""
        for place, embedding in enumerate(embeddings):
            if (length := len(embedding)) != (dim := self.model.dim):
                raise ServiceError(422, f"{name.format(place)} has {length} numbers; the model takes {dim}")
        return self._hash(np.array(embeddings))

    def _hash(self, embeddings: npt.NDArray) -> tuple[PackedCodes, dict[str, npt.NDArray]]:
        """Return the codes of embeddings, ``[n, dim]``, and their vectors."""
        with np.errstate(over="ignore", invalid="ignore"):
            outputs = self.model.outputs(embeddings.astype(np.float32))
        if not np.isfinite(outputs).all():
            raise ServiceError(422, "an embedding is so large that the model's outputs are not finite")
        return pack_outputs(outputs), {"outputs": outputs, "soft": self.model.soft(outputs), "embeddings": embeddings}

    def _embed(self, file: bytes) -> npt.NDArray:
        if self._embed_image is None:
            raise ServiceError(422, "this service has no backbone to encode images; send an embedding instead")
        # The backbone's preprocessing refuses some shapes, such as a line of pixels.
        with self.decoder.image(file) as image, blame_request():
            return self._embed_image(image)


def _neighbors(
    index: BaseIndex, codes: PackedCodes, vectors: Mapping[str, npt.NDArray], options: schemas.Options
) -> list[tuple[SearchResult, int | None]]:
    """Return for each query what is found, and how many codes are within the radius (None if k is given)."""
    radius, by, k = options.radius, options.rerank, options.most
    held = vectors.get("soft" if by == "asymmetric" else by or "")
    if by is not None and held is None:
        raise ServiceError(422, f"rerank is {by!r}, which needs a query by embedding, row or image")
    with blame_request():
        if radius is not None:
            check_int(radius, "radius", 0, index.bits, "the length of a code")
        if options.k is None and radius is not None and by is None:  # one at a time, as each may find all codes
            each = (index.range_search(code[None], radius, where=options.where).of(0) for code in codes)
            return [(Neighbors(distances[None, :k], ids[None, :k]).result(), len(ids)) for distances, ids in each]
        most = k if by is None else max(k, options.candidates)
        how: dict[str, Any] = {"codes": codes} if by in (None, "embeddings") else {"outputs": held}
        if by == "embeddings":
            how["embeddings"] = held
        if by in ("outputs", "embeddings"):
            how |= {"rerank": by, "candidates": most}
        found = index.search(**how, k=most, where=options.where)
        limit = index.bits if radius is None else radius
        return [(_within(found, place, limit, k), None) for place in range(len(codes))]


def _within(found: SearchResult, query: int, radius: int, k: int) -> SearchResult:
    """Return the first k of a query's neighbors whose Hamming distance is at most a radius."""
    near = np.flatnonzero(found.hamming[query] <= radius)[:k]
    taken = np.s_[query : query + 1, near]
    return SearchResult(found.distances[taken], found.ids[taken], found.hamming[taken])


def _ids(index: BaseIndex, given: Sequence[int | str]) -> list[int | str]:
    """Return ids of a request: an integer may be sent as text, since numbers of JavaScript do not hold 64 bits."""
    if index.state.schema is None or index.state.texts:
        return [*given]
    return [int(name) if isinstance(name, str) and _INTEGER.fullmatch(name) else name for name in given]


def _check_writable(index: BaseIndex, path: str | Path) -> None:
    """Raise ``ValueError`` if requests cannot change an index."""
    if not isinstance(index, Index):
        raise ValueError(
            f"writable is for an index in a folder; this one is of kind {index.kind}, change it by commands"
        )
    if not os.access(path, os.W_OK):
        raise ValueError(f"index is {str(path)!r}, which this user may not write; allow it, or leave out --writable")


def _backbone(settings: Settings, model: Encoder) -> Any:
    """Return the backbone of the settings or the model's own, if it has one; an encoder of texts is one, too.

    Without one for images, rows of embeddings can be searched, so that one that is not on this machine is only logged.
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
