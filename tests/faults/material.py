"""Small files of every kind that lbhash writes, made once for each attack that asks for them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
from tests.faults.attack import Run
from tests.faults.program import Program

BITS = 16
TRAINING = ("--bits", BITS, "--hidden", 8, "--epochs", 4)
MONITORED = ("--monitor", "ratio")
IDS = np.sort(np.random.default_rng(2).permutation(5000)[:1700])
"""Of the codes in an index, of which some are removed again."""


class Material:
    """Data, and what commands make of it, in a folder that all attacks share."""

    def __init__(self, run: Run) -> None:
        self.folder = run.shared
        self.program = Program(run.shared / "cache")

    @property
    def data(self) -> Path:
        """A folder with the splits of a data set: embeddings of four classes."""
        folder, rng = self.folder / "data", np.random.default_rng(0)
        if folder.exists():
            return folder
        folder.mkdir()
        for name, count in (("train", 128), ("base", 300), ("query", 24)):
            labels = np.arange(count) % 4
            rows = (rng.normal(size=(count, 16)) + 3 * np.eye(16)[labels]).astype(np.float32)
            np.savez(folder / f"{name}.npz", embeddings=rows, labels=labels)
        return folder

    @property
    def model(self) -> Path:
        """A trained model."""
        folder = self.folder / "model"
        if not folder.exists():
            self.program.must("train", self.data, "--out", folder, *TRAINING)
        return folder

    def codes(self, split: str = "base", suffix: str = ".parquet") -> Path:
        """Return a file of codes."""
        file = self.folder / f"{split}{suffix}"
        if not file.exists():
            self.program.must("encode", "--model", self.model, self.data, "--split", split, "--out", file)
        return file

    @property
    def parts(self) -> Path:
        """A folder of codes in four parts."""
        folder = self.folder / "parts"
        if not folder.exists():
            encode = ("encode", "--model", self.model, self.data, "--split", "base")
            self.program.must(*encode, "--out", folder)
        return folder

    def index(self, kind: str = "flat", *, vectors: bool = True) -> Path:
        """Return an index of two segments, with ids that are not consecutive, metadata, vectors and removed codes.

        Those of ``flat`` store equal codes once. Those of ``ivf`` differ, so that they are enough for a structure.
        """
        folder = self.folder / (kind if vectors else f"{kind}-alone")
        if not folder.exists():
            done = self.program.call(_build, str(folder), kind, vectors)
            assert done.status == 0, done.err
        return folder


def _build(folder: str, kind: str, vectors: bool) -> None:
    from lbhash.codes.io import CodeTable
    from lbhash.index.factory import build_index

    rng, ids = np.random.default_rng(1), IDS
    codes = rng.integers(0, 256, (1700, BITS // 8), dtype=np.uint8)
    if kind == "flat":
        codes = codes[rng.integers(0, 400, 1700)]
    stored = rng.integers(0, 9, (1700, 3)).astype(np.uint8)
    first, rest = slice(0, 1500), slice(1500, None)
    table = CodeTable(codes[first], BITS, np.arange(1500), rng.integers(0, 3, 1500))
    more = {"vectors": stored[first], "store": "embeddings"} if vectors else {}
    index = build_index(table, folder, kind, ids=ids[first], **more)
    columns = {"row": np.arange(1500, 1700), "label": rng.integers(0, 3, 200)}
    index.add(codes[rest], ids[rest], columns, vectors=stored[rest] if vectors else None)
    index.remove(ids[[3, 700, 1600]])


def look_at_index(folder: str) -> dict:
    """Return all that an index holds and finds, as JSON can hold it; its generation and its layout do not matter."""
    from lbhash.index import Index

    index = Index.open(folder, mode="a")
    index.verify()
    ids = index.ids()
    order = np.argsort(ids)
    ids = ids[order]
    found = index.search(index.codes_of(ids[:3]), 5)
    return {
        "ids": ids.tolist(),
        "codes": index.codes_of(ids).tolist(),
        "metadata": index.metadata_of(ids).to_pylist(),
        "vectors": index.vectors_of(ids).tolist() if index.vectors else None,
        "distances": found.distances.tolist(),
    }


def look_at_model(folder: Path) -> dict:
    """Return what a trained model's folder holds, without how long it took."""
    metrics = json.loads((folder / "metrics.json").read_text())
    del metrics["train_seconds"], metrics["alternatives"]  # of these as many as there is time for
    with (folder / "logs" / "metrics.csv").open(newline="") as opened:
        log = list(csv.reader(opened))
    weights = (folder / "model.safetensors").read_bytes().hex()
    return {"metrics": metrics, "config": (folder / "config.json").read_text(), "weights": weights, "log": log}


def look_at_codes(folder: Path) -> dict:
    """Return the files of a folder of codes."""
    return {file.name: file.read_bytes().hex() for file in sorted(folder.iterdir()) if file.name != ".lock"}
