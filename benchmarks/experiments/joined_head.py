"""mAP of codes whose bits are joined with a linear model's class posterior, beside either alone and ridge regression.

    python -m benchmarks.experiments.joined_head --data cifar10=FILE --data tiny-imagenet@1000=FILE --bits 16,64

Train, base and queries are cut from the train rows, unless ``--queries`` asks those of the data. Each cell leaves a
JSON file under ``--runs``; an interrupted table goes on. The table is printed.
"""

from __future__ import annotations

import argparse
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.experiments.data import parsed
from benchmarks.experiments.page import markdown_table
from benchmarks.experiments.scored import fit_seeds

from lbhash.codes import pack
from lbhash.data import Dataset, EmbeddingSplit, load_dataset, validation_dataset
from lbhash.evaluation.report import evaluate
from lbhash.hasher import Hasher
from lbhash.utils.parallel import read_run, write_run

HEADS = ("bits", "ridge", "logistic", "joined")


@cache
def dataset(file: str, protocol: str | None, queries: bool) -> Dataset[EmbeddingSplit]:
    """Return a data set as it is, or cut from its train rows."""
    data = load_dataset(file, protocol=protocol)
    return data if queries else validation_dataset(data)


def execute(data: Dataset[EmbeddingSplit], at: int | None, guided: bool, bits: int, given: Any) -> dict[str, Any]:
    """Train every seed with the head "joined", and return the mAP of its bits, of two coders, and of both joined."""
    part, classes = data.train.compact()
    settings: dict[str, Any] = {"guided": guided, "epochs": given.epochs, "device": "cpu"}
    started = time.process_time()
    trained = fit_seeds(Hasher(bits, "csq", head="joined", **settings), part, len(classes), range(given.seeds))
    joined = time.process_time() - started
    coders = {
        name: [Hasher(bits, name, seed=seed).fit_split(part, len(classes)) for seed in range(given.seeds)]
        for name in ("ridge", "logistic")
    }
    found: dict[str, list[float]] = {"joined": [_map(one, data, at) for one in trained]}
    for one in trained:
        one.model_.posterior = None  # its bits are those of the same network without the head
    found |= {name: [_map(one, data, at) for one in ones] for name, ones in {"bits": trained, **coders}.items()}
    choice = trained[0].model_.metadata["posterior"]
    return {"map": found, "choice": choice, "seconds": joined / given.seeds}


def _map(hasher: Hasher, data: Dataset[EmbeddingSplit], at: int | None) -> float:
    query, base = (
        pack(np.concatenate([hasher.model_.outputs(chunk) for chunk in part.chunks()]))
        for part in (data.query, data.base)
    )
    return float(evaluate(query, data.query.labels, base, data.base.labels, at, bits=hasher.bits).map)


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME[@R]=FILE")
    parser.add_argument("--bits", type=lambda text: [int(one) for one in text.split(",")], default=[16, 32, 64, 128])
    parser.add_argument("--hosts", default="csq_d", help="csq, csq_d or both, with a comma")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--protocol", help="splits by this protocol, such as unseen")
    parser.add_argument("--queries", action="store_true", help="ask the queries of the data")
    parser.add_argument("--runs", type=Path, default=Path("runs/joined-head"))
    given = parser.parse_args()
    rows = []
    for source in parsed(parser, given.data):
        for bits in given.bits:
            for host in given.hosts.split(","):
                kind = f"{given.protocol or 'own'}-{'queries' if given.queries else 'held-out'}"
                cell = f"{source}-{kind}-{host}-{bits}bits-{given.epochs}epochs-{given.seeds}seeds.json"
                if not (given.runs / cell).exists():
                    data = dataset(source.file, given.protocol, given.queries)
                    at = None if source.at is None else min(source.at, len(data.base))
                    write_run(given.runs / cell, execute(data, at, host == "csq_d", bits, given))
                result = read_run(given.runs / cell)
                maps = [np.asarray(result["map"][head]) for head in HEADS]
                best = max(one.mean() for one in maps)
                cells = [f"{one.mean():.4f} ± {one.std(ddof=min(1, len(one) - 1)):.4f}" for one in maps]
                cells = [f"**{text}**" if one.mean() == best else text for one, text in zip(maps, cells, strict=True)]
                chosen = result["choice"]
                cells += [f"{chosen['weight']:g}", f"{chosen['dither']:g}"]
                rows.append([source.name, str(bits), host, *cells])
                print(*rows[-1], flush=True)
    print(markdown_table(["data", "bits", "host", *HEADS, "λ", "s"], rows, left=1))


if __name__ == "__main__":
    main()
