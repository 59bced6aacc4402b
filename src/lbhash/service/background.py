"""Computes what the page shows of the whole index, beside the requests, and again when the index changes."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from lbhash.codes import unpack
from lbhash.index import Index
from lbhash.service import projection
from lbhash.service.engine import Engine, attributes_of
from lbhash.service.schemas import Map, Summary
from lbhash.service.summary import MAX_BASE, MAX_QUERIES, Evidence, summarize
from lbhash.service.workers import Worker, WorkerError

_SECONDS = 900.0  # the limit of one task
_NICE = 10

log = logging.getLogger("lbhash.service")


class Background:
    """Computes ``summary`` and ``map`` of the engine's index, in a thread that waits for child processes."""

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
        """Begin with the index as it is."""
        self._changed.set()
        self._thread.start()

    def renew(self) -> None:
        """Compute all of it again, because the index has changed."""
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
            for name in ("map", "summary", "better map"):
                if self._stopped or self._changed.is_set():
                    break
                try:
                    if name == "map":
                        self.map = self._project(index)
                    elif name == "summary":
                        self.summary = self._sum_up(index)
                    elif self.map.pending:
                        self.map = self._improved(self.map, index)
                except Exception as error:
                    if self._stopped:
                        return
                    log.warning("the %s of generation %d failed: %s", name, index.generation, error)
                    self._fail(name, index.generation, error)

    def _fail(self, name: str, generation: int, error: Exception) -> None:
        if name == "map":
            self.map = Map(state="failed", generation=generation, pending=False)
        elif name == "summary":
            note = str(error) if isinstance(error, (ValueError, WorkerError)) else type(error).__name__
            self.summary = Summary(state="failed", generation=generation, notes=[note])
        else:
            self.map = self.map.model_copy(update={"pending": False})

    def _project(self, index: Index) -> Map:
        """Return a first map of a sample of the codes, by principal components."""
        ids = _sample(index.ids(), projection.POINTS, "codes", [])
        attributes = attributes_of(index, ids)
        few = len(ids) < 3
        plane = np.zeros((len(ids), 2)) if few else projection.principal(_signs(index, ids))
        return Map(
            state="ready",
            generation=index.generation,
            kind="pca",
            pending=not few,
            ids=ids.tolist(),
            rows=[self._engine.row_of(name, row) for name, row in zip(ids.tolist(), attributes, strict=True)],
            labels=[row.get(index.label) for row in attributes],
            **_axes(plane),
        )

    def _improved(self, plane: Map, index: Index) -> Map:
        """Return the same map by t-SNE, which takes longer and separates the classes better."""
        data = self._compute(projection.neighborly, _signs(index, np.array(plane.ids, np.int64)))
        axes = _axes(np.frombuffer(data, np.float32).reshape(-1, 2).astype(np.float64))
        return plane.model_copy(update={"kind": "tsne", "pending": False, **axes})

    def _sum_up(self, index: Index) -> Summary:
        """Return the numbers that labels and queries allow, with notes on what is missing."""
        notes: list[str] = []
        evidence, numbers = _labeled(index, notes), {}
        if evidence is not None:
            try:
                codes, labels = _queries(self._engine, index, notes)
                evidence = replace(evidence, query_codes=codes, query_labels=labels)
            except ValueError as error:
                notes.append(f"no mAP: {error}")
            numbers = json.loads(self._compute(summarize, evidence))
        return Summary(state="ready", generation=index.generation, notes=notes, **numbers)

    def _compute(self, function: Callable[[Any], bytes], argument: Any) -> bytes:
        """Return ``function(argument)``, computed in a child process that ``close`` can end."""
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


def _labeled(index: Index, notes: list[str]) -> Evidence | None:
    """Return a sample of the codes with a label, or None if there are none."""
    ids = _sample(index.ids(), MAX_BASE, "codes", notes)
    labels = index.attributes_of(ids)[index.label].to_pylist() if index.label else [None] * len(ids)
    known = np.array([label is not None for label in labels], bool)
    if not known.any():
        notes[:] = ["no code of the index has a label, so there is nothing to evaluate the codes with"]
        return None
    if not known.all():
        notes.append(f"{int((~known).sum()):,} codes without a label are left out")
    return Evidence(index.codes_of(ids[known]), [label for label in labels if label is not None], index.bits)


def _queries(engine: Engine, index: Index, notes: list[str]) -> tuple[Any, list[Any]]:
    """Return codes and labels of a sample of the data's queries that the index does not hold.

    Raises:
        ValueError: there are no such queries; the message says why.
    """
    rows = engine.rows
    if rows is None:
        raise ValueError("the service has no data to take queries from")
    if rows.labels is None:
        raise ValueError("the data have no labels")
    queries = np.setdiff1d(engine.query_rows(), _rows_of(index))
    if not len(queries):
        raise ValueError("the index holds every query of the data")
    sampled = _sample(queries, MAX_QUERIES, "queries", notes)
    codes = engine.encode_rows(sampled)
    if codes is None:
        raise ValueError("the data have no embeddings")
    labels = rows.labels[sampled]
    return codes, labels.tolist() if labels.ndim == 1 else [np.flatnonzero(row).tolist() for row in labels]


def _rows_of(index: Index) -> Any:
    """Return the rows of the data that the index holds; without a column ``row``, the ids are the rows."""
    ids = index.ids()
    table = index.attributes_of(ids)
    rows = table["row"].to_pylist() if "row" in table.column_names else ids.tolist()
    return np.array([row for row in rows if isinstance(row, int)], np.int64)


def _signs(index: Index, ids: Any) -> Any:
    return unpack(index.codes_of(ids), index.bits)


def _axes(plane: Any) -> dict[str, list[float]]:
    return {"x": plane[:, 0].round(4).tolist(), "y": plane[:, 1].round(4).tolist()}


def _sample(values: Any, size: int, name: str, notes: list[str]) -> Any:
    """Return at most ``size`` of the values, the same sample at every start; note it if some are left out."""
    if len(values) <= size:
        return values
    notes.append(f"{size:,} of {len(values):,} {name} were sampled")
    return np.sort(np.random.default_rng(0).choice(values, size, replace=False))
