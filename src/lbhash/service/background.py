"""Compute the page's summary and map of the index in the background, again after each change."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from lbhash.codes import unpack
from lbhash.data import load_dataset
from lbhash.data.origin import ROW
from lbhash.index.base import BaseIndex, describe_items
from lbhash.service.engine import Engine
from lbhash.service.rows import TextRows
from lbhash.service.schemas import Map, Summary, Trained
from lbhash.service.summary import MAX_BASE, MAX_QUERIES, POINTS, Evidence, neighborly, principal, summarize
from lbhash.service.workers import Worker, WorkerError
from lbhash.utils.labels import label_value
from lbhash.utils.serialization import json_values

_FAILED = "the %s of generation %d failed: %s"

log = logging.getLogger("lbhash.service")


class Background:
    """Computes ``summary`` and ``map`` of the engine's index, again whenever ``changed`` is set."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self.changed = engine, asyncio.Event()
        self.summary = Summary(state="computing", generation=engine.index.generation)
        self.map = Map(state="computing", generation=engine.index.generation, pending=True)

    async def run(self) -> None:
        """Compute everything, and again after each change, until the task is cancelled."""
        while True:
            self.changed.clear()
            index = self._engine.index
            for step in (self._project, self._sum_up, self._improve):
                if not self.changed.is_set():
                    await step(index)
            await self.changed.wait()

    async def _project(self, index: BaseIndex) -> None:
        """Make a first map of a sample of the codes, by principal components."""
        try:
            self.map = await asyncio.to_thread(_first_map, self._engine, index)
        except Exception as error:
            log.warning(_FAILED, "map", index.generation, error)
            self.map = Map(state="failed", generation=index.generation, pending=False)

    async def _sum_up(self, index: BaseIndex) -> None:
        """Compute the measures for which labels and queries exist, and note what is missing."""
        notes: list[str] = []
        try:
            evidence = await asyncio.to_thread(_evidence, self._engine, index, notes)
            numbers = {} if evidence is None else json.loads(await _compute(summarize, evidence))
            trained, by_class = _report(self._engine.settings.model)
            for row in numbers.get("classes", ()) if evidence is not None and evidence.query_codes is None else ():
                row["map"] = by_class.get(row["label"])
            self.summary = Summary(state="ready", generation=index.generation, notes=notes, trained=trained, **numbers)
        except Exception as error:
            log.warning(_FAILED, "summary", index.generation, error)
            note = str(error) if isinstance(error, (ValueError, WorkerError)) else type(error).__name__
            self.summary = Summary(state="failed", generation=index.generation, notes=[note])

    async def _improve(self, index: BaseIndex) -> None:
        """Replace the map by t-SNE, which takes longer and separates the classes better."""
        if not self.map.pending:
            return
        better: dict[str, Any] = {"pending": False}
        try:
            signs = unpack(await asyncio.to_thread(index.codes_of, self.map.ids), index.bits)
            plane = np.frombuffer(await _compute(neighborly, signs), np.float32).reshape(-1, 2)
            better |= {"kind": "tsne", **_axes(plane)}
        except Exception as error:
            log.warning(_FAILED, "better map", index.generation, error)
        self.map = self.map.model_copy(update=better)


async def _compute(function: Callable[[Any], bytes], argument: Any) -> bytes:
    """Return ``function(argument)``, computed in a child process that ends if the task is cancelled."""
    worker = Worker(function, nice=10)
    try:
        return bytes(await asyncio.to_thread(worker.ask, argument, 900.0))
    finally:
        worker.kill()


def _first_map(engine: Engine, index: BaseIndex) -> Map:
    ids = _sample(index.ids(), POINTS, "codes", [])
    metadata = [item["metadata"] for item in describe_items(index, ids)]
    few = len(ids) < 3
    return Map(
        state="ready",
        generation=index.generation,
        kind="pca",
        pending=not few and find_spec("sklearn") is not None,  # for t-SNE
        ids=ids.tolist(),
        images=[engine.has_image(index, row) for row in metadata],
        labels=[row.get(index.label) for row in metadata],
        **_axes(np.zeros((len(ids), 2)) if few else principal(unpack(index.codes_of(ids), index.bits))),
    )


