"""The model, the index and the rows together: what is computed for a request, in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, code_from_hex, pack
from lbhash.data import load_dataset
from lbhash.index import Index, Neighbors, check_model, open_index, rerank
from lbhash.models.backbone_files import own_backbone
from lbhash.models.hash_model import HashModel, load_model
from lbhash.service.decoding import Decoder
from lbhash.service.errors import Refused, blamed_on_the_request
from lbhash.service.rows import DigitRows, Rows, open_rows
from lbhash.service.schemas import About, EncodeAnswer, Given, Limits, Neighbor, Options, Query, SearchAnswer
from lbhash.service.settings import MAX_K, Settings
from lbhash.utils.labels import label_value
from lbhash.utils.serialization import json_value
from lbhash.utils.version import __version__

if TYPE_CHECKING:
    from lbhash.models.backbone import Backbone

K = 10
"""How many neighbors an answer has where nothing says it."""


class _Asked:
    """A query: its code ``uint8 [bytes]``, the real-valued vectors that it has, and how it was understood."""

    def __init__(self, code: PackedCodes, bits: int, outputs: Any = None, embeddings: Any = None) -> None:
        self.code, self.outputs, self.embeddings = code, outputs, embeddings
        self.query = Query(code=code.tobytes().hex(), bits=bits)

    def vector(self, by: str) -> npt.NDArray:
        """What candidates are compared with."""
        vector = self.embeddings if by == "embeddings" else self.outputs
        if vector is None:
            raise Refused(422, f"rerank is {by!r}, which takes a query by embedding, row or picture")
        return vector


@dataclass(frozen=True)
class _Found:
    """Neighbors, and how many are within the radius where that was the question."""

    distances: npt.NDArray[np.int32]
    ids: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32] | None = None
    within: int | None = None


class Engine:
    """Encodes and searches.

    ``index`` is replaced as a whole where a newer one is loaded; whoever began with the old one ends with it.

    Args:
        settings: of the service.
        decoder: of pictures.

    Raises:
        TypeError, ValueError: model, index, data or backbone cannot be loaded, or do not fit together.
    """

    def __init__(self, settings: Settings, decoder: Decoder) -> None:
        self.settings, self.decoder = settings, decoder
        self.model = load_model(settings.model)
        self.fingerprint = self.model.fingerprint()
        self.rows: Rows | None = None if settings.data is None else open_rows(settings.data)
        self.backbone = _backbone(settings, self.model)
        self._check_rows()
        self.index = self._open()

    def encode(self, given: Given | None, picture: bytes | None = None) -> EncodeAnswer:
        """The code of what is given, or of a picture's file."""
        asked = self._ask(self.index, given, picture)
        numbers = None if asked.outputs is None else [float(number) for number in asked.outputs]
        return EncodeAnswer(code=asked.query.code, bits=asked.query.bits, outputs=numbers)

    def search(self, given: Given | None, options: Options, picture: bytes | None = None) -> SearchAnswer:
        """The codes nearest to what is given, or to a picture's file."""
        started = time.perf_counter()
        index = self.index
        asked = self._ask(index, given, picture)
        encoded = time.perf_counter()
        found = _neighbors(index, asked, options)
        ids, attributes = found.ids, attributes_of(index, found.ids)
        codes = index.codes_of(ids)
        neighbors = [
            Neighbor(
                rank=rank,
                id=int(ids[at]),
                row=self.row_of(int(ids[at]), attributes[at]),
                distance=int(found.distances[at]),
                score=None if found.scores is None else float(found.scores[at]),
                label=attributes[at].get(index.label) if index.label else None,
                attributes=attributes[at],
                code=codes[at].tobytes().hex(),
            )
            for rank, at in enumerate(range(len(ids)), start=1)
        ]
        ended = time.perf_counter()
        spent = {"encode": encoded - started, "search": ended - encoded, "total": ended - started}
        return SearchAnswer(
            query=asked.query,
            neighbors=neighbors,
            within=found.within,
            generation=index.generation,
            milliseconds={name: round(1e3 * seconds, 3) for name, seconds in spent.items()},  # type: ignore[arg-type]
        )

    def about(self) -> About:
        """What can be asked."""
        index = self.index
        vectors = [index.store_vectors] if index.store_vectors else []
        return About(
            version=__version__,
            model=self.fingerprint,
            method=_method(self.model.about),
            kind=index.kind,
            generation=index.generation,
            codes=len(index),
            bits=index.bits,
            dim=self.model.dim,
            rows=None if self.rows is None else len(self.rows),
            pictures=self.rows is not None and self.rows.pictures,
            takes_pictures=self.takes_pictures,
            columns=index.attributes_of([]).column_names[1:],
            label=index.label or None,
            rerank=["asymmetric", *vectors],
            limits=Limits(max_body=self.settings.max_body, max_pixels=self.settings.max_pixels, max_k=MAX_K),
        )

    @property
    def takes_pictures(self) -> bool:
        """Whether a picture can be encoded."""
        return self.backbone is not None or isinstance(self.rows, DigitRows)

    def thumbnail(self, row: int) -> tuple[bytes, str]:
        """A small picture of a row, and its media type."""
        rows = self._rows_with(row, 404)
        held = rows.picture(row) if rows.pictures else None
        if held is None:
            raise Refused(404, f"row {row} has no picture")
        if isinstance(rows, DigitRows):
            return held, "image/png"  # our own, and small
        return self.decoder.thumbnail(held), "image/webp"

    def refresh(self) -> bool:
        """Load what is at the index's path by now, if it is another generation or build; whether it was."""
        if not self.index.outdated():
            return False
        self.index = self._open()
        return True

    def encode_rows(self, rows: npt.NDArray[np.int64]) -> PackedCodes | None:
        """Codes of rows of the data, ``uint8 [n, bytes]``; ``None`` where that would take the backbone."""
        if self.rows is None or not len(rows):
            return None
        embeddings = [self.rows.embedding(int(row)) for row in rows]
        if any(embedding is None for embedding in embeddings):
            return None
        return self.model.encode(np.stack([np.asarray(embedding, np.float32) for embedding in embeddings]))

    def query_rows(self) -> npt.NDArray[np.int64]:
        """The rows of the data that the model's training kept as queries.

        Raises:
            ValueError: neither model nor data say which those are.
        """
        about, data = self.model.about, self.settings.data
        assert data is not None
        protocol = about.get("protocol")
        if protocol == "files":
            raise ValueError("the model was trained on separate files, of which the data are one")
        drawn = None if protocol == "flags" else protocol
        dataset = load_dataset(data, protocol=drawn, seed=about.get("split seed", 0))
        if drawn is None and dataset.protocol != "flags":
            raise ValueError("neither the model nor the data say which rows are queries")
        return dataset.query.rows

    def _open(self) -> Index:
        index = open_index(self.settings.index)
        check_model(index, self.fingerprint, self.model.bits)
        return index

    def _check_rows(self) -> None:
        if self.rows is None or not len(self.rows):
            return
        first = self.rows.embedding(0)
        if first is not None and len(first) != self.model.dim:
            raise ValueError(
                f"data is {str(self.settings.data)!r}, whose embeddings have {len(first)} numbers; "
                f"the model takes {self.model.dim}"
            )

    def _rows_with(self, row: int, status: int) -> Rows:
        if self.rows is None:
            raise Refused(status, "this service has no data, and so no rows (--data)")
        if row >= len(self.rows):
            raise Refused(status, f"row is {row}; it must be from 0 to {len(self.rows) - 1}")
        return self.rows

    def row_of(self, name: int, attributes: Mapping[str, Any]) -> int | None:
        """The row of the data that the code ``name`` was made from; ``None`` where the data do not have it."""
        row = attributes.get("row", name)
        return row if self.rows is not None and isinstance(row, int) and 0 <= row < len(self.rows) else None

    def _ask(self, index: Index, given: Given | None, picture: bytes | None) -> _Asked:
        if picture is not None:
            return self._asked(index, self._embed(picture))
        if given is None:
            raise Refused(422, "nothing is given; it must be one of image, embedding, id, code and row")
        if given.embedding is not None:
            if len(given.embedding) != self.model.dim:
                raise Refused(422, f"embedding has {len(given.embedding)} numbers; the model takes {self.model.dim}")
            return self._asked(index, np.array(given.embedding))
        if given.row is not None:
            return self._ask_by_row(index, given.row)
        if given.id is not None:
            return self._ask_by_id(index, given.id)
        with blamed_on_the_request():
            return _Asked(code_from_hex(given.code or "", index.bits), index.bits)

    def _ask_by_row(self, index: Index, row: int) -> _Asked:
        rows = self._rows_with(row, 422)
        embedding = rows.embedding(row)
        if embedding is None:
            held = rows.picture(row)
            if held is None:
                raise Refused(422, f"row {row} has no picture that could be encoded")
            embedding = self._embed(held)
        asked = self._asked(index, embedding)
        asked.query.row = row
        asked.query.label = None if rows.labels is None else label_value(rows.labels[row])
        return asked

    def _ask_by_id(self, index: Index, name: int) -> _Asked:
        try:
            code = index.codes_of([name])[0]
        except ValueError:
            raise Refused(404, f"id is {name}, and the index has no such code") from None
        vector = index.vectors_of([name])[0] if index.store_vectors else None
        asked = _Asked(code, index.bits, **{index.store_vectors: vector} if index.store_vectors else {})
        attributes = attributes_of(index, np.array([name]))[0]
        asked.query.id, asked.query.row = name, self.row_of(name, attributes)
        asked.query.label = attributes.get(index.label) if index.label else None
        return asked

    def _asked(self, index: Index, embedding: npt.NDArray) -> _Asked:
        outputs = self._outputs(embedding)
        return _Asked(pack(outputs[None])[0], index.bits, outputs, embedding)

    def _embed(self, file: bytes) -> npt.NDArray:
        if not self.takes_pictures:
            raise Refused(422, "this service has no backbone to turn a picture into an embedding; send an embedding")
        picture = self.decoder.picture(file)
        if self.backbone is not None:
            with blamed_on_the_request():  # a line of pixels, say, that its preprocessing cannot make square
                return self.backbone.embed([picture])[0]
        assert self.rows is not None
        embedding = self.rows.embed(picture)
        assert embedding is not None
        return embedding

    def _outputs(self, embedding: npt.NDArray) -> npt.NDArray[np.float32]:
        with np.errstate(over="ignore"):
            outputs = self.model.outputs(embedding[None].astype(np.float32))[0]
        if not np.isfinite(outputs).all():
            raise Refused(422, "embedding is so large that the model's outputs are not finite")
        return outputs


