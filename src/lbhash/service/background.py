"""What the page shows of the whole index, computed beside the requests and again when the index changes."""

from __future__ import annotations

import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.codes import unpack
from lbhash.service import projection as codemap
from lbhash.service import summary
from lbhash.service.engine import Engine, attributes_of
from lbhash.service.schemas import Map, Summary
from lbhash.service.workers import Worker, WorkerError

if TYPE_CHECKING:
    from lbhash.index import Index

_SECONDS = 900.0  # that one of the tasks may take
_NICE = 10

log = logging.getLogger("lbhash.service")


class Background:
    """Computes ``summary`` and ``map`` of the engine's index, in a thread that waits for child processes.

    Args:
        engine: whose index and data are looked at.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        generation = engine.index.generation
        self.summary = Summary(state="computing", generation=generation)
        self.map = Map(state="computing", generation=generation, pending=True)
        self._changed, self._stopped = threading.Event(), False
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="lbhash-background", daemon=True)

    def start(self) -> None:
        """Begin, with the index as it is."""
        self._changed.set()
        self._thread.start()

    def renew(self) -> None:
        """Compute again: the index has changed."""
        self._changed.set()

    def close(self) -> None:
        """End the thread and its child process."""
        with self._lock:
            self._stopped = True
            if self._worker is not None:
                self._worker.kill()
        self._changed.set()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            if self._stopped:
                return
            index = self._engine.index
            for task in (self._draw, self._sum_up, self._improve):
                if self._stopped or self._changed.is_set():
                    break
                try:
                    task(index)
                except Exception as error:
                    if self._stopped:
                        return
                    log.warning("%s of generation %d failed: %s", task.__name__[1:], index.generation, error)
                    self._failed(task.__name__, index, error)

    def _failed(self, task: str, index: Index, error: Exception) -> None:
        if task == "_sum_up":
            line = str(error) if isinstance(error, (ValueError, WorkerError)) else type(error).__name__
            self.summary = Summary(state="failed", generation=index.generation, notes=[line])
        elif task == "_improve":
            self.map = self.map.model_copy(update={"pending": False})
        else:
            self.map = Map(state="failed", generation=index.generation, pending=False)

    def _draw(self, index: Index) -> None:
        ids = _sample(index.ids(), codemap.POINTS)
        attributes = attributes_of(index, ids)
        few = len(ids) < 3
        plane = np.zeros((len(ids), 2)) if few else codemap.principal(_signs(index, ids))
        self.map = Map(
            state="ready",
            generation=index.generation,
            kind="pca",
            pending=not few,
            ids=ids.tolist(),
            rows=[self._engine.row_of(int(name), row) for name, row in zip(ids, attributes, strict=True)],
            labels=[row.get(index.label) if index.label else None for row in attributes],
            x=plane[:, 0].round(4).tolist(),
            y=plane[:, 1].round(4).tolist(),
        )

    def _improve(self, index: Index) -> None:
        if not self.map.pending:
            return
        data = self._compute(codemap.neighborly, _signs(index, np.array(self.map.ids, np.int64)))
        plane = np.frombuffer(data, np.float32).reshape(-1, 2).astype(np.float64).round(4)
        self.map = self.map.model_copy(
            update={"kind": "tsne", "pending": False, "x": plane[:, 0].tolist(), "y": plane[:, 1].tolist()}
        )

    def _sum_up(self, index: Index) -> None:
        evidence, notes = _evidence(self._engine, index)
        if evidence is None:
            self.summary = Summary(state="ready", generation=index.generation, notes=notes)
            return
        figures: dict[str, Any] = json.loads(self._compute(summary.summarize, evidence))
        self.summary = Summary(state="ready", generation=index.generation, notes=notes, **figures)

    def _compute(self, function: Any, argument: Any) -> bytes:
        with self._lock:
            if self._stopped:
                raise WorkerError("the service is ending")
            self._worker = worker = Worker(function, nice=_NICE)
        try:
            return worker.ask(argument, _SECONDS)
        finally:
            with self._lock:
                self._worker = None
                if not self._stopped:
                    worker.kill()


def _evidence(engine: Engine, index: Index) -> tuple[summary.Evidence | None, list[str]]:
    """What to compute the numbers from, and what to say of it."""
    if not index.label:
        return None, ["the codes of the index have no labels, so that there is nothing to measure them by"]
    notes = []
    ids = _sample(index.ids(), summary.MAX_BASE)
    labels = index.attributes_of(ids)[index.label].to_pylist()
    known = np.array([label is not None for label in labels], bool)
    if not known.any():
        return None, ["no code of the index has a label, so that there is nothing to measure them by"]
    if len(ids) < len(index):
        notes.append(f"of {len(index):,} codes, {len(ids):,} were drawn")
    if not known.all():
        notes.append(f"{int((~known).sum()):,} codes without a label are left out")
    codes, told = index.codes_of(ids[known]), [label for label in labels if label is not None]
    evidence = summary.Evidence(codes, told, index.bits)
    asked, why = _queries(engine, index)
    if asked is None:
        return evidence, [*notes, f"no mAP: {why}"]
    return summary.Evidence(codes, told, index.bits, *asked), notes + ([why] if why else [])


def _queries(engine: Engine, index: Index) -> tuple[tuple[Any, list[Any]] | None, str]:
    """Codes and labels of the data's queries that the index does not hold; or why there are none."""
    rows = engine.rows
    if rows is None:
        return None, "the service has no data to take queries from"
    if rows.labels is None:
        return None, "the data have no labels"
    try:
        queries = engine.query_rows()
    except ValueError as error:
        return None, str(error)
    queries = np.setdiff1d(queries, _rows_of(index))
    if not len(queries):
        return None, "the index holds every query of the data"
    drawn = _sample(queries, summary.MAX_QUERIES)
    codes = engine.encode_rows(drawn)
    if codes is None:
        return None, "the data have no embeddings"
    labels = rows.labels[drawn]
    told = labels.tolist() if labels.ndim == 1 else [np.flatnonzero(row).tolist() for row in labels]
    return (codes, told), f"of {len(queries):,} queries, {len(drawn):,} were drawn" * (len(drawn) < len(queries))


def _rows_of(index: Index) -> Any:
    """The rows of the data that the index holds, as far as it says."""
    ids = index.ids()
    table = index.attributes_of(ids)
    rows = table["row"].to_pylist() if "row" in table.column_names else ids.tolist()
    return np.array([row for row in rows if isinstance(row, int)], np.int64)


def _signs(index: Index, ids: Any) -> Any:
    return unpack(index.codes_of(ids), index.bits)


def _sample(values: Any, size: int) -> Any:
    """At most ``size`` of them, the same at every start."""
    if len(values) <= size:
        return values
    return np.sort(np.random.default_rng(0).choice(values, size, replace=False))
