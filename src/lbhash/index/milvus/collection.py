"""An index in a collection of Milvus, for more codes than one machine holds; or in a file, by Milvus Lite.

A code is a row: its id as the primary key, its bits as a ``BINARY_VECTOR`` that is compared by HAMMING, and its
attributes as JSON. What never changes (bits, model, options) is in the collection's description; what does (the
generation, the number of codes, the attributes' types) in a row with the id −1, which no code can have. So an index is
one collection, which an alias may name and any tool of Milvus may back up.

Milvus returns at most 16,384 codes of a search, and of those at the last distance whichever it met first. With
``BIN_FLAT`` the neighbors are nevertheless those of a flat index: where a tie is cut, the codes at that distance are
asked for again, by ranges of ids where they are too many.

Milvus has no transactions. A change writes down first what it is about to do, so that one that was cut short is known,
and is completed by repeating it; where an ``add`` fails, what it has sent is taken back. There may be one writer at a
time: a second one is told so at the end of its change at best.
"""

from __future__ import annotations

import base64
import errno
import json
import logging
import math
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, check_bits, check_codes, check_width, code_bytes
from lbhash.index import scan
from lbhash.index.attributes import as_table, label_column
from lbhash.index.base import Attributes, Index, Neighbors, Where, Within, check_ids
from lbhash.index.milvus.address import Address, parse_address
from lbhash.index.milvus.attributes import FIELD, both, check_schema, expression, to_rows, to_table
from lbhash.index.options import check_options
from lbhash.utils.progress import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from pymilvus import MilvusClient

LIMIT = 16_384
"""The most rows that Milvus returns for a query."""
MARGIN = 32
"""How many more than k are asked for, so that most ties are complete at once."""
BATCH_ROWS = 8_192
"""Rows of a request: of ids that are looked for, and at most of codes that are inserted."""
BATCH_BYTES = 8 << 20
"""Bytes of codes and attributes that are inserted at once; Milvus takes 64 MiB."""
ANSWERS = 1 << 19
"""Neighbors that one request asks for, of all its queries together."""
CONNECT_SECONDS = 5
START_SECONDS = 20
"""How long Milvus Lite, which this process starts, may take until it can be connected to."""
SECONDS = 30
"""How long Milvus may take to answer anything else."""

KINDS: dict[str, tuple[str, Mapping[str, tuple[int | None, int]]]] = {
    "flat": ("BIN_FLAT", {}),
    "ivf": ("BIN_IVF_FLAT", {"nlist": (1024, 1), "nprobe": (16, 1)}),
}
"""How Milvus may search, by the names of the embedded kinds: its own name, and the options."""

_FORMAT, _VERSION = "lbhash index", 1
_STATE_ID = -1
_STATE = "lbhash"
_MAX_ID = 2**63 - 1


@dataclass(frozen=True)
class State:
    """What one generation of an index holds.

    Attributes:
        build: names the collection's making, so that one that an alias has moved to is told from the one before.
        generation: grows with every change.
        count: number of codes.
        next_id: above every id that there ever was.
        schema: of the attributes; ``None`` until there have been codes.
        unfinished: a change that has begun: what it is, the number and digest of its ids, the least and the largest.
    """

    build: str
    generation: int = 0
    count: int = 0
    next_id: int = 0
    schema: pa.Schema | None = None
    unfinished: dict[str, Any] | None = None