def _evidence(engine: Engine, index: BaseIndex, notes: list[str]) -> Evidence | None:
    """Return a sample of the labeled codes and of the queries; None if no code has a label."""
    ids = _sample(index.ids(), MAX_BASE, "codes", notes)
    labels = json_values(index.metadata_of(ids, [index.label])[index.label]) if index.label else [None] * len(ids)
    known = np.array([label is not None for label in labels], bool)
    if not known.any():
        notes[:] = ["no code of the index has a label, so there is nothing to evaluate the codes with"]
        return None
    if not known.all():
        notes.append(f"{int((~known).sum()):,} codes without a label are left out")
    evidence = Evidence(index.codes_of(ids[known]), [label for label in labels if label is not None], index.bits)
    try:
        codes, query_labels, searched = _queries(engine, index, ids[known], notes)
    except ValueError as error:
        notes.append(f"no mAP: {error}")
        return evidence
    return evidence._replace(query_codes=codes, query_labels=query_labels, searched=searched)


def _report(model: str | Path) -> tuple[Trained | None, dict[Any, float]]:
    """Read a model's training report (its figures and those of alternatives to codes) and the mAP of each class.

    If the file is missing or has another form, return None and no classes: the page must still load.
    """
    try:
        found = json.loads((Path(model) / "metrics.json").read_text(encoding="utf-8"))
        parts = {"new rows": found.get("new_rows"), "rows that were trained on": found.get("trained_rows")}
        searched = [{"name": name} | figures for name, figures in parts.items() if figures]
        trained = Trained(searched=searched, stored=(found.get("alternatives") or {}).get("rows", []))
        return trained, {one["class"]: float(one["map"]) for one in found.get("classes", ()) if one["map"] is not None}
    except (OSError, AttributeError, LookupError, TypeError, ValueError):
        return None, {}


def _queries(engine: Engine, index: BaseIndex, ids: Any, notes: list[str]) -> tuple[Any, list[Any], Any]:
    """Return codes and labels of some queries, and a mask of the ids to search: new rows only, if there are any.

    Raises:
        ValueError: there are no queries, or nothing to search besides queries.
    """
    about, data = engine.model.metadata, engine.settings.data
    if data is None:
        raise ValueError("the service has no data to take queries from")
    if engine.rows is not None and engine.rows.embeddings is None:
        what = "texts" if isinstance(engine.rows, TextRows) else "images"
        raise ValueError(f"the data are {what}, and their queries are not embedded for the page")
    if about.get("protocol") == "files":
        raise ValueError("the model was trained on separate files, and the data are only one of them")
    if line := engine.why_no_rows(index):
        raise ValueError(line)
    protocol = None if about.get("protocol") == "flags" else about.get("protocol")
    dataset = load_dataset(data, protocol=protocol, seed=about.get("split_seed", 0), damaged="skip")
    if protocol is None and dataset.protocol != "flags":
        raise ValueError("neither the model nor the data say which rows are queries")
    query = dataset.query
    if query.labels is None:
        raise ValueError("the data have no labels")
    rows = np.array([row if isinstance(row, int) else -1 for row in json_values(index.metadata_of(ids, [ROW])[ROW])])
    searched = ~np.isin(rows, query.rows)
    new = searched & ~np.isin(rows, dataset.train.rows)
    if not searched.any():
        raise ValueError("the index holds only the queries of the data")
    if not new.any():
        notes.append("every row that is searched was trained on, so that mAP says nothing of new rows")
    elif not new.all():
        notes.append(f"mAP and what else is of queries: in {int(new.sum()):,} new rows, which were not trained on")
    sampled = _sample(np.arange(len(query)), MAX_QUERIES, "queries", notes)
    labels = [label_value(label, dataset.class_names) for label in query.labels[sampled]]
    return engine.model.encode(query.take(sampled)), labels, new if new.any() else searched


def _axes(plane: Any) -> dict[str, list[float]]:
    x, y = plane.T.astype(np.float64).round(4).tolist()
    return {"x": x, "y": y}


def _sample(values: Any, size: int, name: str, notes: list[str]) -> Any:
    """Return at most ``size`` values, the same sample at every start; add a note if some are left out."""
    if len(values) <= size:
        return values
    notes.append(f"{size:,} of {len(values):,} {name} were sampled")
    return np.sort(np.random.default_rng(0).choice(values, size, replace=False))
