"""Answers requests from model, index and rows; called in a thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, code_from_hex, pack
from lbhash.data import load_dataset
from lbhash.index import Index, Neighbors, check_model, open_index, rerank
from lbhash.models.backbone_files import check_backbone, own_backbone
from lbhash.models.hash_model import HashModel, load_model
from lbhash.service.decoding import Decoder
from lbhash.service.errors import ServiceError, blame_request
from lbhash.service.rows import DigitRows, Rows, open_rows
from lbhash.service.schemas import About, EncodeAnswer, Given, Health, Limits, Neighbor, Options, Query, SearchAnswer
from lbhash.service.settings import MAX_K, Settings
from lbhash.utils.labels import label_value
from lbhash.utils.serialization import json_value
from lbhash.utils.version import __version__

if TYPE_CHECKING:
    from PIL.Image import Image

    from lbhash.models.backbone import Backbone

K = 10
"""The number of neighbors of an answer if the request does not say it."""


@dataclass(frozen=True)
class _Encoded:
    """A query: its code ``uint8 [bytes]``, its description, and its real-valued ``outputs`` and ``embeddings``."""

    code: PackedCodes
    query: Query
    vectors: dict[str, npt.NDArray] = field(default_factory=dict)


class Engine:
    """Encodes queries and searches the index.

    ``index`` is replaced as a whole when a newer one is loaded; a running search ends with the one it began with.

    Raises:
        TypeError, ValueError: model, index, data or backbone cannot be loaded, or do not fit together.
    """

    def __init__(self, settings: Settings, decoder: Decoder) -> None:
        self.settings, self.decoder = settings, decoder
        self.model = load_model(settings.model)
        self.fingerprint = self.model.fingerprint()
        self.rows: Rows | None = None if settings.data is None else open_rows(settings.data)
        first = self.rows.embedding(0) if self.rows is not None and len(self.rows) else None
        if first is not None and len(first) != self.model.dim:
            raise ValueError(
                f"data is {str(settings.data)!r}, whose embeddings have {len(first)} numbers; "
                f"the model takes {self.model.dim}"
            )
        self._embed_image: Callable[[Image], npt.NDArray] | None = None
        backbone = _backbone(settings, self.model)
        if backbone is not None:
            self._embed_image = lambda image: backbone.embed([image])[0]
        elif isinstance(self.rows, DigitRows):
            self._embed_image = self.rows.embed
        self.index = self._open()

    def encode(self, given: Given | None, image: bytes | None = None) -> EncodeAnswer:
        """Return the code of a query, or of an image file."""
        encoded = self._encode(self.index, given, image)
        outputs = encoded.vectors.get("outputs")
        numbers = None if outputs is None else [float(number) for number in outputs]
        return EncodeAnswer(code=encoded.query.code, bits=encoded.query.bits, outputs=numbers)

    def search(self, given: Given | None, options: Options, image: bytes | None = None) -> SearchAnswer:
        """Return the codes nearest to a query, or to an image file."""
        started = time.perf_counter()
        index = self.index
        encoded = self._encode(index, given, image)
        searching = time.perf_counter()
        ids, distances, scores, within = _neighbors(index, encoded, options)
        columns = zip(
            ids.tolist(),
            distances.tolist(),
            [None] * len(ids) if scores is None else scores.tolist(),
            attributes_of(index, ids),
            index.codes_of(ids),
            strict=True,
        )
        neighbors = [
            Neighbor(
                rank=rank,
                id=name,
                row=self.row_of(name, attributes),
                distance=distance,
                score=score,
                label=attributes.get(index.label),
                attributes=attributes,
                code=code.tobytes().hex(),
            )
            for rank, (name, distance, score, attributes, code) in enumerate(columns, start=1)
        ]
        ended = time.perf_counter()
        seconds = {"encode": searching - started, "search": ended - searching, "total": ended - started}
        return SearchAnswer(
            query=encoded.query,
            neighbors=neighbors,
            within=within,
            generation=index.generation,
            milliseconds={name: round(1e3 * value, 3) for name, value in seconds.items()},  # type: ignore[arg-type]
        )

    def health(self) -> Health:
        """Return which model and which index are loaded."""
        return Health(ready=True, build=self.index.build, **self._loaded(self.index))

    def about(self) -> About:
        """Return what the service can be asked for."""
        index, about = self.index, self.model.metadata
        return About(
            version=__version__,
            method=f"{about.get('method', 'unknown')}{'_d' if about.get('guided') else ''}",  # as the paper writes it
            kind=index.kind,
            dim=self.model.dim,
            rows=None if self.rows is None else len(self.rows),
            pictures=self.rows is not None and self.rows.has_images,
            takes_pictures=self.takes_images,
            columns=index.attributes_of([]).column_names[1:],
            label=index.label or None,
            rerank=["asymmetric", *filter(None, [index.store_vectors])],
            limits=Limits(max_body=self.settings.max_body, max_pixels=self.settings.max_pixels, max_k=MAX_K),
            **self._loaded(index),
        )

    @property
    def takes_images(self) -> bool:
        """Whether an image can be encoded."""
        return self._embed_image is not None

    def thumbnail(self, row: int) -> tuple[bytes, str]:
        """Return a small image of a row, and its media type."""
        rows = self._rows_with(row, 404)
        image = rows.image(row)
        if image is None:
            raise ServiceError(404, f"row {row} has no image")
        if isinstance(rows, DigitRows):
            return image, "image/png"  # our own, and small
        return self.decoder.thumbnail(image), "image/webp"

    def refresh(self) -> bool:
        """Load the index again if another generation or build is at its path; return whether it was loaded."""
        if not self.index.outdated():
            return False
        self.index = self._open()
        return True

    def encode_rows(self, rows: npt.NDArray[np.int64]) -> PackedCodes | None:
        """Return the codes of rows of the data, ``uint8 [n, bytes]``, or None if only a backbone could make them."""
        embeddings = [] if self.rows is None else [self.rows.embedding(int(row)) for row in rows]
        if not embeddings or any(embedding is None for embedding in embeddings):
            return None
        return self.model.encode(np.stack([np.asarray(embedding, np.float32) for embedding in embeddings]))

    def query_rows(self) -> npt.NDArray[np.int64]:
        """Return the rows of the data that were queries when the model was trained.

        Raises:
            ValueError: neither model nor data say which rows those are.
        """
        about, data = self.model.metadata, self.settings.data
        assert data is not None
        protocol = about.get("protocol")
        if protocol == "files":
            raise ValueError("the model was trained on separate files, and the data are only one of them")
        protocol = None if protocol == "flags" else protocol
        dataset = load_dataset(data, protocol=protocol, seed=about.get("split_seed", 0))
        if protocol is None and dataset.protocol != "flags":
            raise ValueError("neither the model nor the data say which rows are queries")
        return dataset.query.rows

    def row_of(self, name: int, attributes: Mapping[str, Any]) -> int | None:
        """Return the row of the data that the code with the id ``name`` was made from, or None if there is none."""
        row = attributes.get("row", name)
        return row if self.rows is not None and isinstance(row, int) and 0 <= row < len(self.rows) else None

    def _loaded(self, index: Index) -> dict[str, Any]:
        facts = {"generation": index.generation, "codes": len(index), "bits": index.bits}
        return {"model": self.fingerprint, **facts}

    def _open(self) -> Index:
        index = open_index(self.settings.index)
        check_model(index, self.fingerprint, self.model.bits)
        return index

    def _rows_with(self, row: int, status: int) -> Rows:
        if self.rows is None:
            raise ServiceError(status, "this service has no data, and so no rows (see --data)")
        if row >= len(self.rows):
            raise ServiceError(status, f"row is {row}; it must be from 0 to {len(self.rows) - 1}")
        return self.rows

    def _encode(self, index: Index, given: Given | None, image: bytes | None) -> _Encoded:
        """Return the query that a request describes; one of the two arguments is None."""
        facts: dict[str, Any] = {}
        if image is not None:
            embedding = self._embed(image)
        elif given is not None and given.embedding is not None:
            embedding = np.array(given.embedding)
            if len(embedding) != self.model.dim:
                raise ServiceError(422, f"embedding has {len(embedding)} numbers; the model takes {self.model.dim}")
        elif given is not None and given.row is not None:
            embedding, label = self._row(given.row)
            facts = {"row": given.row, "label": label}
        else:
            assert given is not None
            return self._stored(index, given)
        with np.errstate(over="ignore"):
            outputs = self.model.outputs(embedding[None].astype(np.float32))[0]
        if not np.isfinite(outputs).all():
            raise ServiceError(422, "embedding is so large that the model's outputs are not finite")
        return _encoded(index, pack(outputs[None])[0], {"outputs": outputs, "embeddings": embedding}, **facts)

    def _row(self, row: int) -> tuple[npt.NDArray, Any]:
        """Return the embedding and the label of a row of the data."""
        rows = self._rows_with(row, 422)
        embedding = rows.embedding(row)
        if embedding is None:
            image = rows.image(row)
            if image is None:
                raise ServiceError(422, f"row {row} has no image to encode")
            embedding = self._embed(image)
        return embedding, None if rows.labels is None else label_value(rows.labels[row])

    def _stored(self, index: Index, given: Given) -> _Encoded:
        """Return a query by the id of a code in the index, or by a code."""
        if given.id is None:
            with blame_request():
                return _encoded(index, code_from_hex(given.code or "", index.bits))
        try:
            code = index.codes_of([given.id])[0]
        except ValueError:
            raise ServiceError(404, f"id is {given.id}, and the index has no such code") from None
        vectors = {index.store_vectors: index.vectors_of([given.id])[0]} if index.store_vectors else {}
        attributes = attributes_of(index, [given.id])[0]
        row, label = self.row_of(given.id, attributes), attributes.get(index.label)
        return _encoded(index, code, vectors, id=given.id, row=row, label=label)

    def _embed(self, file: bytes) -> npt.NDArray:
        if self._embed_image is None:
            raise ServiceError(422, "this service has no backbone to encode images; send an embedding instead")
        image = self.decoder.image(file)
        with blame_request():  # the backbone's preprocessing refuses some shapes, such as a line of pixels
            return self._embed_image(image)


def _encoded(index: Index, code: PackedCodes, vectors: dict[str, npt.NDArray] | None = None, **facts: Any) -> _Encoded:
    return _Encoded(code, Query(code=code.tobytes().hex(), bits=index.bits, **facts), vectors or {})


def _neighbors(
    index: Index, encoded: _Encoded, options: Options
) -> tuple[npt.NDArray, npt.NDArray, npt.NDArray | None, int | None]:
    """Return ids, distances and scores of the neighbors, and how many codes are within the radius if no k is given."""
    radius, by = options.radius, options.rerank
    if radius is not None and radius > index.bits:
        raise ServiceError(422, f"radius is {radius}; it must be from 0 to the length of a code ({index.bits})")
    codes, size = encoded.code[None], len(index)
    all_within = options.k is None and radius is not None and by is None
    k = min(options.k or (MAX_K if all_within else K), size)
    if not size:
        return np.empty(0, np.int64), np.empty(0, np.int32), None, 0 if all_within else None
    with blame_request():
        if all_within:
            distances, ids = index.range_search(codes, radius or 0, where=options.where).of(0)
            return ids[:k], distances[:k], None, len(ids)
        candidates = k if by is None else min(max(k, options.candidates), size)
        found = index.search(codes, candidates, where=options.where)
        if radius is not None:
            near = found.distances[0] <= radius
            found = Neighbors(found.distances[:, near], found.ids[:, near])
        if by is None or not found.ids.size:
            return found.ids[0], found.distances[0], None, None
        vector = encoded.vectors.get("outputs" if by == "asymmetric" else by)
        if vector is None:
            raise ServiceError(422, f"rerank is {by!r}, which needs a query by embedding, row or image")
        best = rerank(index, found, vector[None], min(k, found.ids.shape[1]), by)
        return best.ids[0], best.distances[0], best.scores[0], None


def attributes_of(index: Index, ids: Any) -> list[dict[str, Any]]:
    """Return the attributes of each id, as JSON can hold them."""
    if not len(ids):
        return []
    return [
        {name: json_value(value) for name, value in row.items() if name != "id"}
        for row in index.attributes_of(ids).to_pylist()
    ]


def _backbone(settings: Settings, model: HashModel) -> Backbone | None:
    """Return the backbone of the settings, or the model's own if it is on this machine."""
    name = (model.metadata.get("backbone") or {}).get("name")
    known = name if name is not None and Path(name).is_dir() else None
    folder = settings.backbone or own_backbone(settings.model) or known
    if folder is None:
        return None
    from lbhash.models.backbone import Backbone

    backbone = Backbone.from_pretrained(folder)
    check_backbone(model, backbone)
    return backbone
