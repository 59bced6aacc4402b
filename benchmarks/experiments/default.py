"""What ``lbhash train`` takes where nothing is said, beside what it could take: mAP in new rows, and seconds.

    python -m benchmarks.experiments.default --data clinc=FILE --data cifar10=FILE --data mosaic=FILE \
        --data tiny-imagenet=FILE --out FOLDER --page docs/default.md

"default" is CSQ joined with a class posterior, "csq" the same network's bits, "csq_d" CSQ with the paper's guidance in
its searched settings, and "logistic" and "ridge" need no network. All have the same training rows and the same class
centers. Queries are the data's own, and so is the base, without the rows that were trained on. With ``--held-out`` both
are training rows that no way learns from: the choice was made by these. Seconds are those of a processor, one thread.

``--page`` names a page whose part "default" becomes the table, with a picture and a CSV file of every length. A run
that ``--out`` has is not run again.
"""

from __future__ import annotations

import argparse
import time
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from benchmarks.experiments.page import check_part, markdown_table, replace_part, write_csv

from lbhash.reproduce.runs import Source
from lbhash.utils.files import replacing
from lbhash.utils.parallel import run_missing

PART = "default"
BITS = (16, 32, 64, 128)
WAYS = {"default": "network", "csq": "network", "csq_d": "csq_d", "logistic": "logistic", "ridge": "ridge"}
"""Each way, and the fit that gives it."""

Run = dict[str, Any]


@cache
def _dataset(file: str, held_out: bool) -> Any:
    """Return the data with the base's new rows alone."""
    from lbhash.data import load_dataset
    from lbhash.data.holdout import validation_dataset

    data = load_dataset(file)
    data = validation_dataset(data) if held_out else data
    return data.train.compact(), data.base.where(~data.trained_base()).labeled(), data.query.labeled()


def execute(file: str, held_out: bool, fit: str, bits: int, seed: int) -> Run:
    """Fit, and return mAP and seconds of each way that the fit gives."""
    from lbhash.evaluation.report import evaluate
    from lbhash.hasher import Hasher
    from lbhash.models.hash_model import HashModel
    from lbhash.training.fit import join

    (train, classes), base, query = _dataset(file, held_out)

    def line(model: Any, seconds: float) -> Run:
        codes = [np.concatenate([model.encode(chunk) for chunk in part.chunks()]) for part in (query, base)]
        report = evaluate(codes[0], query.labels, codes[1], base.labels, bits=bits)
        return {"map": report.map, "seconds": seconds}

    Hasher(bits, epochs=1).fit_split(train, len(classes))  # what is loaded and compiled, is
    began = time.process_time()
    hasher = Hasher(bits, "csq" if fit == "network" else fit, seed=seed).fit_split(train, len(classes))
    seconds = time.process_time() - began
    found = {fit: line(hasher.model_, seconds)}
    if fit == "network":
        found = {"csq": found[fit]}
        began, model = time.process_time(), HashModel.of(hasher.model_)
        join(model, Hasher(bits, seed=seed), train, len(classes), hasher.centers_)
        seconds += time.process_time() - began
        found["default"] = line(model.encoder(), seconds) | {"weight": model.metadata["posterior"]["weight"]}
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write the table and the CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--bits", nargs="+", type=int, default=list(BITS))
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 0")
    parser.add_argument("--held-out", action="store_true", help="ask held-out training rows, not the queries")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--page", type=Path, help="page whose part becomes the table")
    parser.add_argument("--workers", type=int, default=1, help="runs at a time, one thread each")
    given = parser.parse_args(arguments)
    if given.page is not None:
        check_part(given.page, PART)
    keys = list(product(given.data, given.bits, range(given.seeds), dict.fromkeys(WAYS.values())))
    runs = {
        f"{source.name}-{fit}-{bits}bits-seed{seed}": (source.file, given.held_out, fit, bits, seed)
        for source, bits, seed, fit in keys
    }
    results = run_missing(runs, execute, given.out, given.workers)
    lines = []
    for source, bits, way in product(given.data, given.bits, WAYS):
        names = [f"{source.name}-{WAYS[way]}-{bits}bits-seed{seed}" for seed in range(given.seeds)]
        found = [results[name][way] for name in names]
        line = {"data": source.name, "bits": bits, "way": way, "seeds": given.seeds}
        line |= {f"map_{seed}": round(one["map"], 5) for seed, one in enumerate(found)}
        lines.append(
            line | {"map": fmean(one["map"] for one in found), "seconds": fmean(one["seconds"] for one in found)}
        )
    text = table(lines)
    print(text)
    if given.page is not None:
        replace_part(given.page, PART, text)
        rounded = [line | {"map": round(line["map"], 5), "seconds": round(line["seconds"], 1)} for line in lines]
        write_csv(given.page.with_name("default.csv"), rounded)
        draw(lines, given.page.with_name("default.png"))


def table(lines: list[Run]) -> str:
    """Return the table: mAP in percent, means over the lengths, a row's best in bold, and the default's seconds."""
    rows = []
    for data in dict.fromkeys(line["data"] for line in lines):
        own = {way: [line for line in lines if (line["data"], line["way"]) == (data, way)] for way in WAYS}
        maps = [f"{100 * fmean(line['map'] for line in found):.1f}" for found in own.values()]
        best = max(maps, key=float)
        default, csq_d = (sum(line["seconds"] for line in own[way]) for way in ("default", "csq_d"))
        rows.append([data, *(f"**{one}**" if one == best else one for one in maps), f"{default / csq_d:.2f}"])
    return markdown_table(["data", *WAYS, "seconds / csq_d's"], rows, left=0)


def draw(lines: list[Run], file: Path) -> None:
    """Draw mAP by length, a panel for each data set, without ridge regression, which is far below on most."""
    from lbhash.reproduce.results import panels

    shown = [
        line | {"bits": str(line["bits"]), "mAP, %": 100 * line["map"]} for line in lines if line["way"] != "ridge"
    ]
    figure = panels.lines(shown, "bits", ["mAP, %"], "way", by=("data",), columns=2)
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


if __name__ == "__main__":
    main()
