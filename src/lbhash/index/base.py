"""The interface of every index of codes: in memory, in a folder or in Milvus.

An id stays with its code. The ids of an index are either all 64-bit integers or all texts. ``search`` ranks codes by
Hamming distance, then by id, and returns the first k. The order of texts is fixed, but has no meaning
(``lbhash.index.ids``). An approximate kind may miss codes, but never one that equals the query. Among equally distant
codes it returns those that it met first.
"""

from __future__ import annotations

import json
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.codes import PackedCodes, check_codes, check_width
from lbhash.codes.io import check_one_model, code_column
from lbhash.index.ids import ID, Ids, Names, UnknownIdError, are_texts, arrow_of, check_ids, numbers_of
from lbhash.index.rerank import check_real, reranked
from lbhash.index.results import By, Neighbors, SearchResult, Within
from lbhash.index.where import Filter, Where, conditions
from lbhash.utils.names import Guessed, telling
from lbhash.utils.serialization import json_values
from lbhash.utils.validation import check_choice, check_int, check_type

Columns: TypeAlias = pa.Table | Mapping[str, Sequence[Any]] | Any
"""Metadata: columns by name, each with one value per code; or a data frame of pandas or polars."""

MaybeArray: TypeAlias = npt.ArrayLike | None
Options: TypeAlias = Mapping[str, Any] | None

OptionRanges = Mapping[str, tuple[int | None, int]]
"""The options of a kind by name: default value (None: computed from the number of codes) and smallest value."""

THUMBNAIL = "thumbnail"
"""The column with an image file (bytes) of each item; answers leave it out."""

ORIGIN = b"lbhash index"
"""The key in the schema's metadata that maps columns of the input file to columns of the index (``State.origin``)."""

HIGH = 2**62
"""Ids from here on, such as hashes, do not raise the next automatic id, or automatic ids would soon run out."""


def origin_of(schema: pa.Schema | None) -> dict[str, Any]:
    """Return what a schema has at ``ORIGIN``; empty without it."""
    held = None if schema is None else (schema.metadata or {}).get(ORIGIN)
    return dict(json.loads(held)) if held else {}


@dataclass(frozen=True)
class State:
    """The state of an index between two changes; ``schema`` (metadata columns) is None before the first codes.

    Text ids are the first column of the schema, ``id``. ``build`` and ``generation`` are those of ``BaseIndex``,
    ``checksum`` is that of the manifest. ``next_id`` is larger than every integer id below ``HIGH`` that the index ever
    had.
    """

    build: str = ""
    generation: int = 0
    checksum: str = ""
    next_id: int = 0
    schema: pa.Schema | None = None

    @cached_property
    def metadata(self) -> list[pa.Field]:
        """The names and types of the metadata columns."""
        return [field for field in self.schema or () if field.name != ID]

    @cached_property
    def columns(self) -> list[str]:
        """The names of the metadata columns."""
        return [field.name for field in self.metadata]

    @property
    def texts(self) -> bool:
        """Whether the ids are texts."""
        return self.schema is not None and ID in self.schema.names

    @property
    def label(self) -> str:
        """The column with the labels, ``label`` or ``labels``; empty if there is none."""
        return next((name for name in ("label", "labels") if name in self.columns), "")

    @cached_property
    def thumbnails(self) -> bool:
        """Whether the metadata include image files."""
        kinds = (pa.types.is_binary, pa.types.is_large_binary)
        return any(field.name == THUMBNAIL and any(fits(field.type) for fits in kinds) for field in self.metadata)

    @cached_property
    def origin(self) -> dict[str, Any]:
        """The input file's columns, such as ``id_column``, and its fingerprint, ``data`` (``lbhash.data.origin``).

        Empty if the index was built from codes or in Python.
        """
        return origin_of(self.schema)

    @property
    def identity(self) -> tuple[str, int, str]:
        """The identity of all content: two states share it only if their content is equal.

        The checksum is needed: two copies of a folder, changed separately, share the build and may share the
        generation.
        """
        return self.build, self.generation, self.checksum

    def check_kind(self, names: Names) -> None:
        """Raise ``TypeError`` if ids are integers and the index has texts, or the other way around."""
        if self.schema is not None and len(names) and are_texts(names) != self.texts:
            held, own = ("integers", "texts") if self.texts else ("texts", "integers")
            raise TypeError(f"ids holds {held}, and the index's ids are {own}")

    def new_ids(self, ids: npt.ArrayLike | None, count: int) -> Names:
        """Return the ids of ``count`` new codes; if ``ids`` is None, the next integers."""
        if ids is not None:
            names = check_ids(ids, count)
            self.check_kind(names)
            return names
        if self.texts:
            raise ValueError("ids is None, and the index's ids are texts; give one for each code")
        return np.arange(self.next_id, self.next_id + count)

    def next_after(self, numbers: Ids) -> int:
        """Return ``next_id`` after codes with these ids are added."""
        counted = numbers[numbers < max(HIGH, self.next_id + len(numbers))]
        return max(self.next_id, int(counted.max(initial=-1)) + 1)


