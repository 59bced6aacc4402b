"""The demo: compare baselines, the paper's recipe and the default on included data, and write a report."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from rich.text import Text

from lbhash.cli.demo_report import Neighborhood, Run, distance_of, neighbor_rows, write_report
from lbhash.cli.tables import print_table
from lbhash.codes import pack_outputs
from lbhash.codes.io import CodeTable
from lbhash.data import Dataset, load_dataset
from lbhash.evaluation.report import evaluate
from lbhash.hasher import Hasher, encode_split, fit_split, outputs_split
from lbhash.index.base import BaseIndex
from lbhash.index.factory import build_index
from lbhash.pipeline.unseen import evaluate_unseen
from lbhash.training.coders import coder_of
from lbhash.training.settings import grouped
from lbhash.trials.questions import Question
from lbhash.trials.ways import embeddings
from lbhash.utils.labels import class_array
from lbhash.utils.terminal import Console

Data = Literal["characters", "digits"]
TITLES = {"characters": "printed characters", "digits": "handwritten digits"}
BITS = {"characters": 32, "digits": 16}  # more classes need longer codes
METHODS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("itq", "ITQ, which does not use labels", {"method": "itq"}),
    ("logistic", "the signs of a logistic regression's outputs", {"method": "logistic"}),
    ("paper csq_d", "CSQ with the guidance; the paper's settings, other centers", {"recipe": "paper"}),
    ("default", "the default: CSQ joined with a linear model", {}),
)
"""Name, description and settings of each line of the table; the last one is the default."""
COLUMNS = ("method", "mAP", "macro mAP", "by bits", "trained on", "unseen mAP", "seconds")
NEIGHBORS = 7
QUERIES = 3


def run_demo(out: str | Path, data: Data = "characters", seed: int = 0, epochs: int = 30) -> None:
    """Train each of ``METHODS`` on an included data set, and write ``out/report.html``.

    ``out`` also gets the last method's model and index. Files of an earlier demo are replaced.
    """
    folder, console = Path(out), Console()
    dataset, bits = load_dataset(data, seed=seed), BITS[data]
    dataset = replace(dataset, base=dataset.base.where(~dataset.trained_base()))
    console.print(
        f"{TITLES[data]}: {dataset.classes} classes, {len(dataset.train):,} images to train, "
        f"{len(dataset.base):,} new ones in the base, {len(dataset.query):,} queries; "
        f"codes of {bits} bits, {epochs} epochs, seed {seed}\n",
        soft_wrap=True,
    )
    runs = []
    for name, about, settings in METHODS:
        hasher = Hasher(**grouped(bits=bits, seed=seed, **settings, progress=True))
        if coder_of(hasher.method) is None:  # coders have no epochs
            hasher.set_params(epochs=epochs)
        runs.append(_run(name, about, hasher, dataset))
    hasher, searched = runs[-1].hasher, runs[-1].name
    print_table(COLUMNS, [run.cells() for run in runs], title=f"{TITLES[data]}, {bits} bits, mAP in new rows")
    pixels = pixels_map(dataset)
    console.print(
        f"the pixels themselves, by their cosine: {pixels:.3f}, in {dataset.train.input_dim()} bytes", style="dim"
    )
    console.print(
        "mAP: by real-valued queries, as searches rank; by bits: by the number of bits that differ", style="dim"
    )
    console.print("macro mAP: the mean over the classes; trained on: mAP in the training rows", style="dim")
    console.print("unseen mAP: of half of the classes, by a training that had only the other half", style="dim")

    hasher.model_.metadata |= {"data": data, "protocol": dataset.protocol, "split_seed": seed}
    hasher.classes_ = class_array(dataset.class_names)
    hasher.save_pretrained(folder / "model")
    base, model = dataset.base, hasher.model_.fingerprint()
    table = CodeTable(runs[-1].base, bits, base.rows, base.labels, model, class_names=dataset.class_names)
    index = build_index(table, folder / "index", overwrite=True)
    found = search_examples(runs[-1], index, dataset)
    _print_images(console, dataset, found, searched)

    given = [str(folder / "index"), "--model", str(folder / "model"), "--data", data]
    serve = f"lbhash serve {shlex.join(given)}"
    compare = f"lbhash compare {data} --bits {bits} --out {shlex.quote(str(folder / 'comparison'))}"
    own = (
        "lbhash compare FILE.parquet --out comparison",
        "lbhash train FILE.parquet --bits 32 --out model",
        "lbhash index build FILE.parquet --model model --out index",
        "lbhash search index --model model --data FILE.parquet --row 0 -k 10",
    )
    report = folder / "report.html"
    told: dict[str, Any] = {"commands": (serve, compare, *own), "seed": seed, "epochs": epochs, "pixels": pixels}
    write_report(report, TITLES[data], COLUMNS, runs, dataset, found, **told)
    console.print(f"\nThe report is {report}; open it in a browser.", soft_wrap=True)
    console.print("To search the codes yourself, run this and open http://127.0.0.1:8000:\n", soft_wrap=True)
    console.print(Text(f"  {serve}\n"), soft_wrap=True)
    console.print("To compare other ways to store these rows, run this, which takes some minutes:\n", soft_wrap=True)
    console.print(Text(f"  {compare}\n"), soft_wrap=True)
    console.print(
        "Next, on your own embeddings (a Parquet file with the columns embedding and label):\n", soft_wrap=True
    )
    for line in own:
        console.print(Text(f"  {line}"), soft_wrap=True)


def pixels_map(dataset: Dataset) -> float:
    """Return the mAP of ranking the images by the cosine of their pixels."""
    question = Question("pixels", dataset.base, dataset.query, ("map",))
    pixels = next(next(embeddings(dataset.train))(question))
    return float(question.answers(pixels)["map"].mean())


def search_examples(run: Run, index: BaseIndex, dataset: Dataset) -> list[Neighborhood]:
    """Search for the codes nearest to three real-valued queries, from classes spread over the label range."""
    labels = np.asarray(dataset.query.labels)
    wanted = np.linspace(0, dataset.classes - 1, QUERIES + 2).astype(int)[1:-1]
    first = np.array([np.flatnonzero(labels == label)[0] for label in wanted])
    found = index.search(outputs=run.outputs[first], k=NEIGHBORS)
    return [
        Neighborhood(int(dataset.query.rows[q]), code, r, index.codes_of(r), d)
        for q, code, r, d in zip(first, run.query[first], found.ids, found.distances, strict=True)
    ]


def _run(name: str, about: str, hasher: Hasher, dataset: Dataset) -> Run:
    started = time.perf_counter()
    fit_split(hasher, dataset.train, dataset.classes)
    seconds = time.perf_counter() - started
    outputs, base = outputs_split(hasher, dataset.query), encode_split(hasher, dataset.base)
    asked = {"query_codes": pack_outputs(outputs), "query_labels": dataset.query.labels, "query_outputs": outputs}
    report = evaluate(base_codes=base, base_labels=dataset.base.labels, **asked)
    known = evaluate(base_codes=hasher.train_codes_, base_labels=dataset.train.labels, **asked)
    (unseen,) = evaluate_unseen(dataset, hasher, draws=1, seed=hasher.seed).figures["unseen_map_real"]
    return Run(name, about, hasher, outputs, base, report, known.map, unseen, seconds)


def _print_images(console: Console, dataset: Dataset, found: list[Neighborhood], name: str) -> None:
    """Print each query with its neighbors, in 80 columns."""
    color = console.color_system is not None
    first = _image(neighbor_rows(dataset, found[0])[0], color)
    width = len(first[0])
    count = min(NEIGHBORS, 82 // (width + 2) - 1)
    console.print(
        f"\nThree queries (left) and their {count} nearest codes by {name}, with their distances:", soft_wrap=True
    )
    for hood in found:
        images = [_image(image, color) for image in neighbor_rows(dataset, hood)[: count + 1]]
        for line in range(len(first)):
            console.print(Text("  ").join([image[line] for image in images]))
        captions = ["query", *map(distance_of, hood.distances[:count].tolist())]
        console.print(Text("  ".join(caption.ljust(width) for caption in captions), style="dim"))


def _image(gray: np.ndarray, color: bool) -> list[Text]:
    """Return gray values from 0 to 255 as lines of text, two pixels per character; without color, in shades."""
    if len(gray) > 16:
        gray = gray.reshape(len(gray) // 2, 2, -1, 2).mean(axis=(1, 3))
        gray = (gray * 255 / gray.max()).astype(int)  # keeps thin strokes visible
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