class MilvusIndex(Index):
    """A collection of Milvus. ``open_index`` and ``build_index`` make one.

    Args:
        address: of the collection.
        client: that is connected.
        told: the collection's description.
        progress: show a bar while codes are inserted.
    """

    kind = "milvus"
    kept = ""

    def __init__(self, address: Address, client: MilvusClient, told: Mapping[str, Any], progress: bool = False) -> None:
        self.address, self.progress = address, progress
        self.bits: int = told["bits"]
        self.model: str = told["model"]
        self.searches: str = told["kind"]
        self.options: dict[str, int] = dict(told["options"])
        self._client = client
        self._adopt(State(""))

    # ------------------------------------------------------------------------------------------------------- reading

    def __len__(self) -> int:
        return self._state.count

    def search(self, codes: npt.ArrayLike, k: int, *, where: Where | None = None) -> Neighbors:
        """As of every index (``Index.search``); exactly as a flat one with ``BIN_FLAT``, and wherever it filters."""
        state = self._state
        rows, k = self.check(codes), self.check_k(k)
        filtered = expression(where, state.schema)
        if filtered is None or not len(rows):
            return Neighbors(np.empty((len(rows), 0), np.int32), np.empty((len(rows), 0), np.int64))
        exact = not self.options or bool(filtered) or k > LIMIT - MARGIN
        asked = min(k + MARGIN, LIMIT)
        found = self._ask(rows, asked, filtered, {}, exhaustive=exact)
        if not exact:
            few = [row for row, hits in enumerate(found) if len(hits[1]) < min(k, state.count)]
            for row, hits in zip(few, self._ask(rows[few], asked, filtered, {}, exhaustive=True), strict=True):
                found[row] = hits
        else:
            self._complete(rows, found, k, asked, filtered)
        best = [_first(distances, ids, k) for distances, ids in found]
        width = min(len(ids) for _, ids in best)  # of one number, but while another writer removes
        return Neighbors(*(np.stack([part[:width] for part in parts]) for parts in zip(*best, strict=True)))

    def range_search(self, codes: npt.ArrayLike, radius: int, *, where: Where | None = None) -> Within:
        """As of every index (``Index.range_search``)."""
        state = self._state
        rows, radius = self.check(codes), self.check_radius(radius)
        filtered = expression(where, state.schema)
        parts = [] if filtered is None else list(self._rings(rows, 0, radius, filtered))
        limits = np.cumsum([0, *(len(ids) for _, ids in parts)] if parts else [0] * (len(rows) + 1)).astype(np.int64)
        best = [_first(distances, ids, len(ids)) for distances, ids in parts]
        distances = np.concatenate([np.empty(0, np.int32), *(part[0] for part in best)])
        return Within(limits, distances, np.concatenate([np.empty(0, np.int64), *(part[1] for part in best)]))

    def ids(self) -> npt.NDArray[np.int64]:
        """All ids, ``int64 [len]``, rising. They are read from Milvus one by one: not for a billion."""
        return np.sort(np.array([row["id"] for rows in self._all(["id"]) for row in rows], np.int64))

    def codes_of(self, ids: npt.ArrayLike) -> PackedCodes:
        """Codes of these ids, ``uint8 [m, ceil(bits / 8)]``."""
        held = b"".join(row["code"][0] for row in self._rows_of(check_ids(ids, repeat=True), "code"))
        return np.frombuffer(held, np.uint8).reshape(-1, code_bytes(self.bits)).copy()

    def attributes_of(self, ids: npt.ArrayLike) -> pa.Table:
        """A row for each of these ids: the column ``id``, then the attributes."""
        import pyarrow as pa

        state, names = self._state, check_ids(ids, repeat=True)
        rows = self._rows_of(names, FIELD)
        table = pa.table({"id": pa.array(names)})
        if state.schema is not None:
            held = to_table([row[FIELD] for row in rows], state.schema)
            for column in state.schema:
                table = table.append_column(column, held[column.name])
        return table

    def info(self) -> dict[str, Any]:
        """What the collection says of itself."""
        state = self._state
        return {
            "kind": self.kind,
            "bits": self.bits,
            "codes": len(self),
            "build": self.build,
            "generation": self.generation,
            "model": self.model,
            "collection": self.address.collection,
            "search": KINDS[self.searches][0],
            "options": self.options,
            "attributes": {column.name: str(column.type) for column in state.schema or ()},
            "label": self.label,
            "kept": None,
            "unfinished": state.unfinished,
        }

    # ------------------------------------------------------------------------------------------------------- writing

    def add(
        self,
        codes: npt.ArrayLike,
        ids: npt.ArrayLike | None = None,
        attributes: pa.Table | Attributes | None = None,
        *,
        vectors: npt.ArrayLike | None = None,
    ) -> None:
        """As of every index (``Index.add``), but that Milvus keeps no vectors. Searches see the batches as they come.

        An ``add`` that was cut short, by a kill or a power cut, is completed by repeating it.
        """
        rows = self.check(codes)
        names = None if ids is None else check_ids(ids, len(rows))
        if vectors is not None:
            raise ValueError("vectors are given, and Milvus keeps none; an index in a folder can")
        state = self._refreshed()
        if names is None:
            if state.next_id + len(rows) > 2**63:
                raise ValueError("ids are not given, and none are left above the largest of the index")
            names = np.arange(state.next_id, state.next_id + len(rows))
        table = as_table(attributes, len(rows), state.schema)
        check_schema(table.schema)
        if not len(rows):
            return
        repeated = self._begins(state, "add", names)
        if not repeated and (there := self._present(names[names < state.next_id])).size:
            raise ValueError(f"ids holds {there[0]}, which the index already has; remove it first, or give another")
        begun = replace(
            state,
            next_id=max(state.next_id, int(names.max()) + 1),
            schema=table.schema if state.schema is None else state.schema,
            unfinished=_change("add", names),
        )
        self._write_state(begun)
        try:
            self._insert(rows, names, table)
        except BaseException:
            if not repeated:  # of what was there before, nothing has changed
                with suppress(Exception):
                    self._delete(names)
                    self._write_state(state)
            raise
        self._commit(begun)

    def remove(self, ids: npt.ArrayLike) -> int:
        """As of every index (``Index.remove``). One that was cut short is completed by repeating it."""
        names = check_ids(ids)
        state = self._refreshed()
        if not self._begins(state, "remove", names):
            missing = np.setdiff1d(names, self._present(names))
            if missing.size:
                raise ValueError(f"ids holds {missing[0]}, which the index does not have")
        if not len(names):
            return 0
        begun = replace(state, unfinished=_change("remove", names))
        self._write_state(begun)
        self._delete(names)
        self._commit(begun)
        return len(names)

    def save(self, path: str | Path) -> None:
        """Write all of it to a folder, as a flat index: a copy that needs no Milvus."""
        from lbhash.index.flat import FlatIndex
        from lbhash.index.local import write_index

        copied = FlatIndex(self.bits, model=self.model)
        if len(self):
            ids = self.ids()
            copied.add(self.codes_of(ids), ids, self.attributes_of(ids).drop_columns(["id"]))
        write_index(copied, path)

    def outdated(self) -> bool:
        """Whether the collection holds another generation than this one."""
        newest = self._read_state()
        return (newest.build, newest.generation) != (self._state.build, self._state.generation)

    def verify(self) -> None:
        """Read all codes and ids; ``ValueError`` where they are not as they were written.

        Milvus guards its own files. What is checked is what others may have done to the collection: that there are as
        many codes as the index counts, each with an id of its own and without a bit beyond its length.
        """
        state = self._refreshed()
        if state.unfinished is not None:
            raise ValueError(f"index is damaged: {_told(state.unfinished)} was cut short; repeat it")
        names = []
        for rows in self._all(["id", "code"]):
            names += [row["id"] for row in rows]
            held = check_codes(np.frombuffer(b"".join(row["code"][0] for row in rows), np.uint8).reshape(len(rows), -1))
            try:
                check_width(held, self.bits)
            except ValueError as error:
                raise ValueError(f"index is damaged: {error}") from None
        if len(set(names)) < len(names):
            raise ValueError("index is damaged: two codes have the same id")
        if len(names) != state.count:
            raise ValueError(f"index is damaged: the collection has {len(names)} codes and not {state.count}")

    # ------------------------------------------------------------------------------------------------------ searching

    def _complete(self, queries: PackedCodes, found: list[_Hits], k: int, asked: int, filtered: str) -> None:
        """Make sure that the first k codes of each query are those of the lowest ids among the ones as near."""
        pending: dict[int, list[int]] = {}  # queries, by the distance at which theirs were cut
        for row, (distances, ids) in enumerate(found):
            if len(ids) < asked - 1:  # one may have been the state's
                continue
            last = int(distances[-1])
            nearer = distances < last
            if nearer.sum() < k:
                found[row] = distances[nearer], ids[nearer]
                pending.setdefault(last, []).append(row)
        for last, rows in pending.items():
            if k <= LIMIT - MARGIN:
                wanted = k - min(len(found[row][1]) for row in rows)
                for row, hits in zip(rows, self._rings(queries[rows], last, last, filtered, wanted), strict=True):
                    found[row] = _joined([found[row], hits])
                continue
            for row in rows:  # more than Milvus returns: ring after ring
                for distance in range(last, self.bits + 1):
                    wanted = k - len(found[row][1])
                    if wanted <= 0:
                        break
                    found[row] = _joined(
                        [found[row], *self._rings(queries[[row]], distance, distance, filtered, wanted)]
                    )

    def _rings(
        self, queries: PackedCodes, inner: int, outer: int, filtered: str, wanted: int | None = None
    ) -> Iterator[_Hits]:
        """All codes ``inner`` to ``outer`` bits away, for each query; or ``wanted`` at least, of the lowest ids."""
        within = {"radius": outer + 1, "range_filter": inner}  # the first distance that is too far, the last too near
        codes_only = both([filtered, "id >= 0"])
        for row, hits in enumerate(self._ask(queries, LIMIT, codes_only, within, exhaustive=True)):
            yield hits if len(hits[1]) < LIMIT else self._by_ids(queries[[row]], within, filtered, hits, wanted)

    def _by_ids(
        self, query: PackedCodes, within: dict[str, int], filtered: str, cut: _Hits, wanted: int | None
    ) -> _Hits:
        """The codes of a ring of more than Milvus returns: range of ids after range, each halved until it is whole."""
        parts, count = [], 0
        ranges = _halves(0, _MAX_ID, cut)
        while ranges and (wanted is None or count < wanted):
            low, high = ranges.pop()
            term = both([filtered, f"id >= {low}", f"id <= {high}"])
            (hits,) = self._ask(query, LIMIT, term, within, exhaustive=True)
            if len(hits[1]) < LIMIT:
                parts.append(hits)
                count += len(hits[1])
            else:
                ranges += _halves(low, high, hits)
        return _joined(parts)

    def _ask(
        self, queries: PackedCodes, limit: int, filtered: str, within: dict[str, int], exhaustive: bool
    ) -> list[_Hits]:
        """What Milvus answers to each query: distances and ids, by distance. The row of the state is no code."""
        params = dict(within)
        if self.options:
            lists = self.options["nlist"]
            params["nprobe"] = lists if exhaustive else min(self.options["nprobe"], lists)
        size = max(1, min(ANSWERS // limit, LIMIT))
        answers: list[_Hits] = []
        for start in range(0, len(queries), size):
            found = self._call(
                "search",
                data=[query.tobytes() for query in queries[start : start + size]],
                anns_field="code",
                limit=limit,
                filter=filtered,
                search_params={"metric_type": "HAMMING", "params": params},
            )
            for hits in found:
                ids = np.array([hit["id"] for hit in hits], np.int64)
                distances = np.rint(np.array([hit["distance"] for hit in hits], np.float64)).astype(np.int32)
                kept = ids != _STATE_ID
                answers.append((distances[kept], ids[kept]))
        return answers

    # ----------------------------------------------------------------------------------------------------------- rows

    def _rows_of(self, ids: npt.NDArray[np.int64], column: str) -> list[Any]:
        """A row of the collection for each id, with one column."""
        rows: dict[int, Any] = {}
        for part in _batches(np.unique(ids)):
            rows |= {row["id"]: row for row in self._call("query", ids=part, output_fields=["id", column])}
        if missing := [name for name in ids.tolist() if name not in rows]:
            raise ValueError(f"ids holds {missing[0]}, which the index does not have")
        return [rows[name] for name in ids.tolist()]

    def _present(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Those ids that the collection has, rising."""
        there = [row["id"] for part in _batches(ids) for row in self._call("query", ids=part, output_fields=["id"])]
        return np.sort(np.array(there, np.int64))

    def _all(self, columns: Sequence[str]) -> Iterator[list[Any]]:
        """All codes, some at a time."""
        iterator = self._call("query_iterator", batch_size=BATCH_ROWS, filter="id >= 0", output_fields=columns)
        with _line_of(self.address):
            while rows := iterator.next():
                yield rows
            iterator.close()

    def _insert(self, codes: PackedCodes, ids: npt.NDArray[np.int64], table: pa.Table) -> None:
        # Rows that a change before left half done are replaced: an insert would leave two of one id.
        width = codes.shape[1] + 8 + math.ceil(table.nbytes / len(codes))
        size = max(1, min(BATCH_ROWS, BATCH_BYTES // width))
        with counted("inserting", len(codes), "codes", show=self.progress) as advance:
            for start in range(0, len(codes), size):
                here = slice(start, start + size)
                held = to_rows(table.slice(start, size)) if table.column_names else [{}] * len(codes[here])
                data = [
                    {"id": name, "code": code.tobytes(), FIELD: row}
                    for name, code, row in zip(ids[here].tolist(), codes[here], held, strict=True)
                ]
                self._call("upsert", data=data)
                advance(len(data))

    def _delete(self, ids: npt.NDArray[np.int64]) -> None:
        for part in _batches(ids):
            self._call("delete", ids=part)

    def _call(self, name: str, **arguments: Any) -> Any:
        """Ask Milvus for something; an error of its own becomes ``ConnectionError``."""
        with _line_of(self.address):
            method: Callable[..., Any] = getattr(self._client, name)
            return method(collection_name=self.address.collection, timeout=SECONDS, **arguments)

    # --------------------------------------------------------------------------------------------------------- states

    def _adopt(self, state: State) -> None:
        self._state = state
        self.build = state.build
        self.generation = state.generation
        self.label = label_column(state.schema)

    def _refreshed(self) -> State:
        self._adopt(self._read_state())
        return self._state

    def _begins(self, state: State, what: str, ids: npt.NDArray[np.int64]) -> bool:
        """Whether a change repeats one that was cut short; ``ValueError`` where it is another."""
        if state.unfinished is None:
            return False
        if state.unfinished != _change(what, ids):
            raise ValueError(f"index has {_told(state.unfinished)} that was cut short; repeat it before anything else")
        return True

    def _read_state(self) -> State:
        import pyarrow as pa

        rows = self._call("query", ids=[_STATE_ID], output_fields=[FIELD])
        held = rows[0][FIELD].get(_STATE) if rows else None
        if held is None:
            raise ValueError(f"index is {self.address.shown!r}, which was never finished; build it again (--overwrite)")
        schema = held["schema"]
        return State(
            **held | {"schema": pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema))) if schema else None}
        )

    def _write_state(self, state: State) -> None:
        schema = None if state.schema is None else base64.b64encode(state.schema.serialize()).decode()
        row = {"id": _STATE_ID, "code": bytes(code_bytes(self.bits)), FIELD: {_STATE: vars(state) | {"schema": schema}}}
        self._call("upsert", data=[row])

    def _commit(self, begun: State) -> None:
        """The end of a change: it is counted, and nothing is unfinished any more."""
        if self._read_state() != begun:
            raise ValueError(
                f"index is {self.address.shown!r}, which another writer has changed meanwhile; "
                "there may be one at a time ('lbhash index verify' says what came of it)"
            )
        count = int(self._call("query", filter="", output_fields=["count(*)"])[0]["count(*)"]) - 1
        self._write_state(replace(begun, generation=begun.generation + 1, count=count, unfinished=None))
        self._refreshed()


_Hits = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
"""Distances and ids of codes that were found."""


def open_milvus(path: str, *, progress: bool = False) -> MilvusIndex:
    """Open a collection that holds an index.

    Args:
        path: its address (``milvus_address.parse_address``).
        progress: show a bar while codes are inserted.

    Raises:
        ValueError: the address is none, or there is no such collection, or one that is no index.
        ConnectionError: Milvus does not answer, or refuses.
    """
    address = parse_address(path)
    if address.file is not None and not address.file.is_file():
        raise ValueError(f"index is {address.shown!r}, and there is no such file")
    client = _connect(address)
    told = _described(client, address)
    if told is None:
        raise ValueError(f"index is {address.shown!r}, and there is no such collection")
    with _line_of(address):
        client.load_collection(address.collection, timeout=SECONDS)
    index = MilvusIndex(address, client, told, progress)
    index._refreshed()
    return index


def build_milvus(
    path: str,
    codes: npt.ArrayLike,
    bits: int,
    *,
    ids: npt.ArrayLike,
    attributes: pa.Table | Attributes | None = None,
    model: str = "",
    kind: str = "flat",
    options: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> MilvusIndex:
    """Make a collection of codes, and leave it open.

    Args:
        path: its address (``milvus_address.parse_address``).
        codes: ``uint8 [n, ceil(bits / 8)]``.
        bits: h, the length of a code.
        ids: ``int64 [n]``.
        attributes: columns of n values each.
        model: fingerprint of the model that made the codes.
        kind: flat (``BIN_FLAT``), which is exact, or ivf (``BIN_IVF_FLAT``), which a file of Milvus Lite does not have.
        options: of ivf: ``nlist``, by default 1024, and ``nprobe``, by default 16.
        overwrite: replace the index that is there. Whoever searches meanwhile finds none, or a part.
        progress: show a bar.

    Raises:
        TypeError, ValueError: anything does not fit, or there is a collection already. Nothing is written then.
        ConnectionError: Milvus does not answer, or refuses.
    """
    address = parse_address(path)
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; in Milvus it must be one of {', '.join(KINDS)}")
    search, known = KINDS[kind]
    chosen = check_options(options, known, kind)
    if address.file is not None and kind != "flat":
        raise ValueError(f"kind is {kind!r}; a file of Milvus Lite has flat only")
    rows = check_codes(codes)
    check_width(rows, check_bits(bits))
    names = check_ids(ids, len(rows))
    table = as_table(attributes, len(rows), None)
    check_schema(table.schema)
    if address.file is not None and not address.file.resolve().parent.is_dir():
        raise ValueError(f"out is {address.shown!r}, and there is no such folder")
    client = _connect(address)
    if _described(client, address) is not None:
        if not overwrite:
            raise ValueError(f"out is {address.shown!r}, which already holds an index; give another, or --overwrite")
        with _line_of(address):
            client.drop_collection(address.collection, timeout=SECONDS)
    told = {"format": _FORMAT, "version": _VERSION, "bits": bits, "model": model, "kind": kind, "options": chosen}
    _create(client, address, told, search, {name: value for name, value in chosen.items() if name == "nlist"})
    index = MilvusIndex(address, client, told, progress)
    try:
        index._write_state(State(uuid.uuid4().hex, generation=0 if len(rows) else 1))
        index._refreshed()
        index.add(rows, names, table)
    except BaseException:
        with suppress(Exception):
            client.drop_collection(address.collection, timeout=SECONDS)
        raise
    return index


def _create(client: MilvusClient, address: Address, told: dict[str, Any], search: str, params: dict[str, Any]) -> None:
    from pymilvus import DataType

    with _line_of(address):
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False, description=json.dumps(told))
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("code", DataType.BINARY_VECTOR, dim=8 * code_bytes(told["bits"]))
        schema.add_field(FIELD, DataType.JSON)
        index = client.prepare_index_params()
        index.add_index("code", index_type=search, metric_type="HAMMING", params=params)
        # Strong: whoever asks after a change has returned finds it.
        client.create_collection(
            address.collection, schema=schema, index_params=index, consistency_level="Strong", timeout=SECONDS
        )


def _described(client: MilvusClient, address: Address) -> dict[str, Any] | None:
    """What a collection says of its index; ``None`` where there is no collection.

    Raises:
        ValueError: it is no index of ours, or one that a newer lbhash wrote.
    """
    with _line_of(address):
        if not client.has_collection(address.collection, timeout=SECONDS):
            return None
        found = client.describe_collection(address.collection, timeout=SECONDS)
    foreign = f"index is {address.shown!r}, a collection that holds no index of lbhash"
    try:
        told = json.loads(found["description"])
        known, version = told["format"] == _FORMAT, int(told["version"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(foreign) from None
    if known and version > _VERSION:
        raise ValueError(
            f"index is {address.shown!r}, which a newer lbhash wrote (format {version}; this one reads {_VERSION})"
        )
    widths = [column.get("params", {}).get("dim") for column in found["fields"] if column["name"] == "code"]
    if not known or told.get("kind") not in KINDS or widths != [8 * code_bytes(check_bits(told.get("bits")))]:
        raise ValueError(foreign)
    return told


def _connect(address: Address) -> MilvusClient:
    """A client of the server, or of Milvus Lite, which then runs until the program ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Milvus Lite is imported by what setuptools has deprecated
        try:
            import pymilvus  # noqa: F401

            if address.file is not None:
                import milvus_lite  # noqa: F401
        except ImportError as error:
            missing = error.name or "pymilvus"
            raise ValueError(
                f"index is {address.shown!r}, which needs {missing}: pip install 'lbhash[milvus]'"
            ) from None
        # It logs a traceback of every error that it raises, and Milvus Lite logs to the root.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL + 1)
        root = logging.getLogger()
        root.addFilter(_nothing)
        try:
            with _line_of(address):
                return _client(address)
        finally:
            root.removeFilter(_nothing)


def _client(address: Address) -> MilvusClient:
    """A client. Milvus Lite is taken to be there half a second after its start, and on a busy machine takes longer."""
    import pymilvus

    until = time.monotonic() + START_SECONDS
    while True:
        try:
            return pymilvus.MilvusClient(
                address.uri, token=address.token, db_name=address.database, timeout=CONNECT_SECONDS
            )
        except pymilvus.MilvusException as error:
            unready = address.file is not None and error.code == pymilvus.Status.CONNECT_FAILED
            if not unready or time.monotonic() > until:
                raise
            time.sleep(0.2)


def _nothing(record: logging.LogRecord) -> bool:
    return False


@contextmanager
def _line_of(address: Address) -> Iterator[None]:
    """Turn what Milvus and its client raise into a ``ConnectionError`` of one line, which tells no secret."""
    import grpc
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except (MilvusException, grpc.RpcError, grpc.FutureTimeoutError) as error:
        message = getattr(error, "message", "") or str(getattr(error, "details", lambda: "")() or "it does not answer")
        line = " ".join(str(message).split()).removesuffix(": ")
        if address.token:
            line = line.replace(address.token, "…")
        raise ConnectionError(errno.EIO, f"Milvus says: {line}", address.shown) from None


def _change(what: str, ids: npt.NDArray[np.int64]) -> dict[str, Any] | None:
    """What there is to know of a change, so that it is known again."""
    if not len(ids):
        return None
    digest = sha256(np.sort(ids).tobytes()).hexdigest()
    return {"what": what, "codes": len(ids), "lowest": int(ids.min()), "largest": int(ids.max()), "ids": digest}


def _told(change: Mapping[str, Any]) -> str:
    verb = "an add" if change["what"] == "add" else "a removal"
    return f"{verb} of {change['codes']:,} codes (ids {change['lowest']} to {change['largest']})"


def _batches(ids: npt.NDArray[np.int64]) -> Iterator[list[int]]:
    for start in range(0, len(ids), BATCH_ROWS):
        yield ids[start : start + BATCH_ROWS].tolist()


def _halves(low: int, high: int, hits: _Hits) -> list[tuple[int, int]]:
    """A range of ids in two, each with half of what was found in it; the lower one last."""
    middle = int(np.sort(hits[1])[len(hits[1]) // 2 - 1])
    return [(middle + 1, high), (low, middle)]


def _joined(parts: Sequence[_Hits]) -> _Hits:
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _first(distances: npt.NDArray[np.int32], ids: npt.NDArray[np.int64], k: int) -> _Hits:
    """The first k by distance, then id."""
    best = scan.ranked(distances[None], ids[None], k)
    return best.distances[0], best.ids[0]
