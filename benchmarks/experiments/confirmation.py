"""Hosts beside their guided forms once more, on classes and rows that a commit's hash draws.

    python -m benchmarks.experiments.confirmation --commit HASH --data tiny-imagenet=FILE --data clinc=FILE \
        --bits 32 --out FOLDER

The hash is that of the commit whose code and settings are confirmed, so that nobody can have chosen them by this draw.
It picks half of the classes of each file, and splits all their rows anew: a fifth of a class are queries, the others
the base, and 100 of these are trained on. The rest, and all further options, are those
of ``benchmarks.experiments.like_for_like``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from benchmarks.experiments import like_for_like

from lbhash.data.protocols import Protocol

PROTOCOL = Protocol("a fifth of a class are queries, the rest the base, and 100 of these are trained on", 0.2, 100)


def drawn(table: pa.Table, commit: str) -> pa.Table:
    """Return the rows of half of the classes, with the columns that say which are trained on, base and queries."""
    seed = int(commit[:12], 16)
    classes = np.unique(table["label"].to_numpy())
    chosen = np.random.default_rng(seed).permutation(classes)[: len(classes) // 2]
    kept = table.filter(pc.is_in(table["label"], pa.array(chosen)))
    for split, rows in PROTOCOL.split(kept["label"].to_numpy(), seed).items():
        flags = np.zeros(len(kept), bool)
        flags[rows] = True
        name = f"in_{split}"
        kept = kept.set_column(kept.schema.get_field_index(name), name, pa.array(flags))
    return kept


def main(arguments: list[str] | None = None) -> None:
    """Draw, train and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE")
    parser.add_argument("--out", type=Path, required=True)
    given, others = parser.parse_known_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    sources = []
    for name, file in (one.split("=", 1) for one in given.data):
        made = given.out / f"{name}-{given.commit[:12]}.parquet"
        pq.write_table(drawn(pq.read_table(file), given.commit), made)
        sources += ["--data", f"{name}={made}"]
    like_for_like.main([*sources, "--out", str(given.out), *others])


if __name__ == "__main__":
    main()
