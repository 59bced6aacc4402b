"""The demo: training, encoding, evaluation and search on scikit-learn's digits, with a report."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from lbhash.cli.demo_report import Neighborhood, bits_apart, write_report
from lbhash.cli.tables import print_metrics
from lbhash.codes.io import CodeTable
from lbhash.data import Dataset, load_dataset
from lbhash.evaluation.report import Report, evaluate
from lbhash.hasher import Hasher
from lbhash.index import Index, build_index

METHODS = (("hashnet", False), ("hashnet", True), ("csq", False), ("csq", True))
BITS = 16
SMALL_DATA: dict[str, Any] = {"batch_size": 16, "dropout": 0.2}  # for few rows and few inputs, each of which matters
NEIGHBORS = 7
QUERIES = 3


def run_demo(out: str | Path, seed: int = 0, epochs: int = 30) -> None:
    """Train HashNet, HashNet_D, CSQ and CSQ_D at 16 bits on digits, and write ``out/report.html``.

    ``out`` also gets the guided CSQ's model and its index; what an earlier demo left there is replaced.
    """
    folder = Path(out)
    console = Console()
    dataset = load_dataset("digits", seed=seed)
    console.print(
        f"handwritten digits: {len(dataset.train)} to train, {len(dataset.base)} in the base, "
        f"{len(dataset.query)} queries; codes of {BITS} bits, {epochs} epochs, seed {seed}\n"
    )
    results, reports = [], {}
    for method, guided in METHODS:
        hasher = Hasher(BITS, method, guided, epochs, seed, **SMALL_DATA, progress=True)
        metrics, reports[hasher.name] = _run(hasher, dataset)
        results.append(metrics)
    print_metrics(results, title=f"digits, {BITS} bits, mAP over the whole base")

    hasher.model_.metadata |= {"data": "digits", "protocol": "digits", "split_seed": seed}
    hasher.save_pretrained(folder / "model")
    base = dataset.base
    table = CodeTable(hasher.encode_split(base), BITS, base.rows, base.labels, hasher.model_.fingerprint())
    index = build_index(table, folder / "index", overwrite=True)
    found = search_examples(hasher, index, dataset)
    _print_images(console, dataset, found, hasher.name)

    write_report(folder / "report.html", results, reports, dataset, found, searched=hasher.name, seed=seed)
    console.print(f"\nThe report is {folder / 'report.html'}; open it in a browser.", soft_wrap=True)
    console.print("To search the codes yourself, run this and open http://127.0.0.1:8000:\n", soft_wrap=True)
    served = shlex.join(["--model", str(folder / "model"), "--index", str(folder / "index"), "--data", "digits"])
    console.print(Text(f"  lbhash serve {served}\n"), soft_wrap=True)
    console.print(
        "Next, on your own embeddings (a Parquet file with the columns embedding and label):\n", soft_wrap=True
    )
    for line in (
        "lbhash train --data FILE.parquet --method csq --bits 64 --out model",
        "lbhash index build --model model --data FILE.parquet --split base --out index",
        "lbhash search --model model --index index --data FILE.parquet --row 0 -k 10",
    ):
        console.print(Text(f"  {line}"), soft_wrap=True)


def search_examples(hasher: Hasher, index: Index, dataset: Dataset) -> list[Neighborhood]:
    """Search for the nearest codes of a query of each of the first three classes."""
    labels = dataset.query.labels
    assert labels is not None
    first = np.array([np.flatnonzero(labels == label)[0] for label in range(QUERIES)])
    codes = hasher.encode_split(dataset.query)[first]
    distances, rows = index.search(codes, NEIGHBORS)
    return [Neighborhood(int(dataset.query.rows[q]), r, d) for q, r, d in zip(first, rows, distances, strict=True)]


def _run(hasher: Hasher, dataset: Dataset) -> tuple[dict[str, Any], Report]:
    started = time.perf_counter()
    hasher.fit_split(dataset.train, dataset.classes)
    seconds = time.perf_counter() - started
    query, base = hasher.encode_split(dataset.query), hasher.encode_split(dataset.base)
    report = evaluate(query, dataset.query.labels, base, dataset.base.labels)
    return {"method": hasher.name, "train_seconds": seconds, **report.as_dict()}, report


def _print_images(console: Console, dataset: Dataset, found: list[Neighborhood], name: str) -> None:
    console.print(f"\nThree queries (left) and their {NEIGHBORS} nearest codes by {name}, with their distances:")
    color = console.color_system is not None
    for hood in found:
        images = [_image(dataset.base.embeddings[row], color) for row in (hood.query, *hood.rows)]
        for line in range(4):
            console.print(Text("  ").join([image[line] for image in images]))
        captions = ["query".ljust(8)] + [bits_apart(distance).ljust(8) for distance in hood.distances]
        console.print(Text("  ".join(captions), style="dim"))


def _image(pixels: np.ndarray, color: bool) -> list[Text]:
    """Return 8 × 8 gray values from 0 to 16 as four lines, two pixels a character, in shades if there is no color."""
    gray = np.clip(pixels.reshape(8, 8).astype(int) * 255 // 16, 0, 255)
    lines = []
    for top, bottom in zip(gray[::2], gray[1::2], strict=True):
        line = Text()
        for upper, lower in zip(top, bottom, strict=True):
            if color:
                line.append("▀", style=f"rgb({upper},{upper},{upper}) on rgb({lower},{lower},{lower})")
            else:
                line.append(" ░▒▓█"[(upper + lower) * 5 // 511])
        lines.append(line)
    return lines