class Rows(NamedTuple):
    """Rows to add to an index: checked codes, with their ids, metadata and vectors as the caller gave them."""

    codes: PackedCodes
    ids: npt.ArrayLike | None
    metadata: Columns | None
    vectors: npt.ArrayLike | None


CANDIDATES, MORE = 100, 10
"""For an index that computes only Hamming distances: rank at least 100 codes, and at least 10 per neighbor, by
outputs."""

_CALLED_WITH = {**dict.fromkeys(("top_k", "n_results", "limit"), "k"), "filter": "where"}
"""Names of search arguments in other libraries, and ours."""
_WORDS = {
    **dict.fromkeys(("load", "read_index"), "Index.open(path)"),
    **dict.fromkeys(("ntotal", "count"), "len(index)"),
    **dict.fromkeys(("remove_ids", "delete"), "index.remove(ids)"),
    **dict.fromkeys(("query", "kneighbors"), "index.search(codes, k)"),
    "write_index": "index.save(path)",
    **dict.fromkeys(("is_trained", "train"), "index.add(codes), which needs no training"),
    **dict.fromkeys(("d", "dim"), "index.bits"),
    "reconstruct": "index.codes_of(ids)",
    "add_with_ids": "index.add(codes, ids=ids)",
}
"""Names of methods and attributes in other libraries, and ours."""


class _Guessed(Guessed, ABCMeta):
    pass


