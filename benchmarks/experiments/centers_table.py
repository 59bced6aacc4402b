"""How far apart class centers are, for many numbers of classes and bits. Writes a part of ``docs/centers.md``.

    python -m benchmarks.experiments.centers_table

Every cell is made anew, without the cache, and every distance is counted over all pairs. The page shows some of them;
``center-distances.csv`` beside it has all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.experiments.page import check_part, markdown_table, replace_part, write_csv

CLASSES = (2, 10, 21, 100, 150, 200, 365, 1000, 10000, 21841)
BITS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
SHOWN = (10, 100, 1000, 10000), (16, 32, 64, 128)

Cell = tuple[int, str | None]


def main() -> None:
    """Make all cells, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/centers.md"))
    given = parser.parse_args()
    try:
        check_part(given.out, "distances")
    except ValueError as error:
        parser.error(str(error))
    cells = {(c, h): cell(c, h) for c in CLASSES for h in BITS if c <= 2**h}
    lines = [
        dict(zip(("classes", "bits", "distance", "proof"), (*at, *found), strict=True)) for at, found in cells.items()
    ]
    write_csv(given.out.with_name("center-distances.csv"), lines)
    replace_part(given.out, "distances", grid(cells, *SHOWN))


def cell(classes: int, bits: int) -> Cell:
    """Return the smallest distance of the best centers, and the bound that proves it to be the largest, if one does."""
    from lbhash.centers import minimum_distance
    from lbhash.centers.best import best_centers
    from lbhash.centers.bounds import proof

    distance = minimum_distance(best_centers(classes, bits)[0])
    print(f"{classes} x {bits}: {distance}", file=sys.stderr, flush=True)
    return distance, proof(classes, bits, distance)


def grid(cells: dict[tuple[int, int], Cell], classes: Sequence[int], lengths: Sequence[int]) -> str:
    """Smallest distances, a row a number of classes: bold if proven optimal."""

    def shown(count: int, bits: int) -> str:
        if (count, bits) not in cells:
            return "–"
        distance, proven = cells[count, bits]
        return f"**{distance}**" if proven else str(distance)

    rows = [[f"{count:,}", *(shown(count, bits) for bits in lengths)] for count in classes]
    optimal = sum(proven is not None for _, proven in cells.values())
    table = markdown_table(["classes", *(f"{bits} bits" for bits in lengths)], rows, left=-1)
    return f"{table}\n\n{optimal} of the {len(cells)} distances are proven optimal."


if __name__ == "__main__":
    main()
