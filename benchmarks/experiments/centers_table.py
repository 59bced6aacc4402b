"""How far apart class centers are, for many numbers of classes and bits. Writes a part of ``docs/centers.md``.

    python -m benchmarks.experiments.centers_table

Every cell is made anew, without the cache, and every distance is counted over all pairs. The page shows some of them;
``center-distances.csv`` beside it has all.
"""

from __future__ import annotations

import sys
from itertools import product

import pandas as pd
from benchmarks.experiments.shared import markdown, options, show, write_csv

from lbhash.centers.best import best_centers
from lbhash.centers.bounds import proof
from lbhash.centers.distance import minimum_distance

PART = "distances"
CLASSES = (2, 10, 21, 100, 150, 200, 365, 1000, 10000, 21841)
BITS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
SHOWN = [10, 100, 1000, 10000], [16, 32, 64, 128]


def cell(classes: int, bits: int) -> dict[str, object]:
    """Return the smallest distance of the best centers, and the bound that proves it to be the largest, if one does."""
    distance = minimum_distance(best_centers(classes, bits)[0])
    print(f"{classes} x {bits}: {distance}", file=sys.stderr, flush=True)
    return {"classes": classes, "bits": bits, "distance": distance, "proof": proof(classes, bits, distance)}


def grid(cells: pd.DataFrame, classes: list[int], lengths: list[int]) -> str:
    """Return smallest distances, a row a number of classes: bold if proven optimal."""
    distances, optimal = cells["distance"].astype(str), cells["proof"].notna()
    shown = cells.assign(shown=distances.where(~optimal, "**" + distances + "**"))
    table = (
        shown.pivot(index="classes", columns="bits", values="shown")
        .reindex(classes, columns=lengths)
        .astype(object)
        .fillna("–")
    )
    table = table.rename(index="{:,}".format, columns="{} bits".format).reset_index()
    return f"{markdown(table, left=-1)}\n\n{optimal.sum()} of the {len(cells)} distances are proven optimal."


def main(arguments: list[str] | None = None) -> None:
    """Make all cells, and write the table."""
    given = options(__doc__, PART, "docs/centers.md", trials=False).parse_args(arguments)
    cells = pd.DataFrame([cell(classes, bits) for classes, bits in product(CLASSES, BITS) if classes <= 2**bits])
    write_csv(cells, given.page.with_name("center-distances.csv"))
    show(grid(cells, *SHOWN), PART, given.page)


if __name__ == "__main__":
    main()