class BaseIndex(ABC, metaclass=_Guessed):
    """Codes that are searched by Hamming distance, with their ids and metadata.

    Attributes:
        bits: h, the length of a code.
        kind: flat, ivf or milvus.
        model: fingerprint of the model that made the codes; empty if unknown.
        options: options of the kind by name.
        vectors: which vectors the index stores for re-ranking, ``outputs`` or ``embeddings``; empty for none.
        learns_classes: whether the model of the codes was trained with labels (used by re-ranking); None if unknown.

    Methods that only read, such as ``search`` and ``range_search``, may run in several threads at once.
    """

    bits: int
    kind: str
    model: str
    options: dict[str, Any]
    vectors: str
    learns_classes: bool | None = None

    _words = _WORDS

    if not TYPE_CHECKING:  # otherwise any name would pass a type checker

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(type(self).no_attribute(name))

    @property
    @abstractmethod
    def state(self) -> State:
        """The current state; each change replaces it by a new one."""

    @property
    def build(self) -> str:
        """A random id, new each time the index is built; empty in memory."""
        return self.state.build

    @property
    def generation(self) -> int:
        """A number that grows with every change."""
        return self.state.generation

    @property
    def label(self) -> str:
        """The column with the labels, ``label`` (integers) or ``labels`` (lists); empty if there is none."""
        return self.state.label

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of codes."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("an index cannot be pickled or copied; save it, and open it elsewhere by Index.open(path)")

    def add(
        self,
        codes: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        metadata: Columns | None = None,
        *,
        vectors: npt.ArrayLike | None = None,
    ) -> Names:
        """Add all codes or none, and return their ids; on return, the codes are stored in the folder or in Milvus.

        Args:
            codes: ``uint8 [n, ceil(bits / 8)]``.
            ids: integers or texts, ``[n]``, all new to the index. If None, numbering continues after the largest
                integer id below 2^62 that the index ever had.
            metadata: columns of n values each, as a mapping, an Arrow table, or a data frame. The first codes set the
                columns' names and types; later, a missing column is filled with nulls. The column ``label`` holds
                integers, texts or Booleans; ``labels`` holds lists of them.
            vectors: ``[n, dim]``, if the index stores vectors.

        Raises:
            TypeError, ValueError: an argument is not as above, or the index was opened for reading.
        """
        self._check_writable()
        return self._add(Rows(self.check(codes), ids, metadata, vectors))

    def upsert(
        self,
        codes: npt.ArrayLike,
        ids: npt.ArrayLike,
        metadata: Columns | None = None,
        *,
        vectors: npt.ArrayLike | None = None,
    ) -> Names:
        """Add codes as ``add`` does, and replace those whose id the index already has."""
        self._check_writable()
        return self._add(Rows(self.check(codes), check_ids(ids), metadata, vectors), upsert=True)

    def refresh(self) -> bool:
        """Read the index again if another program changed it, and return whether it did."""
        return False  # a server's index is always the newest

    def remove(self, ids: npt.ArrayLike) -> int:
        """Remove all codes with these ids, or none if an id is unknown, and return their number."""
        self._check_writable()
        names = check_ids(ids)
        self._of(self._remove, names)
        return len(names)

    def get(self, ids: npt.ArrayLike) -> pa.Table:
        """Return a table with a row for each of these ids: ``id``, ``code`` (bytes), then the metadata.

        Raises:
            UnknownIdError: the index does not have an id.
        """
        table = self.metadata_of(ids)
        return table.add_column(1, "code", code_column(self.codes_of(ids)))

    @telling(_CALLED_WITH)
    def search(
        self,
        codes: npt.ArrayLike | None = None,
        k: int = 10,
        *,
        outputs: npt.ArrayLike | None = None,
        embeddings: npt.ArrayLike | None = None,
        where: Where | None = None,
        rerank: By | None = None,
        candidates: int = 100,
    ) -> SearchResult:
        """Return the k nearest codes of each query, or all if there are fewer.

        Args:
            codes: the queries, ``uint8 [n, ceil(bits / 8)]``; the nearest have the smallest Hamming distance.
            k: how many, from 1 on.
            outputs: instead of codes, the queries' real outputs ℓ, ``[n, bits]`` (``Hasher.outputs``). They rank more
                finely: the distance is the sum of abs(ℓ) over the bits that differ, instead of their number.
            embeddings: the queries' embeddings, ``[n, dim]``, for ``rerank="embeddings"``.
            where: return only codes with these metadata or ids: a mapping from columns to a value or a list of values,
                such as ``{"label": [3, 5]}``; or a text, such as ``"20 <= price < 50 or color in (red, blue)"``
                (``lbhash.index.where``). In a column of lists, one value of the list must pass. Filtered search is
                exact for every kind of index.
            rerank: re-rank the nearest ``candidates`` by the stored vectors: "embeddings" or "outputs".
            candidates: how many are re-ranked, at least k.

        Raises:
            TypeError, ValueError: an argument is not as above, or the index does not store these vectors.
        """
        if rerank is not None:
            check_choice(rerank, "rerank", get_args(By))
        if (codes is None) == (outputs is None):
            raise ValueError(f"codes and outputs are {'both' if codes is not None else 'not'} given; give one of them")
        k, chosen = check_int(k, "k", 1), conditions(where)
        count = k if rerank is None else check_int(candidates, "candidates", 1)
        if count < k:
            raise ValueError(f"candidates is {candidates}; it must be at least k ({k})")
        count = min(count, len(self))
        if outputs is not None:
            rows = check_real(outputs, "outputs")
            if rows.shape[1] != self.bits:
                raise ValueError(f"outputs has {rows.shape[1]} numbers a row; the codes have {self.bits} bits")
            with np.errstate(over="ignore"):
                if np.isinf(farthest := np.abs(rows).sum(axis=1)).any():
                    row = int(farthest.argmax())
                    raise ValueError(f"outputs has too large a sum of absolute numbers in row {row}; scale the row")
            found = self._search_outputs(rows, count, chosen)
        else:
            assert codes is not None
            found = self._search(self.check(codes), count, chosen).result()
        if rerank is None:
            return found
        queries = embeddings if rerank == "embeddings" else outputs
        if queries is None:
            raise ValueError(f"rerank is {rerank!r}, and {rerank} of the queries are not given; give {rerank}")
        return reranked(self, found, queries, k, rerank)

    def range_search(self, codes: npt.ArrayLike, radius: int, *, where: Where | None = None) -> Within:
        """Return all codes within ``radius`` bits of each query; every kind of index finds all of them."""
        radius = check_int(radius, "radius", 0, self.bits, "the length of a code")
        return self._range_search(self.check(codes), radius, conditions(where))

    @abstractmethod
    def ids(self) -> Names:
        """Return all ids, ``[len]``: integers increase, and texts are in the order of a search."""

    def codes_of(self, ids: npt.ArrayLike) -> PackedCodes:
        """Return the codes of m ids, ``uint8 [m, ceil(bits / 8)]``; raise ``ValueError`` for an unknown id."""
        return self._of(self._codes_of, check_ids(ids, repeat=True))

    def metadata_of(self, ids: npt.ArrayLike, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a table with a row for each id: the column ``id``, then all metadata or the given columns."""
        names = check_ids(ids, repeat=True)
        for name in columns or ():
            if name not in self.state.columns:
                known = ", ".join(self.state.columns) or "none"
                raise ValueError(f"columns has {name!r}; the index has {known}")
        own = [ID] if self.state.texts else []
        wanted = None if columns is None else [*own, *columns]
        table = self._of(lambda numbers: self._metadata_of(numbers, wanted), names)
        if table is None:
            return pa.table({ID: names})
        return table if ID in table.column_names else table.add_column(0, ID, arrow_of(names))

    def vectors_of(self, ids: npt.ArrayLike) -> npt.NDArray:
        """Return the stored vectors of m ids, ``[m, dim]`` of float16 or uint8.

        Vectors stored as int8 are returned as float32, with length 1 or less.
        """
        if not self.vectors:
            how = "make one with vectors='embeddings' or 'int8'"
            raise ValueError(f"index of kind {self.kind} stores no vectors; {how}")
        return self._of(self._vectors_of, check_ids(ids, repeat=True))

    def _of(self, method: Callable[[Ids], Any], names: Names) -> Any:
        """Call a method with the numbers of ids, and return its result."""
        self.state.check_kind(names)
        numbers = numbers_of(names)
        try:
            return method(numbers)
        except UnknownIdError as error:
            raise UnknownIdError(names[numbers == error.name].tolist()[0]) from None

    # Subclasses implement these, with checked arguments. Ids are numbers, and may repeat except in ``_remove``.
    # Searches return ids as users know them; ``_metadata_of`` returns text ids as the column ``id``.

    @abstractmethod
    def _add(self, rows: Rows, *, upsert: bool = False) -> Names: ...

    def _check_writable(self) -> None:
        """Raise ``ValueError`` if the index was opened for reading."""

    @abstractmethod
    def _remove(self, ids: Ids) -> None: ...

    @abstractmethod
    def _search(self, queries: PackedCodes, k: int, where: Filter) -> Neighbors: ...

    def _search_outputs(self, outputs: npt.NDArray[np.float32], k: int, where: Filter) -> SearchResult:
        """Rank the nearest codes by outputs; for an index that computes only Hamming distances."""
        from lbhash.codes.real import Asked, differing

        asked = Asked(outputs)
        near = self._search(asked.codes, min(max(CANDIDATES, MORE * k), len(self)), where).ids
        codes = self.codes_of(near.ravel()).reshape(*near.shape, -1)
        places = np.broadcast_to(np.arange(near.shape[1]), near.shape)
        found = asked.ordered(places, codes).first(k)
        rows = np.arange(len(near))[:, None]
        hamming = differing(asked.codes, codes[rows, found.ids])
        return SearchResult(found.distances.astype(np.float32), near[rows, found.ids], hamming)

    @abstractmethod
    def _range_search(self, queries: PackedCodes, radius: int, where: Filter) -> Within: ...

    @abstractmethod
    def _codes_of(self, ids: Ids) -> PackedCodes: ...

    @abstractmethod
    def _metadata_of(self, ids: Ids, columns: Sequence[str] | None) -> pa.Table | None: ...

    def _vectors_of(self, ids: Ids) -> npt.NDArray:
        raise NotImplementedError

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write a copy of the index to a folder that holds no index yet."""

    @property
    def stored_bytes(self) -> int:
        """The size in bytes of the files that ``read_all`` reads; 0 for an index in memory or in Milvus."""
        return 0

    def read_all(self) -> None:
        """Read all files of a folder now instead of on first use; ``DamagedIndexError`` if one is damaged."""

    @abstractmethod
    def verify(self) -> None:
        """Read the whole index, and raise ``ValueError`` if anything has changed since it was written."""

    @abstractmethod
    def outdated(self) -> bool:
        """Return whether the index has been changed or built again since it was opened."""

    def info(self) -> dict[str, Any]:
        """Return the facts about the index as JSON values."""
        return {
            "kind": self.kind,
            "bits": self.bits,
            "codes": len(self),
            "build": self.build,
            "generation": self.generation,
            "model": self.model,
            "options": dict(self.options),
            "ids": "string" if self.state.texts else "int64",
            "metadata": {field.name: str(field.type) for field in self.state.metadata},
            "label": self.label,
            "id_column": self.state.origin.get("id_column"),
            "kept": None,
        }

    def check(self, codes: npt.ArrayLike, name: str = "codes") -> PackedCodes:
        """Return codes as ``uint8 [n, ceil(bits / 8)]``, or raise an error if they do not fit the index."""
        rows = check_codes(codes, name)
        check_width(rows, self.bits, name)
        return rows


def check_options(given: Options, known: OptionRanges, kind: str) -> dict[str, Any]:
    """Return the options of a kind of index, with defaults for missing ones."""
    options = {name: default for name, (default, _) in known.items()}
    check_type(given or {}, "options", Mapping, "a dict of names and numbers")
    for name, value in (given or {}).items():
        if name not in known:
            listed = ", ".join(known) or "none"
            raise ValueError(f"options has {name!r}, which an index of kind {kind} does not have; it has {listed}")
        default, least = known[name]
        if value is not None or default is not None:
            options[name] = check_int(value, f"option {name}", least, 2**31 - 1)
    return options


def check_model(index: BaseIndex, model: str, bits: int, name: str = "the model") -> None:
    """Raise ``ValueError`` if another model made the codes of ``index``.

    ``model`` is the model's fingerprint (``HashModel.fingerprint()``; empty if unknown), ``bits`` its code length, and
    ``name`` its name in messages.
    """
    check_one_model("index", index.bits, index.model, name, bits, model)


def describe_items(index: BaseIndex, ids: npt.ArrayLike) -> list[dict[str, Any]]:
    """Return id, code in hexadecimal digits, label and metadata of each id, as JSON values.

    The value of ``thumbnail`` is true if there is a thumbnail.

    Raises:
        UnknownIdError: the index does not have an id.
    """
    table = index.get(ids)
    if index.state.thumbnails:
        place = table.column_names.index(THUMBNAIL)
        table = table.set_column(place, THUMBNAIL, table.columns[place].is_valid())
    items = []
    for values in zip(*map(json_values, table.columns), strict=True):
        metadata = dict(zip(table.column_names, values, strict=True))
        own = {"id": metadata.pop("id"), "code": metadata.pop("code")}
        items.append({**own, "label": metadata.get(index.label), "metadata": metadata})
    return items


def describe_neighbors(index: BaseIndex, found: Sequence[SearchResult]) -> list[list[dict[str, Any]]]:
    """Return each query's neighbors: rank, distance, Hamming distance, and the values of ``describe_items``."""
    items = iter(describe_items(index, np.concatenate([one.ids.ravel() for one in found])))
    values = [pair for one in found for pair in zip(one.distances.tolist(), one.hamming.tolist(), strict=True)]
    return [
        [
            {"rank": rank, "distance": distance, "hamming": hamming, **next(items)}
            for rank, (distance, hamming) in enumerate(zip(*pair, strict=True), start=1)
        ]
        for pair in values
    ]
