"""How far apart class centers are, for many numbers of classes and bits. Writes parts of two pages of the docs.

    python -m benchmarks.experiments.centers_table

Every cell is made anew, without the cache, and every distance is counted over all pairs.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.experiments.page import check_part, replace_part

CLASSES = (2, 10, 21, 77, 81, 100, 150, 200, 365, 1000, 10000, 21841)
BITS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 256)
PAPER = ("reed-solomon", "bch", "hadamard")
PUBLISHED = {
    "reed-solomon": {(10, 16): 6, (10, 32): 14, (10, 48): 21, (21, 16): 5, (21, 32): 12, (21, 48): 19}
    | {(100, 16): 4, (100, 32): 10, (100, 48): 16},
    "bch": {(10, 16): 7, (10, 32): 16, (10, 48): 21, (21, 16): 4, (21, 32): 12, (21, 48): 19}
    | {(100, 16): 2, (100, 32): 9, (100, 48): 14},
    "hadamard": {(10, 16): 8, (10, 32): 16, (10, 48): 19, (21, 16): 8, (21, 32): 16, (21, 48): 19}
    | {(100, 16): 3, (100, 32): 8, (100, 48): 14},
}
"""Minimum distances in the paper's table of centers; Hadamard stands for "Hadamard or random" with 100 classes."""


def main() -> None:
    """Make all cells, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/centers.md"))
    parser.add_argument("--cells", type=Path, default=Path("docs/centers-cells.md"))
    given = parser.parse_args()
    try:
        check_part(given.out, "distances")
        check_part(given.cells, "cells")
    except ValueError as error:
        parser.error(str(error))
    cells = {(c, h): cell(c, h) for c in CLASSES for h in BITS if c <= 2**h}
    replace_part(given.out, "distances", f"{grid(cells)}\n\n{beside_linear_codes()}")
    parts = ["### Beside the paper's", beside_the_paper(cells), "### Cell by cell", details(cells)]
    replace_part(given.cells, "cells", "\n\n".join(parts))


def cell(classes: int, bits: int) -> dict[str, Any]:
    """The best centers of a cell beside the paper's three constructions."""
    from lbhash.centers import class_centers, minimum_distance
    from lbhash.centers.best import best_centers
    from lbhash.centers.bounds import upper_bound
    from lbhash.centers.bounds.best_linear import best_known_linear
    from lbhash.centers.constructions.linear import dimension_for

    started = time.perf_counter()
    centers, construction = best_centers(classes, bits)
    distance = minimum_distance(centers)
    seconds = time.perf_counter() - started
    bound = upper_bound(classes, bits)
    paper = {kind: minimum_distance(class_centers(classes, bits, kind)) for kind in PAPER}
    print(f"{classes} x {bits}: {distance} of {bound.distance}, {seconds:.2f} s", file=sys.stderr, flush=True)
    return {
        "distance": distance,
        "bound": bound,
        "linear": best_known_linear(bits, dimension_for(classes)),
        "construction": construction,
        "seconds": seconds,
        "paper": paper,
    }


def grid(cells: dict[tuple[int, int], dict[str, Any]]) -> str:
    """Minimum distances, a row a number of classes; with the upper bound where it is larger."""
    lines = [f"| classes | {' | '.join(f'{bits} bits' for bits in BITS)} |", "|--:" * (len(BITS) + 1) + "|"]
    for classes in CLASSES:
        row = [f"{classes:,}"]
        for bits in BITS:
            found = cells.get((classes, bits))
            row.append("–" if found is None else _distance(found))
        lines.append(f"| {' | '.join(row)} |")
    proven = sum(found["distance"] == found["bound"].distance for found in cells.values())
    lines.append(f"\n{proven} of the {len(cells)} distances are proven optimal.")
    return "\n".join(lines)


def beside_linear_codes() -> str:
    """For every dimension, how many of the lengths from 4 to 256 have the distance of the best linear code known."""
    from lbhash.centers.bounds.best_linear import best_known_linear
    from lbhash.centers.constructions.linear_table import best_linear_code

    lines = ["| words | lengths | as large | 1 below | 2 below | more | below May 2006 |", f"|{'--:|' * 7}"]
    totals = [0] * 6
    for k in range(1, 16):
        codes = [code for n in range(max(4, k), 257) if (code := best_linear_code(n, k))]
        gaps = [(best_known_linear(code.n, k) or 0) - code.d for code in codes]
        old = sum(code.d < (best_known_linear(code.n, k, of_2006=True) or 0) for code in codes)
        counts = [len(gaps), sum(gap <= 0 for gap in gaps), gaps.count(1), gaps.count(2)]
        counts += [sum(gap > 2 for gap in gaps), old]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        lines.append(f"| {2**k:,} | {' | '.join(map(str, counts))} |")
    lines.append(f"| all | {' | '.join(f'{total:,}' for total in totals)} |")
    return "\n".join(lines)


def beside_the_paper(cells: dict[tuple[int, int], dict[str, Any]]) -> str:
    """Minimum distances of the paper's three constructions here, and in parentheses those that the paper reports."""
    lines = [f"| classes | bits | {' | '.join(PAPER)} | best |", "|--:|--:|--:|--:|--:|--:|"]
    for cell_of in sorted(PUBLISHED["bch"]):
        found = cells[cell_of]
        values = [f"{found['paper'][kind]} ({PUBLISHED[kind][cell_of]})" for kind in PAPER]
        lines.append(f"| {cell_of[0]} | {cell_of[1]} | {' | '.join(values)} | {found['distance']} |")
    return "\n".join(lines)


def details(cells: dict[tuple[int, int], dict[str, Any]]) -> str:
    """A row a cell."""
    columns = ["classes", "bits", "distance", "linear", "upper bound", "proven by", "construction", *PAPER, "seconds"]
    lines = [f"| {' | '.join(columns)} |", "|--:|--:|--:|--:|--:|:--|:--|--:|--:|--:|--:|"]
    for (classes, bits), found in cells.items():
        values = [
            f"{classes:,}",
            bits,
            found["distance"],
            found["linear"],
            found["bound"].distance,
            found["bound"].source,
        ]
        values += [found["construction"].replace("|", "\\|")]
        values += [found["paper"][kind] for kind in PAPER] + [f"{found['seconds']:.2f}"]
        lines.append(f"| {' | '.join(map(str, values))} |")
    return "\n".join(lines)


def _distance(found: dict[str, Any]) -> str:
    distance, bound = found["distance"], found["bound"].distance
    return f"**{distance}**" if distance == bound else f"{distance} (≤ {bound})"


if __name__ == "__main__":
    main()