def _neighbors(index: Index, asked: _Asked, options: Options) -> _Found:
    if options.radius is not None and options.radius > index.bits:
        raise Refused(422, f"radius is {options.radius}; it must be from 0 to the length of a code ({index.bits})")
    codes, size = asked.code[None], len(index)
    all_within = options.k is None and options.radius is not None and options.rerank is None
    k = min(options.k or (MAX_K if all_within else K), size)
    if not size:
        return _Found(np.empty(0, np.int32), np.empty(0, np.int64), within=0 if all_within else None)
    with blamed_on_the_request():
        if all_within:
            distances, ids = index.range_search(codes, options.radius or 0, where=options.where).of(0)
            return _Found(distances[:k], ids[:k], within=len(ids))
        candidates = k if options.rerank is None else min(max(k, options.candidates), size)
        found = index.search(codes, candidates, where=options.where)
        if options.radius is not None:
            near = found.distances[0] <= options.radius
            found = Neighbors(found.distances[:, near], found.ids[:, near])
        if options.rerank is None or not found.ids.size:
            return _Found(found.distances[0], found.ids[0])
        best = rerank(index, found, asked.vector(options.rerank)[None], min(k, found.ids.shape[1]), options.rerank)
        return _Found(best.distances[0], best.ids[0], best.scores[0])


def attributes_of(index: Index, ids: npt.NDArray) -> list[dict[str, Any]]:
    """The attributes of each id, as JSON can hold them."""
    if not len(ids):
        return []
    return [
        {name: json_value(value) for name, value in row.items() if name != "id"}
        for row in index.attributes_of(ids).to_pylist()
    ]


def _method(about: Mapping[str, Any]) -> str:
    """The method as the paper writes it."""
    return f"{about.get('method', 'unknown')}{'_d' * bool(about.get('guided'))}"


def _backbone(settings: Settings, model: HashModel) -> Backbone | None:
    """The backbone that is named, or the model's own, where it is on this machine."""
    folder = settings.backbone or own_backbone(settings.model)
    if folder is None:
        known = (model.about.get("backbone") or {}).get("name")
        folder = known if known is not None and Path(known).is_dir() else None
    if folder is None:
        return None
    from lbhash.models.backbone import Backbone
    from lbhash.models.backbone_files import check_backbone

    backbone = Backbone.from_pretrained(folder)
    check_backbone(model, backbone)
    return backbone
