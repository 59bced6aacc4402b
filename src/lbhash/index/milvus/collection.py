"""An index in a Milvus collection, for more codes than one machine can hold; or in a file of Milvus Lite.

Each code is a row. Its id is the primary key (for a text id, the hash; the text is in the metadata). Its bits are a
``BINARY_VECTOR`` compared by HAMMING, and its metadata are JSON. Fixed settings (bits, model, options) are in the
collection's description. Changing ones (the generation, the number of codes, the metadata's types) are in a row with
the id −2^63 + 1, which no code can have.

A search in Milvus returns at most 16,384 codes; at the last distance it returns those that it met first. In a flat
index, ``BIN_FLAT`` is therefore asked again for each distance whose codes may be incomplete.

Milvus has no transactions. A change first records what it will do; after an interruption, repeating the change
completes it. Only one writer is allowed at a time. A second writer gets an error at the end of its change, but not
always.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.codes import PackedCodes, check_bits, check_codes, check_width, code_bytes
from lbhash.codes.io import CodeTable
from lbhash.index import scan
from lbhash.index.base import HIGH, BaseIndex, Columns, Rows, State, check_options
from lbhash.index.ids import ID, Ids, Names, TakenIdError, UnknownIdError, check_ids, numbers_of
from lbhash.index.metadata import as_table, schema_from_text, schema_to_text
from lbhash.index.milvus.address import Address, parse_address
from lbhash.index.milvus.connection import KINDS, SECONDS, connect, connection_errors, create_collection, read_settings
from lbhash.index.milvus.fields import FIELD, both, check_schema, expression, to_rows, to_table
from lbhash.index.results import Neighbors, Within
from lbhash.index.scan import Hits
from lbhash.index.store import Index
from lbhash.index.where import Filter
from lbhash.utils.progress import counted
from lbhash.utils.validation import refusing

LIMIT = 16_384
"""The largest number of rows that Milvus returns for a query."""
MARGIN = 32
"""Codes requested beyond k, so that most ties are complete after one request."""
BATCH_ROWS = 8_192
"""Rows per request: exactly for looking up ids, at most for inserting codes."""
BATCH_BYTES = 8 << 20
"""Bytes of codes and metadata per insert request; Milvus accepts 64 MiB."""
ANSWERS = 1 << 19
"""Number of neighbors per request, summed over its queries."""

_STATE_ID = -(2**63) + 1  # Milvus cannot filter by the integer below it
_STATE = "lbhash"
_LEAST, _LARGEST = _STATE_ID + 1, 2**63 - 1
_CODES = f"id >= {_LEAST}"


@dataclass(frozen=True)
class MilvusState(State):
    """The state of a collection, with the number of its codes and an unfinished change (``_change``), if any."""

    count: int = 0
    unfinished: dict[str, Any] | None = None


class MilvusIndex(BaseIndex):
    """An index in a Milvus collection, whose description holds the settings (``Index.open``, ``build_index``)."""

    kind = "milvus"
    vectors = ""

    def __init__(self, address: Address, client: Any, settings: Mapping[str, Any], progress: bool = False) -> None:
        self.address, self.progress = address, progress
        self.bits, self.model, self.options = settings["bits"], settings["model"], dict(settings["options"])
        self._search_type = KINDS[settings["kind"]][0]
        self._client, self._state = client, MilvusState()

    @property
    def state(self) -> MilvusState:
        """The state that was read last, on opening or by a change."""
        return self._state

    def __len__(self) -> int:
        return self.state.count

    def ids(self) -> Names:
        """Return all ids, ``[len]``. Milvus sends each id as a separate row, which is slow for a billion."""
        return self._named(np.sort(np.array([row["id"] for rows in self._all(["id"]) for row in rows], np.int64)))

    def info(self) -> dict[str, Any]:
        """Return the facts about the index and its collection."""
        collection = {"collection": self.address.collection, "search": self._search_type}
        return super().info() | collection | {"unfinished": self.state.unfinished}

    def outdated(self) -> bool:
        """Return whether the collection has been changed or built again since it was read."""
        return self._read_state().identity != self.state.identity

    def verify(self) -> None:
        """Raise ``ValueError`` unless the number of codes is right, all codes are valid, and all ids differ."""
        state, names = self._refreshed(), []
        damage = "" if state.unfinished is None else f"{_described(state)} was cut short; repeat it"
        for rows in self._all(["id", "code"]):
            names += [row["id"] for row in rows]
            content = np.frombuffer(b"".join(row["code"][0] for row in rows), np.uint8)
            with refusing("index is damaged", ValueError):
                self.check(content.reshape(len(rows), -1))
        if len(names) != state.count:
            damage = damage or f"the collection has {len(names)} codes and not {state.count}"
        if len(set(names)) < len(names):
            damage = damage or "two codes have the same id"
        if damage:
            raise ValueError(f"index is damaged: {damage}")

    def _add(self, rows: Rows, *, upsert: bool = False) -> Names:
        # Searches find each batch as soon as it is sent. Repeating an interrupted add completes it.
        codes, ids, metadata, vectors = rows
        if vectors is not None:
            raise ValueError("vectors are given, and Milvus stores none; an index in a folder can")
        state = self._refreshed()
        names = state.new_ids(ids, len(codes))
        if upsert and (there := self._present(numbers_of(names))).size:
            as_table(metadata, names, state)  # before anything is removed
            self._remove(there)
            state = self._refreshed()
        table = as_table(metadata, names, state)
        check_schema(table.schema)
        if not len(codes):
            return names
        numbers = numbers_of(names)
        if (least := int(numbers.min())) < _LEAST:
            raise ValueError(f"ids holds {least}; in Milvus an integer must be at least {_LEAST}")
        change, repeated = _change(state, "add", numbers)
        if not repeated and (there := self._present(numbers[(numbers < state.next_id) | (numbers >= HIGH)])).size:
            raise TakenIdError(names[numbers == there[0]].tolist()[0])
        next_id = state.next_after(numbers)
        begun = replace(state, next_id=next_id, schema=state.schema or table.schema, unfinished=change)
        self._write_state(begun)
        try:
            self._insert(codes, numbers, table)
        except BaseException:
            if not repeated:  # the old rows are untouched: undo
                with suppress(Exception):
                    self._delete(numbers)
                    self._write_state(state)
            raise
        self._commit(begun)
        return names

    def _remove(self, ids: Ids) -> None:
        state = self._refreshed()
        change, repeated = _change(state, "remove", ids)
        if not repeated and (missing := np.setdiff1d(ids, self._present(ids))).size:
            raise UnknownIdError(int(missing[0]))
        if len(ids):
            begun = replace(state, unfinished=change)
            self._write_state(begun)
            self._delete(ids)
            self._commit(begun)

    def save(self, path: str | Path) -> None:
        """Write a copy to a folder as a flat index, which does not need Milvus."""
        copied = Index(self.bits, model=self.model)
        if len(self):
            ids = self.ids()
            copied.add(self.codes_of(ids), ids, self.metadata_of(ids).drop_columns(["id"]))
        copied.save(path)

    def _search(self, queries: PackedCodes, k: int, where: Filter) -> Neighbors:
        filtered = expression(where, self.state.schema)
        if filtered is None or not len(queries):
            return Neighbors(np.empty((len(queries), 0), np.int32), np.empty((len(queries), 0), np.int64))
        exact = not self.options or bool(filtered) or k > LIMIT - MARGIN
        asked = min(k + MARGIN, LIMIT)
        found = self._ask(queries, asked, filtered, exhaustive=exact)
        if exact:
            self._complete(queries, found, k, asked, filtered)
        else:
            few = [row for row, (_, ids) in enumerate(found) if len(ids) < min(k, len(self))]
            for row, hits in zip(few, self._ask(queries[few], asked, filtered, exhaustive=True), strict=True):
                found[row] = hits
        best = _ordered(found)
        width = min(k, np.diff(best.limits).min())  # less than k if too few codes pass, or a writer removes some
        places = best.limits[:-1, None] + np.arange(width)
        return Neighbors(best.distances[places], self._named(best.ids[places]))

    def _range_search(self, queries: PackedCodes, radius: int, where: Filter) -> Within:
        filtered = expression(where, self.state.schema)
        if filtered is None:
            return scan.merge_within([], len(queries))
        found = _ordered(list(self._rings(queries, 0, radius, filtered)))
        return found._replace(ids=self._named(found.ids))

    def _complete(self, queries: PackedCodes, found: list[Hits], k: int, asked: int, filtered: str) -> None:
        """Complete the ties, so that the first k of each query have the lowest ids among equally distant codes."""
        pending: dict[int, list[int]] = {}  # queries by the distance whose codes may be incomplete
        for row, (distances, ids) in enumerate(found):
            if len(ids) < asked - 1:  # all codes were returned; one row may be the state
                continue
            last = int(distances[-1])
            nearer = distances < last
            if nearer.sum() < k:
                found[row] = distances[nearer], ids[nearer]
                pending.setdefault(last, []).append(row)
        for last, rows in pending.items():
            for distance in range(last, self.bits + 1):  # a second round only if k exceeds Milvus's limit
                rows = [row for row in rows if len(found[row][1]) < k]
                if not rows:
                    break
                wanted = k - min(len(found[row][1]) for row in rows)
                rings = self._rings(queries[rows], distance, distance, filtered, wanted)
                for row, hits in zip(rows, rings, strict=True):
                    found[row] = scan.joined([found[row], hits])

    def _rings(
        self, queries: PackedCodes, inner: int, outer: int, filtered: str, wanted: int | None = None
    ) -> Iterator[Hits]:
        """Yield each query's codes at ``inner`` to ``outer`` bits: all, or at least the ``wanted`` lowest ids."""
        ring = {"radius": outer + 1, "range_filter": inner}  # first distance that is too far, smallest allowed
        codes_only = both([filtered, _CODES])
        for row, hits in enumerate(self._ask(queries, LIMIT, codes_only, exhaustive=True, ring=ring)):
            yield hits if len(hits[1]) < LIMIT else self._by_ids(queries[[row]], ring, filtered, hits, wanted)

    def _by_ids(self, query: PackedCodes, ring: dict[str, int], filtered: str, cut: Hits, wanted: int | None) -> Hits:
        """Return the codes of a ring that exceeds Milvus's limit: halve the ranges of ids until each answer fits."""
        parts, count = [], 0
        ranges = _halves(_LEAST, _LARGEST, cut)
        while ranges and (wanted is None or count < wanted):
            low, high = ranges.pop()
            term = both([filtered, f"id >= {low}", f"id <= {high}"])
            (hits,) = self._ask(query, LIMIT, term, exhaustive=True, ring=ring)
            if len(hits[1]) < LIMIT:
                parts.append(hits)
                count += len(hits[1])
            else:
                ranges += _halves(low, high, hits)
        return scan.joined(parts)

    def _ask(
        self, queries: PackedCodes, limit: int, filtered: str, *, exhaustive: bool, ring: dict[str, int] | None = None
    ) -> list[Hits]:
        """Return Milvus's answer to each query, ordered by distance, without the state's row."""
        params = dict(ring or {})
        if self.options:
            lists = self.options["nlist"]
            params["nprobe"] = lists if exhaustive else min(self.options["nprobe"], lists)
        size = max(1, min(ANSWERS // limit, LIMIT))
        answers: list[Hits] = []
        for start in range(0, len(queries), size):
            data = [query.tobytes() for query in queries[start : start + size]]
            asked = {"metric_type": "HAMMING", "params": params}
            found = self._call(
                "search", data=data, anns_field="code", limit=limit, filter=filtered, search_params=asked
            )
            for hits in found:
                ids = np.array([hit["id"] for hit in hits], np.int64)
                distances = np.rint(np.array([hit["distance"] for hit in hits], np.float64)).astype(np.int32)
                answers.append((distances[ids != _STATE_ID], ids[ids != _STATE_ID]))
        return answers

    def _codes_of(self, ids: Ids) -> PackedCodes:
        content = b"".join(row["code"][0] for row in self._rows_of(ids, "code"))
        return np.frombuffer(content, np.uint8).reshape(-1, code_bytes(self.bits)).copy()

    def _metadata_of(self, ids: Ids, columns: Sequence[str] | None) -> pa.Table | None:
        schema, rows = self.state.schema, self._rows_of(ids, FIELD)
        if schema is None or not schema.names:
            return None
        table = to_table([row[FIELD] for row in rows], schema)
        return table if columns is None else table.select(columns)

    def _call(self, name: str, **arguments: Any) -> Any:
        """Call a method of the client for this collection."""
        with connection_errors(self.address):
            method: Callable[..., Any] = getattr(self._client, name)
            return method(collection_name=self.address.collection, timeout=SECONDS, **arguments)

    def _rows_at(self, ids: Ids, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield a row for each of these ids that the collection has."""
        for batch in _batches(ids[ids != _STATE_ID]):
            yield from self._call("query", ids=batch, output_fields=["id", *columns])

    def _rows_of(self, ids: Ids, column: str) -> list[dict[str, Any]]:
        """Return a row of the collection for each id, with one column."""
        rows = {row["id"]: row for row in self._rows_at(np.unique(ids), [column])}
        if missing := [name for name in ids.tolist() if name not in rows]:
            raise UnknownIdError(missing[0])
        return [rows[name] for name in ids.tolist()]

    def _named(self, numbers: Ids) -> Names:
        """Return ids as users know them, in the shape of their numbers."""
        if not self.state.texts:
            return numbers
        names = [row[FIELD][ID] for row in self._rows_of(numbers.ravel(), FIELD)]
        return np.array([*names, None], object)[:-1].reshape(numbers.shape)

    def _present(self, ids: Ids) -> npt.NDArray[np.int64]:
        """Return the ids that the collection has, increasing."""
        return np.sort(np.array([row["id"] for row in self._rows_at(ids, [])], np.int64))

    def _all(self, columns: Sequence[str]) -> Iterator[list[Any]]:
        """Yield the rows of all codes in batches."""
        iterator = self._call("query_iterator", batch_size=BATCH_ROWS, filter=_CODES, output_fields=columns)
        with connection_errors(self.address):
            while rows := iterator.next():
                yield rows
            iterator.close()

    def _insert(self, codes: PackedCodes, ids: Ids, table: pa.Table) -> None:
        # Upsert replaces rows of an interrupted change; an insert would duplicate their ids.
        width = codes.shape[1] + 8 + math.ceil(table.nbytes / len(codes))
        size = max(1, min(BATCH_ROWS, BATCH_BYTES // width))
        with counted("inserting", len(codes), "codes", show=self.progress) as advance:
            for start in range(0, len(codes), size):
                here = slice(start, start + size)
                fields = to_rows(table.slice(start, size)) if table.column_names else [{}] * len(codes[here])
                data = [
                    {"id": name, "code": code.tobytes(), FIELD: row}
                    for name, code, row in zip(ids[here].tolist(), codes[here], fields, strict=True)
                ]
                self._call("upsert", data=data)
                advance(len(data))

    def _delete(self, ids: Ids) -> None:
        for batch in _batches(ids):
            self._call("delete", ids=batch)

    def _refreshed(self) -> MilvusState:
        self._state = self._read_state()
        return self._state

    def _read_state(self) -> MilvusState:
        rows = self._call("query", ids=[_STATE_ID], output_fields=[FIELD])
        state = rows[0][FIELD].get(_STATE) if rows else None
        if state is None:
            raise ValueError(
                f"path is {self.address.shown!r}, which was never finished; build it again with overwrite=True"
            )
        return MilvusState(**state | {"schema": schema_from_text(state["schema"])})

    def _write_state(self, state: MilvusState) -> None:
        content = {field.name: getattr(state, field.name) for field in fields(state)}
        content["schema"] = schema_to_text(state.schema)
        row = {"id": _STATE_ID, "code": bytes(code_bytes(self.bits)), FIELD: {_STATE: content}}
        self._call("upsert", data=[row])

    def _commit(self, begun: MilvusState) -> None:
        """End a change: raise the generation, update the number of codes, and clear the unfinished change."""
        if self._read_state() != begun:
            rule = "only one writer is allowed at a time ('lbhash index verify' finds the damage)"
            raise ValueError(f"index is {self.address.shown!r}, which another writer has changed meanwhile; {rule}")
        count = int(self._call("query", filter="", output_fields=["count(*)"])[0]["count(*)"]) - 1
        self._write_state(replace(begun, generation=begun.generation + 1, count=count, unfinished=None))
        self._refreshed()


def open_milvus(path: str, *, progress: bool = False) -> MilvusIndex:
    """Open a collection that holds an index (``Index.open``)."""
    address = parse_address(path)
    if address.file is not None and not address.file.is_file():
        raise ValueError(f"path is {address.shown!r}, and there is no such file")
    client = connect(address)
    settings = read_settings(client, address)
    if settings is None:
        raise ValueError(f"path is {address.shown!r}, and there is no such collection")
    with connection_errors(address):
        client.load_collection(address.collection, timeout=SECONDS)
    index = MilvusIndex(address, client, settings, progress)
    index._refreshed()
    return index


def build_milvus(
    path: str,
    table: CodeTable,
    kind: str,
    ids: npt.ArrayLike,
    metadata: Columns,
    options: Mapping[str, Any] | None,
    *,
    overwrite: bool,
    progress: bool,
) -> MilvusIndex:
    """Make a collection of codes, and return it opened (``build_index``); searches miss codes until it returns."""
    address = parse_address(path)
    chosen = check_options(options, KINDS[kind][1], kind)
    if address.file is not None and kind != "flat":
        raise ValueError(f"kind is {kind!r}; a file of Milvus Lite has flat only")
    check_width(check_codes(table.codes), check_bits(table.bits))
    names = check_ids(ids, len(table.codes))
    check_schema(as_table(metadata, names, MilvusState()).schema)
    if address.file is not None and not address.file.resolve().parent.is_dir():
        raise ValueError(f"path is {address.shown!r}, and there is no such folder")
    client = connect(address)
    if read_settings(client, address) is not None:
        if not overwrite:
            what = "which already holds an index; give another, or overwrite=True"
            raise ValueError(f"path is {address.shown!r}, {what}")
        with connection_errors(address):
            client.drop_collection(address.collection, timeout=SECONDS)
    settings = {"bits": table.bits, "model": table.model, "kind": kind, "options": chosen}
    create_collection(client, address, settings)
    index = MilvusIndex(address, client, settings, progress)
    try:
        index._write_state(MilvusState(uuid.uuid4().hex, generation=0 if len(names) else 1))
        index._refreshed()
        index.add(table.codes, names, metadata)
    except BaseException:
        with suppress(Exception):
            client.drop_collection(address.collection, timeout=SECONDS)
        raise
    return index


def _change(state: MilvusState, what: str, ids: Ids) -> tuple[dict[str, Any] | None, bool]:
    """Return a description that identifies a change, and whether it repeats an unfinished one."""
    change = None
    if len(ids):
        digest = sha256(np.sort(ids).tobytes()).hexdigest()
        change = {"what": what, "codes": len(ids), "lowest": int(ids.min()), "largest": int(ids.max()), "ids": digest}
    if state.unfinished not in (None, change):
        raise ValueError(f"index has {_described(state)} that was cut short; repeat it before anything else")
    return change, state.unfinished is not None


def _described(state: MilvusState) -> str:
    change = state.unfinished or {}
    verb = "an add" if change["what"] == "add" else "a removal"
    which = "" if state.texts else f" (ids {change['lowest']} to {change['largest']})"
    return f"{verb} of {change['codes']:,} codes{which}"


def _batches(ids: Ids) -> Iterator[list[int]]:
    for start in range(0, len(ids), BATCH_ROWS):
        yield ids[start : start + BATCH_ROWS].tolist()


def _halves(low: int, high: int, hits: Hits) -> list[tuple[int, int]]:
    """Split a range of ids so that each part has half of the found codes; the lower part is last."""
    middle = int(np.sort(hits[1])[len(hits[1]) // 2 - 1])
    return [(middle + 1, high), (low, middle)]


def _ordered(found: Sequence[Hits]) -> Within:
    """Return the codes of all queries, ordered by query, distance, then id."""
    return scan.ordered(found, np.repeat(np.arange(len(found)), [len(ids) for _, ids in found]), len(found))
