"""What class centers that are farther apart do to the codes. Writes a part of ``docs/centers.md``.

    python -m benchmarks.experiments.centers_effect --data cifar10=FILE --data tiny-imagenet=FILE --data mosaic=FILE

CSQ and CSQ_D with six kinds of centers. Kinds that give the same centers share one trial.
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
import pandas as pd
from benchmarks.experiments.shared import asked, markdown, options, run, show

from lbhash.centers.targets import centers_fingerprint
from lbhash.hasher import Hasher
from lbhash.training.settings import grouped

PART = "effect"
KINDS = ["best", "best-ratio", "hadamard", "bch", "reed-solomon", "random"]
PULLS = {"csq": "none", "csq_d": "surrogate"}
KEY = ["data", "method", "bits", "seed"]


def trained(given: argparse.Namespace) -> pd.DataFrame:
    """Return the mAP of every kind of centers, in percent, for each data set, method, length and seed."""
    trials, cells = {}, []
    for seed, bits, source, method, kind in product(range(given.seeds), given.bits, given.data, PULLS, KINDS):
        centers = centers_fingerprint(source.classes(), bits, kind, seed)
        own = {"pull": PULLS[method], "centers": kind, "recipe": "paper", "seed": seed, "device": "cpu"}
        columns = {"data": source.name, "method": method, "bits": bits, "seed": seed, "centers": centers}
        hasher = Hasher(**grouped(bits=bits, method="csq", epochs=given.epochs, **own))
        trials.setdefault(tuple(columns.values()), (columns | {"epochs": given.epochs}, hasher, source))
        cells.append(columns | {"kind": kind})
    found = run(((of, asked(source, hasher, source.top_k())) for of, hasher, source in trials.values()), given)
    maps = pd.DataFrame(cells).merge(found[[*KEY, "centers", "map"]])
    return 100 * maps.pivot_table("map", KEY, "kind", sort=False)


def table(maps: pd.DataFrame) -> pd.DataFrame:
    """Return the best centers' mAP less that of the others, in points, by data set and method."""
    less = maps[KINDS[1:]].rsub(maps["best"], axis=0)
    by = less.groupby([less.index.get_level_values(name) for name in ("data", "method")], sort=False)
    error = by.std() / np.sqrt(by.count())
    shown = by.mean().map("{:+.1f}".format) + error.map("±{:.1f}".format)
    shown.insert(0, "best −", [", ".join(pair) for pair in shown.index])
    return shown


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write the table."""
    parser = options(__doc__, PART, "docs/centers.md", data=None, bits=(16, 32, 48, 64), epochs=12, seeds=3)
    given = parser.parse_args(arguments)
    if given.seeds < 2:
        parser.error(f"seeds is {given.seeds}; it must be at least 2, for the standard deviations")
    show(markdown(table(trained(given))), PART, given.page)


if __name__ == "__main__":
    main()
