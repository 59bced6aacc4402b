"""Schrijver's semidefinite bound on A(n, d), proven in exact arithmetic: how ``semidefinite.csv`` was found.

    python -m benchmarks.code_search.semidefinite --cells 32,15 64,31 --out benchmarks/code_search/semidefinite.npz

solves the program for each length and distance, and prints a line of ``semidefinite.csv`` where the bound is below that
of the linear program. ``--out`` keeps the certificates, by which ``certified_bound`` proves the lines without a solver.
It needs Clarabel (``pip install clarabel``).

For a code C whose distances are all even, x_ijt is the number of (X, Y, Z) in C³ with Y and Z at distances i and j from
X, and t places in which both differ from it, divided by |C| times the number of such pairs among all words. It depends
on the three distances i, j, i + j - 2t alone, and is 0 if one of them is in 1 .. d - 1. Then for k = 0 .. n/2 the
matrices Σ_t β_ijkt x_ijt and Σ_t β_ijkt (x_(i+j-2t)00 - x_ijt) have no negative eigenvalue, 0 <= x_ijt <= x_i00, and
Σ_i C(n, i) x_i00 is |C|.

Source: A. Schrijver, New code upper bounds from the Terwilliger algebra and semidefinite programming, IEEE Trans. Inf.
Theory 51 (2005) 2859-2866, equations 4, 21 and 22.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.centers.bounds.delsarte import delsarte
from lbhash.centers.bounds.elementary import even_form

Distances = tuple[int, int, int]  # of three words, in order
Sum = dict[Distances, int]  # of unknowns x, by what each is multiplied with
Matrix = npt.NDArray[np.floating]


class Block(NamedTuple):
    """A matrix of sums of unknowns that has no negative eigenvalue, its rows i, and 1 over the size of each row."""

    rows: list[int]
    cells: dict[tuple[int, int], Sum]  # by places in ``rows``, on and above the diagonal
    scale: Matrix


class Program(NamedTuple):
    """The program of a length and an even distance."""

    counts: dict[
        Distances, int
    ]  # the unknowns, by how many pairs (Y, Z) have these distances from a word and each other
    blocks: list[Block]
    below: list[tuple[Distances, Distances]]  # x of the first is at most x of the second


def beta(n: int, i: int, j: int, k: int, t: int) -> int:
    """Return β_ijkt (equation 4)."""
    places = range(max(t, k), min(n - k, i, j) + 1)
    return sum(
        (-1) ** (u - t)
        * math.comb(u, t)
        * math.comb(n - 2 * k, u - k)
        * math.comb(n - k - u, i - u)
        * math.comb(n - k - u, j - u)
        for u in places
    )


def program(n: int, d: int) -> Program:
    """Return the program of words of n bits with even distances, of which d is the least."""
    allowed = [0, *range(d, n + 1, 2)]
    counts: dict[Distances, int] = {}
    for i, j in product(allowed, repeat=2):
        for t in range(max(0, i + j - n), min(i, j) + 1):
            if (last := i + j - 2 * t) in allowed:
                counts[_sorted(i, j, last)] = math.comb(n, i) * math.comb(i, t) * math.comb(n - i, j - t)
    below = [(x, (0, i, i)) for x in counts for i in sorted(set(x)) if x != (0, i, i) and x[0]]
    blocks = []
    for k, parity in product(range(n // 2 + 1), range(2)):
        rows = [i for i in range(k, n - k + 1) if i % 2 == parity]
        known = [i for i in rows if i in allowed]
        sizes = {i: 1 / math.sqrt(math.comb(n - 2 * k, i - k)) for i in rows}
        if known:
            scale = np.array([sizes[i] * math.sqrt(math.comb(n, i)) for i in known])
            blocks.append(Block(known, _cells(n, k, known, counts, complement=False), scale))
        if rows:
            scale = np.array([sizes[i] for i in rows])
            blocks.append(Block(rows, _cells(n, k, rows, counts, complement=True), scale))
    return Program(counts, blocks, below)


def _sorted(i: int, j: int, last: int) -> Distances:
    first, second, third = sorted((i, j, last))
    return first, second, third


def _cells(
    n: int, k: int, rows: list[int], counts: dict[Distances, int], *, complement: bool
) -> dict[tuple[int, int], Sum]:
    """Return the sums of a block: of the first kind, or of the second, the complement of the code."""
    cells = {}
    for a, b in product(range(len(rows)), repeat=2):
        if a > b:
            continue
        i, j = rows[a], rows[b]
        found: Sum = {}
        for t in range(max(0, i + j - n), min(i, j) + 1):
            weight, last = beta(n, i, j, k, t), i + j - 2 * t
            for x, sign in ((_sorted(i, j, last), -1 if complement else 1), (_sorted(0, last, last), int(complement))):
                if sign and weight and x in counts:
                    found[x] = found.get(x, 0) + sign * weight
        cells[a, b] = found
    return cells


def solve(n: int, d: int) -> tuple[float, list[Matrix], list[float]]:
    """Return the program's value and its dual: for each block L, of the multiplier L Lᵀ, and those of ``below``.

    Unknowns are solved for times their counts, as a share of all words or pairs, and rows times their scale, so that
    all are near 1.
    """
    import clarabel
    from scipy import sparse

    counts, blocks, below = program(n, d)
    most = delsarte(n, d)
    sizes = {x: Fraction(count, most if x[0] == 0 else most**2) for x, count in counts.items()}
    unknown = {x: place for place, x in enumerate(x for x in counts if x != (0, 0, 0))}
    columns, constant, cones = [], [], []

    def add(coefficients: dict[Distances, float]) -> None:
        """Append a row of s = constant - Σ column y."""
        constant.append(coefficients.pop((0, 0, 0), 0.0))
        columns.append({unknown[x]: -value / float(sizes[x]) for x, value in coefficients.items()})

    for x in unknown:
        add({x: float(sizes[x])})
    least = [float(min(sizes[low], sizes[high])) for low, high in below]
    for (low, high), size in zip(below, least, strict=True):
        add({low: -size, high: size})
    cones.append(clarabel.NonnegativeConeT(len(columns)))
    for rows, cells, scale in blocks:
        for b in range(len(rows)):
            for a in range(b + 1):
                factor = scale[a] * scale[b] * (1 if a == b else math.sqrt(2))
                add({x: value * factor for x, value in cells[a, b].items()})
        cones.append(clarabel.PSDTriangleConeT(len(rows)))
    entries = [(row, column, value) for row, line in enumerate(columns) for column, value in line.items()]
    row, column, value = zip(*entries, strict=True)
    matrix = sparse.csc_matrix((value, (row, column)), shape=(len(columns), len(unknown)))
    aim = np.array([-float(most) if x[0] == 0 else 0.0 for x in unknown])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix((len(unknown),) * 2), aim, matrix, np.array(constant), cones, settings
    ).solve()
    dual = np.array(solution.z)
    start = len(unknown)
    multipliers = [max(0.0, value) * size for value, size in zip(dual[start:], least, strict=False)]
    start += len(below)
    factors = []
    for rows, _, scale in blocks:
        size = len(rows)
        square = np.zeros((size, size))
        for b in range(size):
            for a in range(b + 1):
                square[a, b] = square[b, a] = dual[start] / (1 if a == b else math.sqrt(2))
                start += 1
        roots, vectors = np.linalg.eigh(square)
        kept = roots > 1e-8 * max(roots)  # the others are rounding
        factors.append(scale[:, None] * vectors[:, kept] * np.sqrt(roots[kept]))
    return 1 - float(aim @ np.array(solution.x)), factors, multipliers


def certified_bound(n: int, d: int, factors: list[Matrix], multipliers: list[float]) -> int:
    """Return a bound on A(n, d), for even d, that these numbers prove, whatever they are; all in exact arithmetic.

    |C| is at most |C| + Σ <L Lᵀ, block> + Σ m (x_high - x_low), for m >= 0: a sum of the unknowns, of which x_000 is 1.
    Without rounding no other would have a positive factor. Times their counts they are numbers of words, or of pairs of
    words, at most M and M² together, where M is the bound of the linear program.
    """
    counts, blocks, below = program(n, d)
    most = delsarte(n, d)
    total = {x: Fraction(math.comb(n, x[2])) if x[0] == 0 else Fraction(0) for x in counts}
    for (_, cells, _), factor in zip(blocks, factors, strict=True):
        exact = [[Fraction(float(value)) for value in row] for row in factor]
        for (a, b), found in cells.items():
            weight = sum((p * q for p, q in zip(exact[a], exact[b], strict=True)), Fraction(0)) * (1 if a == b else 2)
            for x, value in found.items():
                total[x] += weight * value
    for (low, high), value in zip(below, multipliers, strict=True):
        size = Fraction(float(value))
        if size < 0:
            raise ValueError(f"a multiplier is {value}; it must be at least 0")
        total[low] -= size
        total[high] += size
    bound = total.pop((0, 0, 0))
    for alone, pairs in ((True, most), (False, most**2)):
        rest = [value / counts[x] for x, value in total.items() if (x[0] == 0) == alone]
        bound += pairs * max(Fraction(0), *rest)
    return math.floor(bound)


def main() -> None:
    """Solve, certify, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", required=True, metavar="N,D")
    parser.add_argument("--out", type=Path, help="file of certificates; those that it has stay")
    given = parser.parse_args()
    kept: dict[str, Any] = dict(np.load(given.out)) if given.out and given.out.exists() else {}
    for n, d in _even(given.cells):
        value, factors, multipliers = solve(n, d)
        short = [factor.astype(np.float32) for factor in factors], [float(np.float32(m)) for m in multipliers]
        bound = certified_bound(n, d, *short)
        print(f"{n},{d},{bound}  # solved {value:.3f}, linear program {delsarte(n, d)}", flush=True)
        if given.out and bound < delsarte(n, d):
            kept |= {f"{n},{d},{place}": factor for place, factor in enumerate(short[0])}
            kept[f"{n},{d},below"] = np.array(short[1], np.float32)
            np.savez_compressed(given.out, **kept)


def _even(cells: list[str]) -> Iterator[tuple[int, int]]:
    for cell in cells:
        n, d = map(int, cell.split(","))
        yield even_form(n, d)


if __name__ == "__main__":
    main()
