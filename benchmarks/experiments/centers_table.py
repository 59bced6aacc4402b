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
        dict(zip(("classes", "bits", "distance", "bound"), (*at, *found), strict=True)) for at, found in cells.items()
    ]
    write_csv(given.out.with_name("center-distances.csv"), lines)
    replace_part(given.out, "distances", grid(cells, *SHOWN))


def cell(classes: int, bits: int) -> tuple[int, int]:
    """Return the smallest distance of the best centers, and the upper bound."""
    from lbhash.centers import minimum_distance
    from lbhash.centers.best import best_centers
    from lbhash.centers.bounds import upper_bound

    found = minimum_distance(best_centers(classes, bits)[0]), upper_bound(classes, bits).distance
    print(f"{classes} x {bits}: {found[0]} of {found[1]}", file=sys.stderr, flush=True)
    return found


def grid(cells: dict[tuple[int, int], tuple[int, int]], classes: Sequence[int], lengths: Sequence[int]) -> str:
    """Smallest distances, a row a number of classes: bold if proven optimal, else with the upper bound."""

    def shown(count: int, bits: int) -> str:
        if (count, bits) not in cells:
            return "–"
        distance, bound = cells[count, bits]
        return f"**{distance}**" if distance == bound else f"{distance} (≤ {bound})"

    rows = [[f"{count:,}", *(shown(count, bits) for bits in lengths)] for count in classes]
    proven = sum(distance == bound for distance, bound in cells.values())
    table = markdown_table(["classes", *(f"{bits} bits" for bits in lengths)], rows, left=-1)
    return f"{table}\n\n{proven} of the {len(cells)} distances are proven optimal."


if __name__ == "__main__":
    main()
